import type { Option } from "@/components/ui/select";
import { ListBasesSort, type ListBasesParams } from "@/gen/model";
import { address, choice, orAbsent, text } from "@/lib/address";
import { groupField, type Group } from "../list/filters";

export const sortOptions: Option<ListBasesSort>[] = [
  { value: ListBasesSort["-images"], label: "Most images" },
  { value: ListBasesSort["-severity"], label: "Most severe" },
];

export interface BaseFilters {
  group: Group;
  namespace: string;
  owner: string;
  sort: ListBasesSort;
}

export const baseFilters = address<BaseFilters>({
  group: groupField,
  namespace: text("namespace", 253),
  owner: text("owner", 253),
  sort: choice("sort", ListBasesSort, ListBasesSort["-images"]),
});

export const toRequest = (filters: BaseFilters): ListBasesParams => ({
  namespace: orAbsent(filters.namespace),
  owner: orAbsent(filters.owner),
  sort: filters.sort,
});
