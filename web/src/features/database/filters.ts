import { useCallback, useMemo } from "react";
import { useSearchParams } from "react-router";
import { ChangeKind, Severity, type ListChangesParams } from "@/gen/model";

export interface ChangeFilters {
  /** Number of the generation that is looked at; the newest one when undefined. */
  generation: number | undefined;
  kind: ChangeKind | undefined;
  text: string;
  severity: Severity | undefined;
  kev: boolean;
  imageId: string;
}

/** Reads the address; what is not understood is as if it were not there. */
export function readChangeFilters(params: URLSearchParams): ChangeFilters {
  const generation = Number(params.get("generation"));
  return {
    generation: Number.isSafeInteger(generation) && generation > 0 ? generation : undefined,
    kind: Object.values(ChangeKind).find((value) => value === params.get("kind")),
    text: (params.get("q") ?? "").slice(0, 256),
    severity: Object.values(Severity).find((value) => value === params.get("severity")),
    kev: params.get("kev") === "true",
    imageId: (params.get("image") ?? "").slice(0, 512),
  };
}

export function writeChangeFilters(filters: ChangeFilters): URLSearchParams {
  const params = new URLSearchParams();
  if (filters.generation) params.set("generation", String(filters.generation));
  if (filters.kind) params.set("kind", filters.kind);
  if (filters.text) params.set("q", filters.text);
  if (filters.severity) params.set("severity", filters.severity);
  if (filters.kev) params.set("kev", "true");
  if (filters.imageId) params.set("image", filters.imageId);
  return params;
}

export const toRequest = ({ kind, text, severity, kev, imageId }: ChangeFilters): ListChangesParams => ({
  kind: kind && [kind],
  text: text || undefined,
  severity,
  kev: kev || undefined,
  imageId: imageId || undefined,
});

export const isFiltered = ({ text, severity, kev, imageId }: ChangeFilters) =>
  text !== "" || severity !== undefined || kev || imageId !== "";

export const noFilters = { text: "", severity: undefined, kev: false, imageId: "" } as const;

export function useChangeFilters() {
  const [params, setParams] = useSearchParams();
  const filters = useMemo(() => readChangeFilters(params), [params]);
  const update = useCallback(
    (change: Partial<ChangeFilters>) =>
      setParams((current) => writeChangeFilters({ ...readChangeFilters(current), ...change }), {
        replace: true,
        preventScrollReset: true,
      }),
    [setParams],
  );
  return { filters, update };
}
