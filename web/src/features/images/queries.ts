import {
  keepPreviousData,
  useInfiniteQuery,
  type InfiniteData,
  type QueryClient,
} from "@tanstack/react-query";
import { getGetImageQueryKey, getImage, listFindings, listImages } from "@/gen/images/images";
import type { FindingPage, Image, ImagePage, ListFindingsParams, ListImagesParams } from "@/gen/model";

export const pageSize = 200;

type ImagesParams = Omit<ListImagesParams, "pageToken" | "pageSize">;
type FindingsParams = Omit<ListFindingsParams, "pageToken" | "pageSize">;

const imagesKey = ["images"] as const;
const findingsKey = (imageId: string) => ["findings", imageId] as const;

export function useImages(params: ImagesParams) {
  return useInfiniteQuery({
    queryKey: [...imagesKey, params],
    queryFn: ({ pageParam, signal }) => listImages({ ...params, pageSize, pageToken: pageParam }, { signal }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.nextPageToken,
    placeholderData: keepPreviousData,
  });
}

export function useFindings(imageId: string, params: FindingsParams, enabled: boolean) {
  return useInfiniteQuery({
    queryKey: [...findingsKey(imageId), params],
    queryFn: ({ pageParam, signal }) =>
      listFindings(imageId, { ...params, pageSize, pageToken: pageParam }, { signal }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page: FindingPage) => page.nextPageToken,
    // Findings of another image must never be shown as those of this one.
    placeholderData: (previous, query) => (query?.queryKey[1] === imageId ? previous : undefined),
    enabled,
  });
}

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

/** How many pages of images the list that is shown has loaded. */
export function loadedPages(client: QueryClient): number {
  const lists = client.getQueryCache().findAll({ queryKey: imagesKey, type: "active" });
  return Math.max(
    0,
    ...lists.map((query) => (query.state.data as InfiniteData<ImagePage> | undefined)?.pages.length ?? 0),
  );
}

export const invalidateLists = (client: QueryClient) => client.invalidateQueries({ queryKey: imagesKey });

export async function invalidateImage(client: QueryClient, imageId: string) {
  const [prefix] = getGetImageQueryKey(imageId);
  await Promise.all([
    client.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] === prefix }),
    client.invalidateQueries({ queryKey: findingsKey(imageId) }),
    client.invalidateQueries({ queryKey: ["platforms", imageId] }),
  ]);
}

/** Takes a removed image out of everything that is loaded. */
export function forgetImage(client: QueryClient, imageId: string) {
  client.setQueriesData<InfiniteData<ImagePage>>(
    { queryKey: imagesKey },
    (data) =>
      data && {
        ...data,
        pages: data.pages.map((page) => {
          const items = page.items.filter((item) => item.imageId !== imageId);
          return { ...page, items, total: page.total - (page.items.length - items.length) };
        }),
      },
  );
}
