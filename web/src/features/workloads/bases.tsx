import { Layers } from "lucide-react";
import { useMemo } from "react";
import { Link } from "react-router";
import { ExportMenu } from "@/components/export-menu";
import { NamespaceFilter, OwnerFilter } from "@/components/filter-fields";
import { KevMark, SeverityCounts } from "@/components/severity";
import { FilterBar } from "@/components/ui/filter-bar";
import { ListPanel } from "@/components/ui/list-panel";
import { StatePanel } from "@/components/ui/state";
import { useList } from "@/components/ui/use-list";
import type { Column } from "@/components/ui/virtual-table";
import { BaseName } from "@/features/images/bases/base-name";
import { UnknownBases } from "@/features/images/bases/unknown-bases";
import { Empty } from "@/features/session/empty";
import { getListBasesUrl, listBases } from "@/gen/images/images";
import { BaseSource, type BasePage, type BaseSummary } from "@/gen/model";
import { plural } from "@/lib/format";
import { sumsKey } from "@/lib/lists";
import { baseKey, imagesOnBasePath, workloadsOnBasePath } from "@/lib/paths";
import { toBasesRequest, workloadFilters, type WorkloadFilters } from "./filters";

const link = "tabular text-[13px] text-accent underline-offset-2 hover:underline";

const Name = (row: BaseSummary) => (
  <>
    <span className="block truncate text-sm font-medium">
      <BaseName base={row} />
    </span>
    <span className="block truncate text-xs text-muted">
      {plural(row.layers, "layer")}
      {row.source === BaseSource.listed && " · listed"}
    </span>
  </>
);

function Workloads({ row, filters }: { row: BaseSummary; filters: WorkloadFilters }) {
  // An image of which results are kept need not run any longer.
  if (row.workloads === 0) return <span className="text-[13px] text-muted">None runs</span>;
  return (
    <Link data-row-focus to={workloadsOnBasePath(row, filters)} className={link}>
      {plural(row.workloads, "workload")}
    </Link>
  );
}

const Images = ({ row, filters }: { row: BaseSummary; filters: WorkloadFilters }) => (
  <Link to={imagesOnBasePath(row, filters)} className={link}>
    {plural(row.images, "image")}
  </Link>
);

function Findings({ row: { scanned, counts }, kev = true }: { row: BaseSummary; kev?: boolean }) {
  if (scanned === 0) return <span className="text-[13px] text-muted">Not scanned yet</span>;
  return (
    <span className="flex min-w-0 items-center gap-2">
      <span className="block w-75 min-w-0">
        <SeverityCounts counts={counts} />
      </span>
      {kev && counts.kev > 0 && <KevMark />}
    </span>
  );
}

const columns = (filters: WorkloadFilters): Column<BaseSummary>[] => [
  {
    id: "base",
    header: "Base image",
    meta: { width: [10, "1fr"] },
    cell: ({ row: { original: row } }) => <Name {...row} />,
  },
  {
    id: "workloads",
    header: "Workloads on it",
    meta: { width: [8, 10] },
    cell: ({ row: { original: row } }) => <Workloads row={row} filters={filters} />,
  },
  {
    id: "images",
    header: "Images on it",
    meta: { width: [6, 8] },
    cell: ({ row: { original: row } }) => <Images row={row} filters={filters} />,
  },
  {
    id: "findings",
    header: "Findings of these images",
    meta: { width: [20.5, 23] },
    cell: ({ row: { original: row } }) => <Findings row={row} />,
  },
];

/** A base image on a narrow screen. */
const BaseCard = ({ row, filters }: { row: BaseSummary; filters: WorkloadFilters }) => (
  <div className="relative px-4 py-3">
    <Name {...row} />
    <div className="mt-1.5 flex min-h-6 items-center">
      <Findings row={row} kev={false} />
    </div>
    <p className="mt-1.5 flex gap-x-4">
      <Workloads row={row} filters={filters} />
      <Images row={row} filters={filters} />
      {row.counts.kev > 0 && <KevMark />}
    </p>
  </div>
);

/** What the images of workloads were built on, the most severe findings first; each leads to the workloads that run images on it. */
export function WorkloadBaseList({
  filters,
  update,
}: {
  filters: WorkloadFilters;
  update: (change: Partial<WorkloadFilters>) => void;
}) {
  const request = toBasesRequest(filters);
  const list = useList<BaseSummary, BasePage>({
    queryKey: [...sumsKey, "bases", request],
    load: (page, init) => listBases({ ...request, ...page }, init),
    rowKey: baseKey,
  });
  const tableColumns = useMemo(() => columns(filters), [filters]);
  const filtered = filters.namespace !== "" || filters.owner !== "";
  const clear = () => update(workloadFilters.none);
  const total = list.page?.total;
  return (
    <>
      <FilterBar
        label="Base images"
        count={total === undefined ? "" : plural(total, "base image")}
        filtered={filtered}
        onClear={clear}
        actions={
          <ExportMenu
            formats={["csv"]}
            name="base-images"
            url={(format) => getListBasesUrl({ ...request, format })}
          />
        }
      >
        <NamespaceFilter value={filters.namespace} onChange={(namespace) => update({ namespace })} />
        <OwnerFilter value={filters.owner} onChange={(owner) => update({ owner })} />
      </FilterBar>
      <h2 className="sr-only">Base images</h2>
      <UnknownBases listed={list.page?.listed} />
      <ListPanel
        label="Base images"
        list={list}
        columns={tableColumns}
        rowHeight={56}
        cardHeight={112}
        renderCard={(row) => <BaseCard row={row} filters={filters} />}
        empty={
          <Empty
            filtered={filtered}
            namespace={filters.namespace}
            noMatch="No base image matches"
            nothing="No base images in your namespaces"
            onClear={clear}
          >
            <StatePanel icon={Layers} title="No base images">
              <p>Base images appear here when images share layers.</p>
            </StatePanel>
          </Empty>
        }
      />
    </>
  );
}
