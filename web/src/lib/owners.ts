import { useEffect, useState } from "react";
import { useQuery } from "@tanstack/react-query";
import type { OwnerPage } from "@/gen/model";
import { listOwners } from "@/gen/workloads/workloads";

const refreshAfter = 60_000;

const someOwned = ({ items }: OwnerPage) => items.some(({ owner }) => owner !== undefined);

/** Whether any workload that the user sees has an owner; undefined while nothing is known about it, as on a first visit. */
function useOwners(): boolean | undefined {
  const { data, isFetched, fetchStatus } = useQuery({
    queryKey: ["has-owners"],
    // Workloads without an owner come first, as one item.
    queryFn: ({ signal }) => listOwners({ pageSize: 2 }, { signal }),
    select: someOwned,
    // The first ones are noticed on the next page: a new cluster has none for a while.
    staleTime: ({ state: { data } }) => (data && someOwned(data) ? refreshAfter : 0),
    retry: false,
  });
  useEffect(() => {
    if (data !== undefined) remember(data);
  }, [data]);
  return data ?? remembered() ?? (isFetched || fetchStatus !== "fetching" ? false : undefined);
}

/** Whether any workload that the user sees has an owner: only then are there columns and filters for owners. */
export const useHasOwners = () => useOwners() ?? false;

/** How long a first visit waits for the answer, in milliseconds. */
export const ownersPatience = 1_000;

/** Whether pages can be shown: it is known whether there are owners, so that nothing moves later, or that takes too long. */
export function useOwnersKnown(): boolean {
  const known = useOwners() !== undefined;
  const [waited, setWaited] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setWaited(true), ownersPatience);
    return () => clearTimeout(timer);
  }, []);
  return known || waited;
}

const storageKey = "scanner-operator.owners";

/** What was known last: pages need not wait until it is known again. */
function remembered(): boolean | undefined {
  try {
    const last = localStorage.getItem(storageKey);
    return last === null ? undefined : last === "true";
  } catch {
    return undefined; // Storage may be disabled.
  }
}

function remember(hasOwners: boolean): void {
  try {
    localStorage.setItem(storageKey, String(hasOwners));
  } catch {
    // It is asked for again.
  }
}
