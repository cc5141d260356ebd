import { listPresences, scanImage } from "@/gen/images/images";
import { deleteScanResult } from "@/gen/scan-results/scan-results";
import { forEachItem, type Outcome } from "@/lib/bulk";

export type Action = "remove" | "rescan";

/** What an action would do with images, by their IDs. */
export interface Plan {
  /** What it applies to. */
  applies: string[];
  /** What is left as it is: images that run cannot be removed, and others not be scanned again. */
  left: string[];
  /** Of which it is not known whether they run. */
  failed: Outcome<string>[];
}

/** Asks of each image whether a container runs it. */
export async function planOf(action: Action, imageIds: string[], signal: AbortSignal): Promise<Plan> {
  const running = new Set<string>();
  const outcomes = await forEachItem(
    imageIds,
    async (imageId) => {
      // Those that run come first.
      const { items } = await listPresences(imageId, { pageSize: 1 }, { signal });
      if (items.some(({ until }) => until === undefined)) running.add(imageId);
    },
    { signal },
  );
  const failed = outcomes.filter(({ error }) => error !== undefined);
  const unknown = new Set(failed.map(({ item }) => item));
  const known = imageIds.filter((imageId) => !unknown.has(imageId));
  return {
    applies: known.filter((imageId) => running.has(imageId) === (action === "rescan")),
    left: known.filter((imageId) => running.has(imageId) !== (action === "rescan")),
    failed,
  };
}

/** Applies an action to images, on all platforms. */
export const carryOut = (
  action: Action,
  imageIds: string[],
  options: { signal: AbortSignal; onOutcome: () => void },
): Promise<Outcome<string>[]> =>
  forEachItem(
    imageIds,
    (imageId) => (action === "remove" ? deleteScanResult(imageId) : scanImage(imageId)),
    options,
  );
