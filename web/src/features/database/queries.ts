import { keepPreviousData, useInfiniteQuery, type QueryClient } from "@tanstack/react-query";
import { getListDatabasesQueryKey, listChanges, useListDatabases } from "@/gen/databases/databases";
import type { Database, DatabaseList, ListChangesParams } from "@/gen/model";
import { pageSize } from "@/features/images/queries";

const busyPoll = 2000;

export const inUse = (list: DatabaseList | undefined) => list?.items.find(({ state }) => state === "Current");

/** The build that packages are being matched with, to take the place of the one in use. */
export const underWay = (list: DatabaseList | undefined) =>
  list?.items.find(({ state }) => state === "Preparing" || state === "Matching");

/** Builds whose difference is known: they are in use, or were. */
export const finished = (list: DatabaseList | undefined) =>
  (list?.items ?? []).filter(({ state }) => state === "Current" || state === "Past");

export const isBusy = (list: DatabaseList | undefined) =>
  list?.update?.stage !== undefined || underWay(list) !== undefined;

/**
 * The databases. No message tells how far a download or matching has come: while one is under way, or expected, the
 * operator is asked every two seconds.
 */
export function useDatabases(expectWork = false) {
  return useListDatabases({
    query: { refetchInterval: ({ state }) => (expectWork || isBusy(state.data) ? busyPoll : false) },
  });
}

export const invalidateDatabases = (client: QueryClient) =>
  client.invalidateQueries({ queryKey: getListDatabasesQueryKey() });

type ChangesParams = Omit<ListChangesParams, "pageToken" | "pageSize" | "generation">;

export function useChanges(database: Database, params: ChangesParams) {
  const { id, generation } = database;
  return useInfiniteQuery({
    queryKey: ["changes", generation, id, params],
    queryFn: ({ pageParam, signal }) =>
      listChanges(id, { ...params, generation, pageSize, pageToken: pageParam }, { signal }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.nextPageToken,
    // Changes of another build must never be shown as those of this one.
    placeholderData: (previous, query) =>
      query?.queryKey[1] === generation ? keepPreviousData(previous) : undefined,
  });
}
