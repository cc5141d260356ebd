import {
  ListFindingsSort,
  Origin,
  Severity,
  type ListFindingsParams,
  type ListImageLayersParams,
} from "@/gen/model";
import { address, choice, flag, integer, oneOf, orAbsent, text, notNarrowing } from "@/lib/address";

export const tabs = {
  findings: "findings",
  packages: "packages",
  layers: "layers",
  history: "history",
  sbom: "sbom",
  "newer-tags": "newer-tags",
  presences: "presences",
} as const;

export interface FindingFilters {
  tab: keyof typeof tabs;
  platform: string;
  text: string;
  severity: Severity | undefined;
  fixable: boolean;
  kev: boolean;
  closed: boolean;
  suppressed: boolean;
  overdue: boolean;
  origin: Origin | undefined;
  sort: ListFindingsSort;
}

export const findingFilters = address<FindingFilters>({
  tab: choice("tab", tabs, tabs.findings),
  platform: notNarrowing(text("platform", 100)),
  text: text("q", 256),
  severity: oneOf("severity", Severity),
  fixable: flag("fixable"),
  kev: flag("kev"),
  closed: flag("closed"),
  suppressed: notNarrowing(flag("suppressed")),
  overdue: flag("overdue"),
  origin: oneOf("origin", Origin),
  sort: choice("sort", ListFindingsSort, ListFindingsSort["-risk"]),
});

export const toRequest = (filters: FindingFilters): ListFindingsParams => ({
  platform: orAbsent(filters.platform),
  text: orAbsent(filters.text),
  severity: filters.severity,
  fixable: orAbsent(filters.fixable),
  kev: orAbsent(filters.kev),
  closed: orAbsent(filters.closed),
  suppressed: orAbsent(filters.suppressed && !filters.closed),
  overdue: orAbsent(filters.overdue && !filters.closed),
  origin: filters.origin,
  sort: filters.sort,
});

/** What the tab of the history shows. It keeps the text and the severity of the other tabs. */
export type HistoryFilters = Pick<FindingFilters, "tab" | "platform" | "text" | "severity">;

export const historyFilters = address<HistoryFilters>({
  tab: choice("tab", tabs, tabs.findings),
  platform: notNarrowing(text("platform", 100)),
  text: text("q", 256),
  severity: oneOf("severity", Severity),
});

export const toHistoryRequest = (filters: HistoryFilters): ListFindingsParams => ({
  platform: orAbsent(filters.platform),
  text: orAbsent(filters.text),
  severity: filters.severity,
});

/** What the tab of packages shows. Both tabs keep the text, the severity and the origin of the other one. */
export interface PackageFilters extends Pick<
  FindingFilters,
  "tab" | "platform" | "text" | "severity" | "origin"
> {
  vulnerable: boolean;
  /** The number of the layer that is open; 0 for packages in no known layer. */
  layer: number | undefined;
}

export const maxLayers = 512;

export const packageFilters = address<PackageFilters>({
  tab: choice("tab", tabs, tabs.findings),
  platform: notNarrowing(text("platform", 100)),
  text: text("q", 256),
  severity: oneOf("severity", Severity),
  origin: oneOf("origin", Origin),
  vulnerable: flag("vulnerable"),
  layer: notNarrowing(integer("layer", 0, maxLayers)),
});

export const toLayersRequest = (filters: PackageFilters): ListImageLayersParams => ({
  platform: orAbsent(filters.platform),
  text: orAbsent(filters.text),
  severity: filters.severity,
  vulnerable: orAbsent(filters.vulnerable),
  origin: filters.origin,
});
