import { ListPackagesSort, Severity, type ListPackagesParams } from "@/gen/model";
import { address, choice, flag, oneOf, orAbsent, text } from "@/lib/address";

export interface PackageFilters {
  /** The whole name when there is a version, a part of it otherwise. */
  name: string;
  /** A constraint such as "<2.17". */
  version: string;
  type: string;
  severity: Severity | undefined;
  vulnerable: boolean;
  overdue: boolean;
  namespace: string;
  owner: string;
  sort: ListPackagesSort;
}

export const packageFilters = address<PackageFilters>({
  name: text("q", 256),
  version: text("version", 256),
  type: text("type", 64),
  severity: oneOf("severity", Severity),
  vulnerable: flag("vulnerable"),
  overdue: flag("overdue"),
  namespace: text("namespace", 253),
  owner: text("owner", 253),
  sort: choice("sort", ListPackagesSort, ListPackagesSort["-severity"]),
});

/** Versions can only be compared among packages of one name. */
export const lacksName = ({ name, version }: PackageFilters) => version !== "" && name === "";

export const toRequest = (filters: PackageFilters): ListPackagesParams => ({
  ...(filters.version && filters.name
    ? { name: filters.name, version: filters.version }
    : { text: orAbsent(filters.name) }),
  type: orAbsent(filters.type),
  severity: filters.severity,
  vulnerable: orAbsent(filters.vulnerable),
  overdue: orAbsent(filters.overdue),
  namespace: orAbsent(filters.namespace),
  owner: orAbsent(filters.owner),
  sort: filters.sort,
});
