import { expect, it, vi } from "vitest";
import { planOf } from "./bulk";

const json = (body: object, status = 200) =>
  new Response(JSON.stringify(body), { status, headers: { "Content-Type": "application/json" } });

/** Answers with where images ran: "old" no longer does, "lost" is not known. */
function serve() {
  vi.spyOn(globalThis, "fetch").mockImplementation((input) => {
    const url = input as string;
    if (url.includes("lost")) return Promise.resolve(json({ title: "Not found" }, 404));
    const until = url.includes("old") ? { until: "2026-01-01T00:00:00Z" } : {};
    return Promise.resolve(json({ items: [{ imageId: "x", ...until }], total: 1 }));
  });
}

it.each([
  ["remove", ["old"], ["new"]],
  ["rescan", ["new"], ["old"]],
] as const)("applies %s only where it is possible", async (action, applies, left) => {
  serve();
  const plan = await planOf(action, ["old", "new", "lost"], new AbortController().signal);
  expect(plan).toMatchObject({ applies, left });
  expect(plan.failed.map(({ item }) => item)).toEqual(["lost"]);
});
