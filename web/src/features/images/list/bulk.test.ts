import { expect, it, vi } from "vitest";
import { planOf } from "./bulk";

const json = (body: object, status = 200) =>
  new Response(JSON.stringify(body), { status, headers: { "Content-Type": "application/json" } });

/**
 * Answers with what the user may do with images, and where these ran: "old" no longer does, "lost" is not known, the others have
 * the names of the actions that the user may not do with them.
 */
function serve() {
  vi.spyOn(globalThis, "fetch").mockImplementation((input) => {
    const url = input as string;
    if (url.includes("lost")) return Promise.resolve(json({ title: "Not found" }, 404));
    if (!url.includes("/presences"))
      return Promise.resolve(
        json({ permissions: { delete: !url.includes("remove"), update: !url.includes("rescan") } }),
      );
    const until = url.includes("old") ? { until: "2026-01-01T00:00:00Z" } : {};
    return Promise.resolve(json({ items: [{ imageId: "x", ...until }], total: 1 }));
  });
}

it.each([
  ["remove", ["old", "old-rescan"], ["new", "rescan"], ["remove"]],
  ["rescan", ["new", "remove"], ["old"], ["old-rescan", "rescan"]],
] as const)("applies %s only where it is possible and permitted", async (action, applies, left, denied) => {
  serve();
  const images = ["old", "new", "old-rescan", "remove", "rescan", "lost"];
  const plan = await planOf(action, images, new AbortController().signal);
  expect({ ...plan, denied: plan.denied.sort() }).toMatchObject({ applies, left, denied });
  expect(plan.failed.map(({ item }) => item)).toEqual(["lost"]);
});

it("leaves it to the request if the operator does not say what is permitted", async () => {
  vi.spyOn(globalThis, "fetch").mockImplementation(() => Promise.resolve(json({ items: [], total: 0 })));
  const plan = await planOf("remove", ["image"], new AbortController().signal);
  expect(plan).toMatchObject({ applies: ["image"], denied: [] });
});
