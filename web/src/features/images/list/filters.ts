import { useCallback, useMemo } from "react";
import { useSearchParams } from "react-router";
import { ImageState, ListImagesSort, Severity, type ListImagesParams } from "@/gen/model";

export interface Filters {
  text: string;
  state: ImageState[];
  severity: Severity | undefined;
  sort: ListImagesSort;
}

const defaultSort = ListImagesSort["-severity"];
const maxText = 512;

/** Reads the address; what is not understood is as if it were not there. */
export function readFilters(params: URLSearchParams): Filters {
  const states = Object.values(ImageState);
  const text = (params.get("q") ?? "").slice(0, maxText);
  const severity = Object.values(Severity).find((value) => value === params.get("severity"));
  const sort = Object.values(ListImagesSort).find((value) => value === params.get("sort"));
  return {
    text,
    state: states.filter((value) => params.getAll("state").includes(value)),
    severity,
    sort: sort ?? defaultSort,
  };
}

/** Writes what differs from the default. */
export function writeFilters({ text, state, severity, sort }: Filters): URLSearchParams {
  const params = new URLSearchParams();
  if (text) params.set("q", text);
  for (const value of state) params.append("state", value);
  if (severity) params.set("severity", severity);
  if (sort !== defaultSort) params.set("sort", sort);
  return params;
}

export const toRequest = ({ text, state, severity, sort }: Filters): ListImagesParams => ({
  text: text || undefined,
  state: state.length > 0 ? state : undefined,
  severity,
  sort,
});

export const isFiltered = ({ text, state, severity }: Filters) =>
  text !== "" || state.length > 0 || severity !== undefined;

/** The filters of the list live in the address: it can be sent to a colleague, and going back restores them. */
export function useFilters() {
  const [params, setParams] = useSearchParams();
  const filters = useMemo(() => readFilters(params), [params]);
  const update = useCallback(
    (change: Partial<Filters>) =>
      setParams((current) => writeFilters({ ...readFilters(current), ...change }), {
        replace: true,
        preventScrollReset: true,
      }),
    [setParams],
  );
  return { filters, update };
}
