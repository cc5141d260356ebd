import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Coalescer, type Batch } from "./coalesce";

let visibility: DocumentVisibilityState = "visible";

function look(state: DocumentVisibilityState) {
  visibility = state;
  document.dispatchEvent(new Event("visibilitychange"));
}

beforeEach(() => {
  vi.useFakeTimers();
  visibility = "visible";
  vi.spyOn(document, "visibilityState", "get").mockImplementation(() => visibility);
});
afterEach(() => vi.useRealTimers());

function start(flush: (batch: Batch) => Promise<unknown> = () => Promise.resolve()) {
  const spy = vi.fn(flush);
  const coalescer = new Coalescer(spy);
  coalescer.start();
  return { coalescer, spy };
}

it("hands on each name once, at most every half second", async () => {
  const { coalescer, spy } = start();
  coalescer.add("a");
  await vi.advanceTimersByTimeAsync(0);
  for (const name of ["b", "c", "b"]) coalescer.add(name);
  await vi.advanceTimersByTimeAsync(499);
  expect(spy).toHaveBeenCalledTimes(1);
  await vi.advanceTimersByTimeAsync(1);
  expect(spy).toHaveBeenLastCalledWith({ names: ["b", "c"], overflow: false });
});

it("says when there were more names than it carries", async () => {
  const { coalescer, spy } = start();
  for (let index = 0; index < 60; index++) coalescer.add(String(index));
  await vi.advanceTimersByTimeAsync(0);
  expect(spy.mock.calls[0]?.[0].overflow).toBe(true);
  expect(spy.mock.calls[0]?.[0].names).toHaveLength(50);
});

it("waits while nobody looks", async () => {
  const { coalescer, spy } = start();
  look("hidden");
  coalescer.add("a");
  await vi.advanceTimersByTimeAsync(60_000);
  expect(spy).not.toHaveBeenCalled();
  look("visible");
  await vi.advanceTimersByTimeAsync(0);
  expect(spy).toHaveBeenCalledTimes(1);
});

it("does not start again before the last flush has settled", async () => {
  let settle: () => void = () => undefined;
  const { coalescer, spy } = start(() => new Promise<void>((resolve) => (settle = resolve)));
  coalescer.add("a");
  await vi.advanceTimersByTimeAsync(0);
  coalescer.add("b");
  await vi.advanceTimersByTimeAsync(5000);
  expect(spy).toHaveBeenCalledTimes(1);
  settle();
  await vi.advanceTimersByTimeAsync(0);
  expect(spy).toHaveBeenCalledTimes(2);
});

it("waits as long as a name asks for, also one that comes during a flush", async () => {
  let settle: () => void = () => undefined;
  const { coalescer, spy } = start(() => new Promise<void>((resolve) => (settle = resolve)));
  coalescer.add("a");
  await vi.advanceTimersByTimeAsync(0);
  coalescer.add("b", 5000);
  await vi.advanceTimersByTimeAsync(1000);
  settle();
  await vi.advanceTimersByTimeAsync(3999);
  expect(spy).toHaveBeenCalledTimes(1);
  await vi.advanceTimersByTimeAsync(1);
  expect(spy).toHaveBeenCalledTimes(2);
});

it("waits as long as a name asks for, also after nobody looked", async () => {
  const { coalescer, spy } = start();
  look("hidden");
  coalescer.add("a", 5000);
  await vi.advanceTimersByTimeAsync(1000);
  look("visible");
  await vi.advanceTimersByTimeAsync(3999);
  expect(spy).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(1);
  expect(spy).toHaveBeenCalledTimes(1);
});

it("pauses after a flush, however long it took", async () => {
  let settle: () => void = () => undefined;
  const spy = vi.fn(() => new Promise<void>((resolve) => (settle = resolve)));
  const coalescer = new Coalescer(spy, () => 5000);
  coalescer.add("a");
  await vi.advanceTimersByTimeAsync(0);
  expect(spy).toHaveBeenCalledTimes(1);
  coalescer.add("b");
  await vi.advanceTimersByTimeAsync(20_000);
  settle();
  await vi.advanceTimersByTimeAsync(4999);
  expect(spy).toHaveBeenCalledTimes(1);
  await vi.advanceTimersByTimeAsync(1);
  expect(spy).toHaveBeenCalledTimes(2);
});
