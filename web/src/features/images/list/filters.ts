import { ImageState, ListImagesSort, Severity, type ListImagesParams } from "@/gen/model";
import {
  address,
  choice,
  flag,
  integer,
  matching,
  names,
  oneOf,
  orAbsent,
  someOf,
  text,
} from "@/lib/address";
import { columnNames, type ImageColumn } from "./column-names";

/** What the page lists: the images, who is responsible for them, where they run, or what they were built on. */
export const groups = {
  images: "images",
  owners: "owners",
  namespaces: "namespaces",
  bases: "bases",
} as const;
export type Group = keyof typeof groups;

export const groupField = choice("group", groups, groups.images);

export interface Filters {
  group: Group;
  text: string;
  state: ImageState[];
  severity: Severity | undefined;
  fixable: boolean;
  kev: boolean;
  /** Those that something runs. */
  running: boolean;
  overdue: boolean;
  endOfLifeWithin: number | undefined;
  olderThan: number | undefined;
  namespace: string;
  owner: string;
  noOwner: boolean;
  workloadKind: string;
  workload: string;
  base: string;
  /** Of how many layers that is the chain ID. */
  baseLayers: number | undefined;
  sort: ListImagesSort;
  /** Undefined for the default. */
  columns: ImageColumn[] | undefined;
}

export const imageFilters = address<Filters>({
  group: groupField,
  text: text("q", 512),
  state: someOf("state", Object.values(ImageState)),
  severity: oneOf("severity", Severity),
  fixable: flag("fixable"),
  kev: flag("kev"),
  running: flag("running"),
  overdue: flag("overdue"),
  endOfLifeWithin: integer("endOfLifeWithin", 0, 36_500),
  olderThan: integer("olderThan", 1, 36_500),
  namespace: text("namespace", 253),
  owner: text("owner", 253),
  noOwner: flag("noOwner"),
  workloadKind: text("kind", 63),
  workload: text("workload", 253),
  base: matching("base", /^sha256:[0-9a-f]{64}$/),
  baseLayers: integer("baseLayers", 1, 512),
  sort: choice("sort", ListImagesSort, ListImagesSort["-severity"]),
  columns: names("columns", columnNames),
});

/** What changes when the images are grouped: groups have no other filters than these. */
export const toGroup = (
  { namespace, owner, noOwner }: Pick<Filters, "namespace" | "owner" | "noOwner">,
  group: Group,
): Partial<Filters> => ({ ...imageFilters.none, namespace, owner, noOwner, group });

export const toRequest = (filters: Filters): ListImagesParams => ({
  text: orAbsent(filters.text),
  state: orAbsent(filters.state),
  severity: filters.severity,
  fixable: orAbsent(filters.fixable),
  kev: orAbsent(filters.kev),
  running: orAbsent(filters.running),
  overdue: orAbsent(filters.overdue),
  endOfLifeWithin: filters.endOfLifeWithin,
  olderThan: filters.olderThan,
  namespace: orAbsent(filters.namespace),
  owner: orAbsent(filters.owner),
  noOwner: orAbsent(filters.noOwner && !filters.owner),
  workloadKind: orAbsent(filters.workloadKind),
  workload: orAbsent(filters.workload),
  base: orAbsent(filters.base),
  baseLayers: filters.base ? filters.baseLayers : undefined,
  sort: filters.sort,
});
