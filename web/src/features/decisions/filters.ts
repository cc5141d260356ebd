import { DecisionStatus, ListDecisionsSort, ListDecisionsState, type ListDecisionsParams } from "@/gen/model";
import { address, choice, integer, notNarrowing, orAbsent, someOf, text } from "@/lib/address";

export interface DecisionFilters {
  state: ListDecisionsState;
  statuses: DecisionStatus[];
  vulnerability: string;
  name: string;
  expiringWithin: number | undefined;
  sort: ListDecisionsSort;
}

export const decisionFilters = address<DecisionFilters>({
  state: notNarrowing(choice("state", ListDecisionsState, ListDecisionsState.standing)),
  statuses: someOf("status", Object.values(DecisionStatus)),
  vulnerability: text("vulnerability", 255),
  name: text("name", 253),
  expiringWithin: integer("expiringWithin", 0, 36_500),
  sort: choice("sort", ListDecisionsSort, ListDecisionsSort["-since"]),
});

export const toRequest = (filters: DecisionFilters): ListDecisionsParams => ({
  state: filters.state,
  status: orAbsent(filters.statuses),
  vulnerability: orAbsent(filters.vulnerability),
  name: orAbsent(filters.name),
  expiringWithin: filters.expiringWithin,
  sort: filters.sort,
});
