import { afterEach, expect, it, vi } from "vitest";
import { imagesOf } from "./images-of";

const listImages = vi.hoisted(() => vi.fn());
vi.mock("@/gen/images/images", () => ({ listImages }));
afterEach(() => vi.clearAllMocks());

const workload = (name: string) => ({ namespace: "shop", kind: "Deployment", name });

it("finds the images of workloads, each once, and says of which workloads not all are known", async () => {
  listImages.mockImplementation(({ workload: name }: { workload: string }) => {
    if (name === "broken") return Promise.reject(new Error("unavailable"));
    const items = (name === "web" ? ["a", "b"] : ["b", "c"]).map((imageId) => ({ imageId }));
    return Promise.resolve({ items, total: name === "large" ? 201 : items.length });
  });
  const workloads = ["web", "db", "broken", "large"].map(workload);
  const { imageIds, failed } = await imagesOf(workloads, new AbortController().signal);
  expect(imageIds.sort()).toEqual(["a", "b", "c"]);
  expect(failed.map(({ item }) => item.name).sort()).toEqual(["broken", "large"]);
  expect(listImages).toHaveBeenCalledWith(
    { namespace: "shop", workload: "web", workloadKind: "Deployment", pageSize: 200 },
    expect.anything(),
  );
});
