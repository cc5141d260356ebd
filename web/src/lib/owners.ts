import { useEffect } from "react";
import { useQuery } from "@tanstack/react-query";
import { listOwners } from "@/gen/workloads/workloads";

const refreshAfter = 60_000;

/** Whether any workload that the user sees has an owner: only then are there columns and filters for owners. */
export function useHasOwners(): boolean {
  const { data } = useQuery({
    queryKey: ["has-owners"],
    // Workloads without an owner come first, as one item.
    queryFn: ({ signal }) => listOwners({ pageSize: 2 }, { signal }),
    select: ({ items }) => items.some(({ owner }) => owner !== undefined),
    staleTime: refreshAfter,
    retry: false,
  });
  useEffect(() => {
    if (data !== undefined) remember(data);
  }, [data]);
  return data ?? remembered();
}

const storageKey = "scanner-operator.owners";

/** What was known last: lists do not move when it is known again. */
function remembered(): boolean {
  try {
    return localStorage.getItem(storageKey) === "true";
  } catch {
    return false; // Storage may be disabled.
  }
}

function remember(hasOwners: boolean): void {
  try {
    localStorage.setItem(storageKey, String(hasOwners));
  } catch {
    // It is asked for again.
  }
}
