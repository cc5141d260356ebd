import type { InfiniteData, QueryClient } from "@tanstack/react-query";
import { useList } from "@/components/ui/use-list";
import { getGetImageQueryKey, getImage, listFindings, listImages, listPresences } from "@/gen/images/images";
import type {
  Finding,
  Image,
  ImagePage,
  ListFindingsParams,
  ListImagesParams,
  ListPresencesParams,
  Presence,
} from "@/gen/model";
import { loadedPages } from "@/lib/lists";
import { findingKey } from "./detail/finding";

const imagesKey = ["list", "images"] as const;
/** What changes with the findings of an image. */
export const findingsKey = (imageId: string) => ["findings", imageId] as const;
export const presencesKey = ["presences"] as const;

export const imageKey = ({ imageId, platform }: Image) => `${imageId} ${platform}`;

export const useImages = (params: ListImagesParams) =>
  useList({
    queryKey: [...imagesKey, params],
    load: (page, init) => listImages({ ...params, ...page }, init),
    rowKey: imageKey,
  });

/** Findings of another image are never shown as those of this one. */
export const useFindings = (imageId: string, params: ListFindingsParams) =>
  useList<Finding, Awaited<ReturnType<typeof listFindings>>>({
    queryKey: [...findingsKey(imageId), params],
    load: (page, init) => listFindings(imageId, { ...params, ...page }, init),
    rowKey: findingKey,
  });

const presenceKey = ({ cluster, workload, container, since }: Presence) =>
  JSON.stringify([cluster, workload.namespace, workload.kind, workload.name, container, since]);

/** When and where an image ran. */
export const usePresences = (imageId: string, params: ListPresencesParams) =>
  useList({
    queryKey: [...presencesKey, imageId, params],
    load: (page, init) => listPresences(imageId, { ...params, ...page }, init),
    rowKey: presenceKey,
  });

const sameImage = (a: Image, b: Image) => a.imageId === b.imageId && a.platform === b.platform;

/** Replaces one row of all loaded lists, where it stands. */
function patchLists(client: QueryClient, image: Image) {
  client.setQueriesData<InfiniteData<ImagePage>>({ queryKey: imagesKey }, (data) => {
    if (!data?.pages.some((page) => page.items.some((item) => sameImage(item, image)))) return data;
    return {
      ...data,
      pages: data.pages.map((page) => ({
        ...page,
        items: page.items.map((item) => (sameImage(item, image) ? image : item)),
      })),
    };
  });
}

/** The platforms under which the loaded lists know an image. */
function loadedPlatforms(client: QueryClient, imageId: string): string[] {
  const platforms = new Set<string>();
  for (const [, data] of client.getQueriesData<InfiniteData<ImagePage>>({ queryKey: imagesKey })) {
    for (const item of data?.pages.flatMap((page) => page.items) ?? []) {
      if (item.imageId === imageId) platforms.add(item.platform);
    }
  }
  return [...platforms];
}

/** Fetches the named rows that are loaded and puts them where they stand. */
export async function refreshRows(client: QueryClient, imageIds: string[]) {
  const rows = imageIds.flatMap((imageId) =>
    loadedPlatforms(client, imageId).map((platform) => ({ imageId, platform })),
  );
  await Promise.allSettled(
    rows.map(async ({ imageId, platform }) =>
      patchLists(client, await getImage(imageId, platform ? { platform } : undefined)),
    ),
  );
}

/** Whether a list of images is shown of which so much is loaded that single rows are better fetched. */
export const hasLongList = (client: QueryClient) => loadedPages(client, imagesKey) > 1;

export async function invalidateImage(client: QueryClient, imageId: string) {
  const [prefix] = getGetImageQueryKey(imageId);
  await Promise.all([
    client.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] === prefix }),
    client.invalidateQueries({ queryKey: findingsKey(imageId) }),
    client.invalidateQueries({ queryKey: [...presencesKey, imageId] }),
    client.invalidateQueries({ queryKey: ["platforms", imageId] }),
  ]);
}

/** Takes removed images out of everything that is loaded. */
export function forgetImages(client: QueryClient, imageIds: ReadonlySet<string>) {
  client.setQueriesData<InfiniteData<ImagePage>>(
    { queryKey: imagesKey },
    (data) =>
      data && {
        ...data,
        pages: data.pages.map((page) => {
          const items = page.items.filter((item) => !imageIds.has(item.imageId));
          return { ...page, items, total: page.total - (page.items.length - items.length) };
        }),
      },
  );
}
