import type { Option } from "@/components/ui/select";
import {
  ListBasesSort,
  ListWorkloadsSort,
  Severity,
  type ListBasesParams,
  type ListWorkloadsParams,
} from "@/gen/model";
import { address, choice, flag, integer, matching, names, oneOf, orAbsent, text } from "@/lib/address";
import { columnNames, type WorkloadColumn } from "./column-names";

export const sortOptions: Option<ListWorkloadsSort>[] = [
  { value: ListWorkloadsSort["-severity"], label: "Most severe" },
  { value: ListWorkloadsSort.name, label: "Name" },
];

/** What the page lists: the workloads, who is responsible for them, where they run, or what their images were built on. */
export const groups = {
  workloads: "workloads",
  owners: "owners",
  namespaces: "namespaces",
  bases: "bases",
} as const;
export type Group = keyof typeof groups;

export interface WorkloadFilters {
  group: Group;
  text: string;
  severity: Severity | undefined;
  fixable: boolean;
  kev: boolean;
  overdue: boolean;
  /** The chain ID of a base image. */
  base: string;
  /** Of how many layers that is the chain ID. */
  baseLayers: number | undefined;
  namespace: string;
  owner: string;
  noOwner: boolean;
  sort: ListWorkloadsSort;
  /** Undefined for the default. */
  columns: WorkloadColumn[] | undefined;
}

export const workloadFilters = address<WorkloadFilters>({
  group: choice("group", groups, groups.workloads),
  text: text("q", 256),
  severity: oneOf("severity", Severity),
  fixable: flag("fixable"),
  kev: flag("kev"),
  overdue: flag("overdue"),
  base: matching("base", /^sha256:[0-9a-f]{64}$/),
  baseLayers: integer("baseLayers", 1, 512),
  namespace: text("namespace", 253),
  owner: text("owner", 253),
  noOwner: flag("noOwner"),
  sort: choice("sort", ListWorkloadsSort, ListWorkloadsSort["-severity"]),
  columns: names("columns", columnNames),
});

export const toRequest = (filters: WorkloadFilters): ListWorkloadsParams => ({
  text: orAbsent(filters.text),
  severity: filters.severity,
  fixable: orAbsent(filters.fixable),
  kev: orAbsent(filters.kev),
  overdue: orAbsent(filters.overdue),
  base: orAbsent(filters.base),
  baseLayers: filters.base ? filters.baseLayers : undefined,
  namespace: orAbsent(filters.namespace),
  owner: orAbsent(filters.owner),
  noOwner: orAbsent(filters.noOwner && !filters.owner),
  sort: filters.sort,
});

export const toBasesRequest = (filters: WorkloadFilters): ListBasesParams => ({
  namespace: orAbsent(filters.namespace),
  owner: orAbsent(filters.owner),
  sort: ListBasesSort["-severity"],
});
