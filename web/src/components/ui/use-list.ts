import { useInfiniteQuery, type QueryKey } from "@tanstack/react-query";
import { useCallback, useMemo } from "react";

export const pageSize = 200;

interface Page<Row> {
  items: Row[];
  total: number;
  nextPageToken?: string;
}

interface PageRequest {
  pageSize: number;
  pageToken?: string;
}

interface Options<Row, Result extends Page<Row>> {
  /** What is listed, then how: rows of another what are never shown in the meantime. */
  queryKey: readonly [...QueryKey, params: object];
  load: (page: PageRequest, init: { signal: AbortSignal }) => Promise<Result>;
  /** Tells rows apart; the same function at each call. */
  rowKey: (row: Row) => string;
  enabled?: boolean;
}

const sameList = (a: QueryKey, b: QueryKey | undefined) =>
  JSON.stringify(a.slice(0, -1)) === JSON.stringify(b?.slice(0, -1));

/** A list of any length, loaded page by page as it is scrolled. */
export function useList<Row, Result extends Page<Row>>(options: Options<Row, Result>) {
  const { queryKey, load, rowKey, enabled } = options;
  const query = useInfiniteQuery({
    queryKey,
    queryFn: ({ pageParam, signal }) => load({ pageSize, pageToken: pageParam }, { signal }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.nextPageToken,
    placeholderData: (previous, before) => (sameList(queryKey, before?.queryKey) ? previous : undefined),
    enabled,
  });
  const { data, error, isFetching, isFetchNextPageError, fetchNextPage, refetch } = query;
  const rows = useMemo(() => {
    const seen = new Set<string>();
    // While rows move between pages a row may come twice.
    return (data?.pages ?? [])
      .flatMap((page) => page.items)
      .filter((row) => !seen.has(rowKey(row)) && seen.add(rowKey(row)));
  }, [data, rowKey]);
  const loadMore = useCallback(() => {
    if (!isFetching && !isFetchNextPageError) void fetchNextPage({ cancelRefetch: false });
  }, [isFetching, isFetchNextPageError, fetchNextPage]);
  return {
    rows,
    rowKey,
    /** The page that came last: it has the newest totals. Undefined until there is any. */
    page: data?.pages.at(-1),
    error,
    busy: query.isPending || query.isPlaceholderData,
    stale: query.isPlaceholderData,
    hasMore: query.hasNextPage,
    loadMore,
    reload: () => void refetch(),
  };
}

export type List<Row> = Omit<ReturnType<typeof useList<Row, Page<Row>>>, "page"> & {
  page: { total: number } | undefined;
};
