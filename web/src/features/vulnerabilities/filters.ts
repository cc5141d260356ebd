import {
  ListVulnerabilitiesSort,
  Severity,
  type ListAffectedParams,
  type ListVulnerabilitiesParams,
} from "@/gen/model";
import { address, choice, day, flag, names, oneOf, orAbsent, share, text, notNarrowing } from "@/lib/address";
import { columnNames, type VulnerabilityColumn } from "./column-names";

/** What the page lists: the vulnerabilities, or who has them, or where they are. */
export const groups = {
  vulnerabilities: "vulnerabilities",
  owners: "owners",
  namespaces: "namespaces",
} as const;
export type Group = keyof typeof groups;

export interface VulnerabilityFilters {
  group: Group;
  text: string;
  severity: Severity | undefined;
  fixable: boolean;
  kev: boolean;
  overdue: boolean;
  epss: number | undefined;
  namespace: string;
  owner: string;
  noOwner: boolean;
  /** What decisions suppress is listed and counted, too. */
  suppressed: boolean;
  sort: ListVulnerabilitiesSort;
  /** Undefined for the default. */
  columns: VulnerabilityColumn[] | undefined;
}

export const vulnerabilityFilters = address<VulnerabilityFilters>({
  group: choice("group", groups, groups.vulnerabilities),
  text: text("q", 256),
  severity: oneOf("severity", Severity),
  fixable: flag("fixable"),
  kev: flag("kev"),
  overdue: flag("overdue"),
  epss: share("epss"),
  namespace: text("namespace", 253),
  owner: text("owner", 253),
  noOwner: flag("noOwner"),
  suppressed: notNarrowing(flag("suppressed")),
  sort: choice("sort", ListVulnerabilitiesSort, ListVulnerabilitiesSort["-risk"]),
  columns: names("columns", columnNames),
});

export const toRequest = (filters: VulnerabilityFilters): ListVulnerabilitiesParams => ({
  text: orAbsent(filters.text),
  severity: filters.severity,
  fixable: orAbsent(filters.fixable),
  kev: orAbsent(filters.kev),
  overdue: orAbsent(filters.overdue),
  epss: filters.epss,
  namespace: orAbsent(filters.namespace),
  owner: orAbsent(filters.owner),
  noOwner: orAbsent(filters.noOwner && !filters.owner),
  suppressed: orAbsent(filters.suppressed),
  sort: filters.sort,
});

/** Affected images now, what had it and has it no more, what ran with it on some day, or all of it over time. */
export const times = { now: "now", closed: "closed", day: "day", timeline: "timeline" } as const;
/** The times that are listed finding by finding. */
export type Time = Exclude<keyof typeof times, "timeline">;

/** What the timeline has a row for. */
export const rowsOf = { image: "image", workload: "workload" } as const;
export type RowsOf = keyof typeof rowsOf;

export interface AffectedFilters {
  time: keyof typeof times;
  by: RowsOf;
  /** A day of UTC such as 2026-01-31, which counts when the time is "day"; empty while none was chosen. */
  on: string;
  namespace: string;
  owner: string;
  /** What decisions suppress is listed too, which counts when the time is "now". */
  suppressed: boolean;
}

export const affectedFilters = address<AffectedFilters>({
  time: choice("time", times, times.now),
  by: choice("by", rowsOf, rowsOf.image),
  on: notNarrowing(day("on")),
  namespace: text("namespace", 253),
  owner: text("owner", 253),
  suppressed: notNarrowing(flag("suppressed")),
});

export const toAffectedRequest = (
  { time, on, namespace, owner, suppressed }: AffectedFilters,
  today: string,
): ListAffectedParams => ({
  ...(time === "day" && { on: on || today }),
  ...(time === "closed" && { closed: true }),
  ...(time === "now" && suppressed && { suppressed: true }),
  namespace: orAbsent(namespace),
  owner: orAbsent(owner),
});
