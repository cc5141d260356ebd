import { expect, it, vi } from "vitest";
import { ApiError } from "./problem";
import { request, requestBeginning } from "./request";

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

it("reads the beginning of a document, and no more of it", async () => {
  const cancel = vi.fn();
  let sent = 0;
  const endless = new ReadableStream<Uint8Array>({
    pull: (controller) => {
      sent++;
      controller.enqueue(new TextEncoder().encode("aé"));
    },
    cancel,
  });
  answer(endless, {});
  await expect(requestBeginning("/x", "*/*", 8)).resolves.toEqual({
    text: "aéaéa\ufffd".slice(0, 5),
    whole: false,
  });
  expect(cancel).toHaveBeenCalled();
  expect(sent).toBeLessThan(6);
  answer("aé", {});
  await expect(requestBeginning("/x", "*/*", 3)).resolves.toEqual({ text: "aé", whole: true });
  answer(null, {});
  await expect(requestBeginning("/x", "*/*", 3)).resolves.toEqual({ text: "", whole: true });
  answer("{}", { status: 404 });
  expect(await failure(requestBeginning("/x", "*/*", 3))).toMatchObject({ status: 404 });
});
