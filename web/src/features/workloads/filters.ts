import { ListWorkloadsSort, Severity, type ListWorkloadsParams } from "@/gen/model";
import { address, choice, flag, oneOf, orAbsent, text } from "@/lib/address";

export interface WorkloadFilters {
  text: string;
  severity: Severity | undefined;
  fixable: boolean;
  kev: boolean;
  namespace: string;
  sort: ListWorkloadsSort;
}

export const workloadFilters = address<WorkloadFilters>({
  text: text("q", 256),
  severity: oneOf("severity", Severity),
  fixable: flag("fixable"),
  kev: flag("kev"),
  namespace: text("namespace", 253),
  sort: choice("sort", ListWorkloadsSort, ListWorkloadsSort["-severity"]),
});

export const toRequest = (filters: WorkloadFilters): ListWorkloadsParams => ({
  text: orAbsent(filters.text),
  severity: filters.severity,
  fixable: orAbsent(filters.fixable),
  kev: orAbsent(filters.kev),
  namespace: orAbsent(filters.namespace),
  sort: filters.sort,
});
