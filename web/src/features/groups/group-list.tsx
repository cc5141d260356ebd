import { Boxes, Users } from "lucide-react";
import { useCallback, useMemo, type ReactNode } from "react";
import { ExportMenu } from "@/components/export-menu";
import { NamespaceFilter, OwnerFilter, WithoutOwner } from "@/components/filter-fields";
import { FilterBar } from "@/components/ui/filter-bar";
import { ListPanel } from "@/components/ui/list-panel";
import { useOpenRows } from "@/components/ui/open-rows";
import { SearchInput } from "@/components/ui/search-input";
import { Select } from "@/components/ui/select";
import { StatePanel } from "@/components/ui/state";
import { useList } from "@/components/ui/use-list";
import { Empty } from "@/features/session/empty";
import {
  getListNamespacesUrl,
  getListOwnersUrl,
  listNamespaces,
  listOwners,
} from "@/gen/workloads/workloads";
import { useAddress } from "@/lib/address";
import { plural } from "@/lib/format";
import { sumsKey } from "@/lib/lists";
import { columns, grid, GroupCard, groupKey, type Group } from "./columns";
import {
  chosenBy,
  groupFilters,
  groupPath,
  sortOptions,
  toNamespacesRequest,
  toOwnersRequest,
  type GroupFilters,
  type Grouping,
  type Listed,
} from "./filters";
import { FirstRows } from "./first-rows";

interface PageOfGroups {
  items: Group[];
  total: number;
  nextPageToken?: string;
}

/** The requests for the groups, and the words about them. */
const kinds = {
  owners: {
    request: toOwnersRequest,
    load: async (filters: GroupFilters, page: object, init: RequestInit): Promise<PageOfGroups> => {
      const { items, ...rest } = await listOwners({ ...toOwnersRequest(filters), ...page }, init);
      return { ...rest, items: items.map(({ owner, ...group }) => ({ ...group, name: owner })) };
    },
    url: (filters: GroupFilters) => getListOwnersUrl({ ...toOwnersRequest(filters), format: "csv" }),
    // Those without an owner have a row, too.
    count: (total: number) => plural(total, "row"),
    title: "Owner",
    titles: "Owners",
    icon: Users,
  },
  namespaces: {
    request: toNamespacesRequest,
    load: async (filters: GroupFilters, page: object, init: RequestInit): Promise<PageOfGroups> => {
      const { items, ...rest } = await listNamespaces({ ...toNamespacesRequest(filters), ...page }, init);
      return { ...rest, items: items.map(({ namespace, ...group }) => ({ ...group, name: namespace })) };
    },
    url: (filters: GroupFilters) => getListNamespacesUrl({ ...toNamespacesRequest(filters), format: "csv" }),
    count: (total: number) => plural(total, "namespace"),
    title: "Namespace",
    titles: "Namespaces",
    icon: Boxes,
  },
};

/** How many rows of a list a group has, as far as the group says it. */
const rowsOf: Record<Listed, (group: Group) => number | undefined> = {
  images: ({ images }) => images,
  workloads: ({ workloads }) => workloads,
  vulnerabilities: () => undefined,
};

/** Owners or namespaces with their findings. A row opens the first rows of its group, and leads to all of them in the list. */
export function GroupList({
  by,
  list: listed,
  controls,
}: {
  by: Grouping;
  list: Listed;
  /** What chooses the grouping, unless that is beside the list. */
  controls?: ReactNode;
}) {
  const { filters, update } = useAddress(groupFilters);
  const kind = kinds[by];
  const list = useList<Group, PageOfGroups>({
    queryKey: [...sumsKey, by, kind.request(filters)],
    load: (page, init) => kind.load(filters, page, init),
    rowKey: groupKey,
  });
  const { isOpen, toggle } = useOpenRows(groupKey);
  const chosen = useCallback((group: Group) => chosenBy(by, group.name, filters), [by, filters]);
  const options = useMemo(
    () => ({ pathOf: (group: Group) => groupPath(listed, chosen(group)), isOpen, toggle }),
    [listed, chosen, isOpen, toggle],
  );
  const tableColumns = useMemo(
    () => columns(kind.title, filters.sort, (sort) => update({ sort }), options),
    [kind.title, filters.sort, update, options],
  );
  const filtered = groupFilters.isFiltered(filters);
  const clear = () => update(groupFilters.none);
  const total = list.page?.total;
  return (
    <>
      <FilterBar
        label={kind.titles}
        count={total === undefined ? "" : kind.count(total)}
        filtered={filtered}
        onClear={clear}
        actions={<ExportMenu formats={["csv"]} name={by} url={() => kind.url(filters)} />}
      >
        <SearchInput
          label={`Search ${by}`}
          placeholder={kind.title}
          value={filters.text}
          maxLength={253}
          onChange={(text) => update({ text })}
          className="w-full sm:w-72"
        />
        {by === "owners" ? (
          <NamespaceFilter value={filters.namespace} onChange={(namespace) => update({ namespace })} />
        ) : (
          <>
            <OwnerFilter value={filters.owner} onChange={(owner) => update({ owner })} />
            {filters.noOwner && <WithoutOwner what="namespaces" onClear={() => update({ noOwner: false })} />}
          </>
        )}
        {controls}
        <Select
          label="Sort"
          options={sortOptions}
          value={filters.sort}
          onChange={(sort) => update({ sort })}
        />
      </FilterBar>
      <h2 className="sr-only">{kind.titles}</h2>
      <ListPanel
        label={kind.titles}
        list={list}
        columns={tableColumns}
        grid={grid}
        rowHeight={56}
        cardHeight={104}
        renderCard={(row) => <GroupCard row={row} {...options} />}
        renderDetail={(row) => (
          <FirstRows list={listed} chosen={chosen(row)} expected={rowsOf[listed](row)} />
        )}
        isOpen={isOpen}
        empty={
          <Empty
            filtered={filtered}
            namespace={filters.namespace}
            noMatch={`No ${kind.title.toLowerCase()} matches`}
            nothing="No workloads in your namespaces"
            onClear={clear}
          >
            <StatePanel icon={kind.icon} title="No workloads yet">
              <p>{kind.titles} appear here when a Scanner finds running containers.</p>
            </StatePanel>
          </Empty>
        }
      />
    </>
  );
}
