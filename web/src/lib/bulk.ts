/** What came of an item: an error, or nothing if it was done. */
export interface Outcome<Item> {
  item: Item;
  error?: unknown;
}

/** How many rows of a list can be selected for a bulk action. */
export const maxSelected = 100;

/** How many requests a bulk action has under way. */
export const concurrency = 4;

/**
 * Does the work for each item, for few at a time, and tells what came of each. An item that fails does not stop the others. Once it
 * is aborted, it begins no more items; those have no outcome.
 */
export async function forEachItem<Item>(
  items: readonly Item[],
  work: (item: Item) => Promise<unknown>,
  { signal, onOutcome }: { signal?: AbortSignal; onOutcome?: (outcome: Outcome<Item>) => void } = {},
): Promise<Outcome<Item>[]> {
  const outcomes: Outcome<Item>[] = [];
  const waiting = items[Symbol.iterator]();
  const worker = async () => {
    for (const item of waiting) {
      if (signal?.aborted) return;
      const outcome: Outcome<Item> = { item };
      try {
        await work(item);
      } catch (error) {
        outcome.error = error;
      }
      outcomes.push(outcome);
      onOutcome?.(outcome);
    }
  };
  await Promise.all(Array.from({ length: Math.min(concurrency, items.length) }, worker));
  return outcomes;
}
