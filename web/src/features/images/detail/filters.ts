import { ListFindingsSort, Origin, Severity, type ListFindingsParams } from "@/gen/model";
import { address, choice, flag, oneOf, orAbsent, text, notNarrowing } from "@/lib/address";

export const tabs = { findings: "findings", presences: "presences" } as const;

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
