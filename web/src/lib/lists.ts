import type { InfiniteData, QueryClient, QueryKey } from "@tanstack/react-query";

/**
 * Keys of what a new result of any image may change begin with this: the list of images, and with the second key what
 * the operator sums up over all of them.
 */
export const listsKey = ["list"] as const;
export const sumsKey = [...listsKey, "sums"] as const;

/** Keys of answers that the operator computes for a while begin with this: they are asked for again only when they are stale. */
export const costlyKey = ["costly"] as const;

const intervalPerPage = 1000;
/** How long, in milliseconds, sums over all images are left alone. */
export const intervalOfSums = 5000;
const maxInterval = 30_000;

/** How many pages the longest list that is shown has loaded. */
export function loadedPages(client: QueryClient, queryKey: QueryKey): number {
  const lists = client.getQueryCache().findAll({ queryKey, type: "active" });
  return Math.max(
    0,
    ...lists.map(
      (query) => (query.state.data as Partial<InfiniteData<unknown>> | undefined)?.pages?.length ?? 0,
    ),
  );
}

/**
 * How long, in milliseconds, lists are left alone once they were fetched anew. A long list costs a request per page, and
 * sums over all images cost the operator more than a page of them.
 */
export function refreshInterval(client: QueryClient): number {
  const pages = loadedPages(client, listsKey);
  const sums = client.getQueryCache().findAll({ queryKey: sumsKey, type: "active" }).length > 0;
  return Math.max(sums ? intervalOfSums : 0, pages < 2 ? 0 : Math.min(maxInterval, intervalPerPage * pages));
}

export const invalidateLists = (client: QueryClient) => client.invalidateQueries({ queryKey: listsKey });

/** Asks for everything that is shown again. */
export const invalidateAll = (client: QueryClient) =>
  client.invalidateQueries({ predicate: (query) => query.queryKey[0] !== costlyKey[0] || query.isStale() });
