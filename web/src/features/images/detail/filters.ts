import { useCallback, useMemo } from "react";
import { useSearchParams } from "react-router";
import { ListFindingsSort, Severity, type ListFindingsParams } from "@/gen/model";

export interface FindingFilters {
  platform: string | undefined;
  text: string;
  severity: Severity | undefined;
  fixable: boolean;
  kev: boolean;
  sort: ListFindingsSort;
}

const defaultSort = ListFindingsSort["-risk"];

/** Reads the address; what is not understood is as if it were not there. */
export function readFindingFilters(params: URLSearchParams): FindingFilters {
  return {
    platform: params.get("platform")?.slice(0, 100),
    text: (params.get("q") ?? "").slice(0, 256),
    severity: Object.values(Severity).find((value) => value === params.get("severity")),
    fixable: params.get("fixable") === "true",
    kev: params.get("kev") === "true",
    sort: Object.values(ListFindingsSort).find((value) => value === params.get("sort")) ?? defaultSort,
  };
}

export function writeFindingFilters(filters: FindingFilters): URLSearchParams {
  const params = new URLSearchParams();
  if (filters.platform) params.set("platform", filters.platform);
  if (filters.text) params.set("q", filters.text);
  if (filters.severity) params.set("severity", filters.severity);
  if (filters.fixable) params.set("fixable", "true");
  if (filters.kev) params.set("kev", "true");
  if (filters.sort !== defaultSort) params.set("sort", filters.sort);
  return params;
}

export const toRequest = ({
  platform,
  text,
  severity,
  fixable,
  kev,
  sort,
}: FindingFilters): ListFindingsParams => ({
  platform,
  text: text || undefined,
  severity,
  fixable: fixable || undefined,
  kev: kev || undefined,
  sort,
});

export const isFiltered = ({ text, severity, fixable, kev }: FindingFilters) =>
  text !== "" || severity !== undefined || fixable || kev;

export const noFilters = { text: "", severity: undefined, fixable: false, kev: false } as const;

export function useFindingFilters() {
  const [params, setParams] = useSearchParams();
  const filters = useMemo(() => readFindingFilters(params), [params]);
  const update = useCallback(
    (change: Partial<FindingFilters>) =>
      setParams((current) => writeFindingFilters({ ...readFindingFilters(current), ...change }), {
        replace: true,
        preventScrollReset: true,
      }),
    [setParams],
  );
  return { filters, update };
}
