import { listImages } from "@/gen/images/images";
import type { Workload } from "@/gen/model";
import { forEachItem, type Outcome } from "@/lib/bulk";

/** How many images of one workload are found. */
export const maxImagesOfWorkload = 200;

export interface ImagesOf {
  /** Those of all workloads, each once. */
  imageIds: string[];
  /** The workloads of which not all images are known. */
  failed: Outcome<Workload>[];
}

/** Finds the images that workloads run. */
export async function imagesOf(workloads: Workload[], signal: AbortSignal): Promise<ImagesOf> {
  const found = new Set<string>();
  const outcomes = await forEachItem(
    workloads,
    async ({ namespace, kind, name }) => {
      const { items, total } = await listImages(
        { namespace, workload: name, workloadKind: kind, pageSize: maxImagesOfWorkload },
        { signal },
      );
      for (const { imageId } of items) found.add(imageId);
      if (total > items.length) throw new Error(`It runs more than ${items.length} images.`);
    },
    { signal },
  );
  return { imageIds: [...found], failed: outcomes.filter(({ error }) => error !== undefined) };
}
