import type { QueryClient } from "@tanstack/react-query";
import { useList } from "@/components/ui/use-list";
import { getListDatabasesQueryKey, listChanges, useListDatabases } from "@/gen/databases/databases";
import type { Change, Database, DatabaseList, ListChangesParams } from "@/gen/model";

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

export const changeKey = ({ id }: Change) => String(id);

/** Changes of another build are never shown as those of this one. */
export const useChanges = ({ id, generation }: Database, params: ListChangesParams) =>
  useList({
    queryKey: ["changes", generation, id, params],
    load: (page, init) => listChanges(id, { ...params, generation, ...page }, init),
    rowKey: changeKey,
  });
