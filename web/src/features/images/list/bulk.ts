import { getImage, listPresences, scanImage } from "@/gen/images/images";
import { deleteScanResult } from "@/gen/scan-results/scan-results";
import { forEachItem, type Outcome } from "@/lib/bulk";
import { isDenied, type PermittedAction } from "../rights";

/** What an action would do with images, by their IDs. */
export interface Plan {
  /** What it applies to. */
  applies: string[];
  /** What is left as it is: images that run cannot be removed, and others not be scanned again. */
  left: string[];
  /** What the user may not do it with. */
  denied: string[];
  /** Of which it is not known whether they run. */
  failed: Outcome<string>[];
}

/** Asks of each image whether the user may do it, and whether a container runs it. */
export async function planOf(
  action: PermittedAction,
  imageIds: string[],
  signal: AbortSignal,
): Promise<Plan> {
  const running = new Set<string>();
  const refused = new Set<string>();
  const outcomes = await forEachItem(
    imageIds,
    async (imageId) => {
      if (isDenied(await getImage(imageId, undefined, { signal }), action)) {
        refused.add(imageId);
        return;
      }
      // Those that run come first.
      const { items } = await listPresences(imageId, { pageSize: 1 }, { signal });
      if (items.some(({ until }) => until === undefined)) running.add(imageId);
    },
    { signal },
  );
  const failed = outcomes.filter(({ error }) => error !== undefined);
  const unknown = new Set(failed.map(({ item }) => item));
  const known = imageIds.filter((imageId) => !unknown.has(imageId) && !refused.has(imageId));
  return {
    applies: known.filter((imageId) => running.has(imageId) === (action === "rescan")),
    left: known.filter((imageId) => running.has(imageId) !== (action === "rescan")),
    denied: [...refused],
    failed,
  };
}

/** Applies an action to images, on all platforms. */
export const carryOut = (
  action: PermittedAction,
  imageIds: string[],
  options: { signal: AbortSignal; onOutcome: () => void },
): Promise<Outcome<string>[]> =>
  forEachItem(
    imageIds,
    (imageId) => (action === "remove" ? deleteScanResult(imageId) : scanImage(imageId)),
    options,
  );
