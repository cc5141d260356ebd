import type { Option } from "@/components/ui/select";
import { FixAction, type ListFixesParams } from "@/gen/model";
import { address, flag, oneOf, orAbsent, text } from "@/lib/address";

export const actionOptions: Option<FixAction | "all">[] = [
  { value: "all", label: "Any" },
  { value: FixAction.update, label: "Update a package" },
  { value: FixAction.rebuild, label: "Rebuild an image" },
  { value: FixAction.newerTag, label: "Move to a newer tag" },
  { value: FixAction.newerBase, label: "Rebuild on a newer base" },
  { value: FixAction.wait, label: "No fix yet" },
];

export interface FixFilters {
  action: FixAction | undefined;
  imageId: string;
  kev: boolean;
  overdue: boolean;
  namespace: string;
  owner: string;
  noOwner: boolean;
  /** The whole name. */
  workload: string;
}

export const fixFilters = address<FixFilters>({
  action: oneOf("action", FixAction),
  imageId: text("image", 512),
  kev: flag("kev"),
  overdue: flag("overdue"),
  namespace: text("namespace", 253),
  owner: text("owner", 253),
  noOwner: flag("noOwner"),
  workload: text("workload", 253),
});

export const toRequest = (filters: FixFilters): ListFixesParams => ({
  action: filters.action,
  imageId: orAbsent(filters.imageId),
  kev: orAbsent(filters.kev),
  overdue: orAbsent(filters.overdue),
  namespace: orAbsent(filters.namespace),
  owner: orAbsent(filters.owner),
  noOwner: orAbsent(filters.noOwner && !filters.owner),
  workload: orAbsent(filters.workload),
});
