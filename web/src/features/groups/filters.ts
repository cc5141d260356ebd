import type { Option } from "@/components/ui/select";
import { ListNamespacesSort, type ListNamespacesParams, type ListOwnersParams } from "@/gen/model";
import { address, choice, flag, notNarrowing, oneOf, orAbsent, text } from "@/lib/address";

/** What workloads, and with them images and vulnerabilities, are grouped by. */
export const groupings = { owners: "owners", namespaces: "namespaces" } as const;
export type Grouping = keyof typeof groupings;

/** The lists whose rows are grouped. */
export type Listed = "images" | "workloads" | "vulnerabilities";

export const isGrouping = (group: string): group is Grouping => group in groupings;

export const sortOptions: Option<ListNamespacesSort>[] = [
  { value: ListNamespacesSort["-severity"], label: "Most severe" },
  { value: ListNamespacesSort.name, label: "Name" },
];

export interface GroupFilters {
  group: Grouping | undefined;
  text: string;
  namespace: string;
  owner: string;
  noOwner: boolean;
  sort: ListNamespacesSort;
}

export const groupFilters = address<GroupFilters>({
  group: notNarrowing(oneOf("group", groupings)),
  text: text("q", 253),
  namespace: text("namespace", 253),
  owner: text("owner", 253),
  noOwner: flag("noOwner"),
  sort: choice("sort", ListNamespacesSort, ListNamespacesSort["-severity"]),
});

export const toOwnersRequest = (filters: GroupFilters): ListOwnersParams => ({
  text: orAbsent(filters.text),
  namespace: orAbsent(filters.namespace),
  due: true,
  sort: filters.sort,
});

export const toNamespacesRequest = (filters: GroupFilters): ListNamespacesParams => ({
  text: orAbsent(filters.text),
  ...ownedBy(filters),
  due: true,
  sort: filters.sort,
});

const ownedBy = ({ owner, noOwner }: GroupFilters) =>
  owner ? { owner } : noOwner ? { noOwner: true } : undefined;

/** What chooses the rows of a group in a list; an owner without a name stands for the rows without one. */
export const chosenBy = (by: Grouping, name: string | undefined, filters: GroupFilters) =>
  by === groupings.namespaces
    ? { namespace: name, ...ownedBy(filters) }
    : {
        ...(name === undefined ? { noOwner: true } : { owner: name }),
        ...(filters.namespace && { namespace: filters.namespace }),
      };

/** Where the rows of a group are listed. */
export const groupPath = (list: Listed, chosen: ReturnType<typeof chosenBy>) =>
  `/${list}?${new URLSearchParams(Object.entries(chosen).map(([name, value]) => [name, String(value)])).toString()}`;
