import { expect, it } from "vitest";
import { concurrency, forEachItem } from "./bulk";

const numbers = Array.from({ length: 100 }, (_, index) => index);

it("does each item once, few at a time", async () => {
  let [running, most] = [0, 0];
  const done: number[] = [];
  await forEachItem(numbers, async (item) => {
    most = Math.max(most, ++running);
    await new Promise((resolve) => setTimeout(resolve, 0));
    done.push(item);
    running--;
  });
  expect(done.sort((a, b) => a - b)).toEqual(numbers);
  expect(most).toBe(concurrency);
});

it("goes on after an item that fails, and tells which did", async () => {
  const seen: number[] = [];
  const outcomes = await forEachItem(
    [1, 2, 3],
    (item) => (item === 2 ? Promise.reject(new Error("no")) : Promise.resolve()),
    { onOutcome: ({ item }) => seen.push(item) },
  );
  expect(outcomes.filter(({ error }) => error !== undefined).map(({ item }) => item)).toEqual([2]);
  expect(seen).toHaveLength(3);
});

it("begins nothing once it is aborted", async () => {
  const controller = new AbortController();
  let begun = 0;
  const outcomes = await forEachItem(
    numbers,
    () => {
      if (++begun === 10) controller.abort();
      return Promise.resolve();
    },
    { signal: controller.signal },
  );
  expect(outcomes).toHaveLength(begun);
  expect(begun).toBeLessThan(10 + concurrency);
});
