import { CoverageState, type ListCoverageParams } from "@/gen/model";
import { address, oneOf, orAbsent, text, notNarrowing } from "@/lib/address";

export interface CoverageFilters {
  state: CoverageState | undefined;
  reason: string;
  text: string;
  namespace: string;
  owner: string;
}

export const coverageFilters = address<CoverageFilters>({
  state: notNarrowing(oneOf("state", CoverageState)),
  reason: text("reason", 64),
  text: text("q", 256),
  namespace: text("namespace", 253),
  owner: text("owner", 253),
});

export const toRequest = (filters: CoverageFilters): ListCoverageParams => ({
  state: filters.state && [filters.state],
  reason: orAbsent(filters.reason),
  text: orAbsent(filters.text),
  namespace: orAbsent(filters.namespace),
  owner: orAbsent(filters.owner),
});
