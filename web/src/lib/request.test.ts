import { expect, it, vi } from "vitest";
import { ApiError } from "./problem";
import { request } from "./request";

const answer = (body: BodyInit | null, init: ResponseInit) =>
  vi.spyOn(globalThis, "fetch").mockResolvedValue(new Response(body, init));

const failure = (promise: Promise<unknown>) => promise.catch((error: unknown) => error);

it("returns JSON, and nothing for 204", async () => {
  answer('{"a":1}', { headers: { "Content-Type": "application/json; charset=utf-8" } });
  await expect(request("/x")).resolves.toEqual({ a: 1 });
  answer(null, { status: 204 });
  await expect(request("/x")).resolves.toBeUndefined();
});

it("turns problem documents into errors", async () => {
  answer('{"type":"about:blank","title":"Busy","status":503,"detail":"try later"}', { status: 503 });
  expect(await failure(request("/x"))).toMatchObject({ status: 503, title: "Busy", detail: "try later" });
});

it.each(["<html>", "", "null", "[]", '{"title":5,"detail":{}}', "x".repeat(70_000)])(
  "stands refusals that are no problem document (%#)",
  async (body) => {
    answer(body, { status: 502 });
    expect(await failure(request("/x"))).toMatchObject({
      status: 502,
      title: "The operator is not available",
    });
  },
);

it("says when there is no answer at all", async () => {
  vi.spyOn(globalThis, "fetch").mockRejectedValue(new TypeError("Failed to fetch"));
  expect(await failure(request("/x"))).toBeInstanceOf(ApiError);
});

it("lets go of what was aborted", async () => {
  vi.spyOn(globalThis, "fetch").mockRejectedValue(new DOMException("aborted", "AbortError"));
  expect(await failure(request("/x"))).not.toBeInstanceOf(ApiError);
});
