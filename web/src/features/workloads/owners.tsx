import { Users } from "lucide-react";
import { useMemo } from "react";
import { Link } from "react-router";
import { OverdueCount } from "@/components/due";
import { ExportMenu } from "@/components/export-menu";
import { NamespaceFilter } from "@/components/filter-fields";
import { KevMark, SeverityCounts } from "@/components/severity";
import { FilterBar } from "@/components/ui/filter-bar";
import { ListPanel } from "@/components/ui/list-panel";
import { SearchInput } from "@/components/ui/search-input";
import { Select } from "@/components/ui/select";
import { sortable } from "@/components/ui/sort-header";
import { StatePanel } from "@/components/ui/state";
import { useList } from "@/components/ui/use-list";
import type { Column } from "@/components/ui/virtual-table";
import { Empty } from "@/features/session/empty";
import { ListOwnersSort as By, type OwnerPage, type OwnerSummary } from "@/gen/model";
import { getListOwnersUrl, listOwners } from "@/gen/workloads/workloads";
import { formatNumber, plural } from "@/lib/format";
import { sumsKey } from "@/lib/lists";
import { workloadsOfOwnerPath } from "@/lib/paths";
import { visible } from "@/lib/text";
import { sortOptions, toOwnersRequest, workloadFilters, type WorkloadFilters } from "./filters";

const grid = "grid-cols-[minmax(12rem,1fr)_7rem_7rem_24rem]";

const ownerKey = ({ owner }: OwnerSummary) => JSON.stringify(owner ?? null);

function Name({ owner }: OwnerSummary) {
  return (
    <Link
      data-row-focus
      to={workloadsOfOwnerPath(owner)}
      className="block truncate text-sm font-medium outline-none after:absolute after:inset-0"
    >
      {owner === undefined ? (
        <span className="text-muted">No owner</span>
      ) : (
        <span className="untrusted" title={visible(owner)}>
          {visible(owner)}
        </span>
      )}
    </Link>
  );
}

function Findings({ row }: { row: OwnerSummary }) {
  if (row.scanned === 0) return <span className="text-[13px] text-muted">Not scanned yet</span>;
  return (
    <span className="flex items-center gap-2">
      <span className="block w-75 max-w-full shrink-0">
        <SeverityCounts counts={row.counts} />
        <OverdueCount of={row.overdue} />
      </span>
      {row.counts.kev > 0 && <KevMark />}
    </span>
  );
}

const numbers = "tabular pr-3 text-right text-[13px] [[role=columnheader]&]:text-xs";

const columns = (sort: By, setSort: (sort: By) => void): Column<OwnerSummary>[] => [
  {
    id: "owner",
    ...sortable("Owner", By.name, "ascending", sort, setSort),
    cell: ({ row: { original: row } }) => <Name {...row} />,
  },
  {
    id: "workloads",
    header: "Workloads",
    meta: { className: numbers },
    cell: ({ row: { original: row } }) => formatNumber(row.workloads),
  },
  {
    id: "images",
    header: "Images",
    meta: { className: numbers },
    cell: ({ row: { original: row } }) => (
      <>
        {formatNumber(row.images)}
        {row.scanned < row.images && (
          <span className="block truncate text-xs text-muted">{formatNumber(row.scanned)} scanned</span>
        )}
      </>
    ),
  },
  {
    id: "findings",
    ...sortable("Findings", By["-severity"], "descending", sort, setSort),
    cell: ({ row: { original: row } }) => <Findings row={row} />,
  },
];

/** An owner on a narrow screen. */
const OwnerCard = (row: OwnerSummary) => (
  <div className="relative px-4 py-3 has-[[data-row-focus]:focus-visible]:bg-accent-soft/60">
    <Name {...row} />
    <div className="mt-1.5 flex min-h-6 items-center">
      <Findings row={row} />
    </div>
    <p className="tabular mt-1.5 flex gap-x-4 text-[13px] text-muted">
      <span>{plural(row.workloads, "workload")}</span>
      <span>{plural(row.images, "image")}</span>
    </p>
  </div>
);

/** The owners of workloads; a row leads to the workloads of its owner. */
export function OwnerList({
  filters,
  update,
}: {
  filters: WorkloadFilters;
  update: (change: Partial<WorkloadFilters>) => void;
}) {
  const request = toOwnersRequest(filters);
  const list = useList<OwnerSummary, OwnerPage>({
    queryKey: [...sumsKey, "owners", request],
    load: (page, init) => listOwners({ ...request, ...page }, init),
    rowKey: ownerKey,
  });
  const tableColumns = useMemo(
    () => columns(filters.sort, (sort) => update({ sort })),
    [filters.sort, update],
  );
  const filtered = filters.text !== "" || filters.namespace !== "";
  const clear = () => update(workloadFilters.none);
  const total = list.page?.total;
  return (
    <>
      <FilterBar
        label="Owners"
        count={total === undefined ? "" : plural(total, "row")}
        filtered={filtered}
        onClear={clear}
        actions={
          <ExportMenu
            formats={["csv"]}
            name="owners"
            url={(format) => getListOwnersUrl({ ...request, format })}
          />
        }
      >
        <SearchInput
          label="Search owners"
          placeholder="Owner"
          value={filters.text}
          maxLength={253}
          onChange={(text) => update({ text })}
          className="w-full sm:w-72"
        />
        <NamespaceFilter value={filters.namespace} onChange={(namespace) => update({ namespace })} />
        <Select
          label="Sort"
          options={sortOptions}
          value={filters.sort}
          onChange={(sort) => update({ sort })}
        />
      </FilterBar>
      <h2 className="sr-only">Owners</h2>
      <ListPanel
        label="Owners"
        list={list}
        columns={tableColumns}
        grid={grid}
        rowHeight={56}
        cardHeight={104}
        renderCard={OwnerCard}
        empty={
          <Empty
            filtered={filtered}
            namespace={filters.namespace}
            noMatch="No owner matches"
            nothing="No workloads in your namespaces"
            onClear={clear}
          >
            <StatePanel icon={Users} title="No workloads yet">
              <p>Owners appear here when a Scanner finds running containers.</p>
            </StatePanel>
          </Empty>
        }
      />
    </>
  );
}
