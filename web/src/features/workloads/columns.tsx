import { Link } from "react-router";
import { OverdueCount } from "@/components/due";
import { FirstImage, ImageLinks } from "@/components/image-links";
import { KevMark, SeverityCounts } from "@/components/severity";
import { RowToggle } from "@/components/ui/open-rows";
import { RelativeTime } from "@/components/ui/relative-time";
import { sortable } from "@/components/ui/sort-header";
import type { Column } from "@/components/ui/virtual-table";
import { Owner } from "@/components/workloads";
import { Part } from "@/components/vulnerability-facts";
import { ListWorkloadsSort as By, type WorkloadSummary } from "@/gen/model";
import { cn } from "@/lib/cn";
import { formatNumber, plural } from "@/lib/format";
import { imagesOfPath, rolloutsOfWorkloadPath, workloadName } from "@/lib/paths";
import { visible } from "@/lib/text";

export const grid = (owners: boolean) =>
  owners
    ? "grid-cols-[1.5rem_minmax(10rem,1.3fr)_minmax(6rem,0.7fr)_minmax(7rem,1fr)_6rem_22rem_7rem]"
    : "grid-cols-[1.5rem_minmax(11rem,1.3fr)_minmax(8rem,1fr)_6rem_22rem_8rem]";

export const workloadKey = ({ workload }: WorkloadSummary) =>
  JSON.stringify([workload.namespace, workload.kind, workload.name]);

const toggleLabel = ({ workload }: WorkloadSummary) => `Details of ${workloadName(workload)}`;

function Name({ row: { workload } }: { row: WorkloadSummary }) {
  return (
    <span className="block min-w-0" title={workloadName(workload)}>
      <span className="untrusted block truncate text-sm font-medium">{visible(workload.name)}</span>
      <span className="untrusted block truncate text-xs text-muted">
        {visible(`${workload.namespace} · ${workload.kind}`)}
      </span>
    </span>
  );
}

function Findings({ row }: { row: WorkloadSummary }) {
  return row.scanned > 0 ? (
    <span className="block w-75 max-w-full shrink-0">
      <SeverityCounts counts={row.counts} />
      <OverdueCount of={row.overdue} />
    </span>
  ) : (
    <span className="text-[13px] text-muted">Not scanned yet</span>
  );
}

interface Options {
  /** Whether there is a column for owners. */
  owners: boolean;
  sort: By;
  setSort: (sort: By) => void;
  isOpen: (row: WorkloadSummary) => boolean;
  toggle: (row: WorkloadSummary) => void;
}

const ownerColumn: Column<WorkloadSummary> = {
  id: "owner",
  header: "Owner",
  meta: { className: "text-[13px] [[role=columnheader]&]:text-xs" },
  cell: ({ row: { original: row } }) => <Owner workload={row.workload} />,
};

export const columns = ({ owners, sort, setSort, isOpen, toggle }: Options): Column<WorkloadSummary>[] => [
  {
    id: "toggle",
    header: () => <span className="sr-only">Details</span>,
    cell: ({ row: { original: row } }) => (
      <RowToggle label={toggleLabel(row)} open={isOpen(row)} onToggle={() => toggle(row)} />
    ),
  },
  {
    id: "name",
    ...sortable("Workload", By.name, "ascending", sort, setSort),
    cell: ({ row: { original: row } }) => <Name row={row} />,
  },
  ...(owners ? [ownerColumn] : []),
  {
    id: "images",
    header: "Images",
    meta: { className: "text-[13px] [[role=columnheader]&]:text-xs" },
    cell: ({ row: { original: row } }) => (
      <>
        <FirstImage images={row.images} count={row.imageCount} />
        {row.scanned < row.imageCount && (
          <span className="tabular block truncate text-xs text-muted">
            {formatNumber(row.scanned)} of {formatNumber(row.imageCount)} scanned
          </span>
        )}
      </>
    ),
  },
  {
    id: "containers",
    header: "Containers",
    meta: { className: "tabular pr-3 text-right text-[13px] [[role=columnheader]&]:text-xs" },
    cell: ({ row: { original: row } }) => formatNumber(row.containers),
  },
  {
    id: "findings",
    ...sortable("Findings", By["-severity"], "descending", sort, setSort),
    cell: ({ row: { original: row } }) => (
      <span className="flex items-center gap-2">
        <Findings row={row} />
        {row.counts.kev > 0 && <KevMark />}
      </span>
    ),
  },
  {
    id: "since",
    header: "Seen since",
    cell: ({ row: { original: row } }) => (
      <RelativeTime iso={row.since} none="–" className="block truncate text-[13px] text-muted" />
    ),
  },
];

/** The images that a workload runs. */
export function WorkloadDetail({ row }: { row: WorkloadSummary }) {
  return (
    <div className="border-t border-line bg-subtle/50 px-4 py-4 lg:pl-14">
      <Part title={`Images (${formatNumber(row.imageCount)})`}>
        <ImageLinks images={row.images} count={row.imageCount} none="It runs none any more." />
        <p className="flex flex-wrap gap-x-5 pt-2 leading-7">
          <Link to={imagesOfPath(row.workload)} className="text-accent underline-offset-2 hover:underline">
            List images with findings
          </Link>
          <Link
            to={rolloutsOfWorkloadPath(row.workload)}
            className="text-accent underline-offset-2 hover:underline"
          >
            Rollouts of this workload
          </Link>
        </p>
      </Part>
    </div>
  );
}

/** A workload on a narrow screen. */
export function WorkloadCard({
  row,
  open,
  onToggle,
}: {
  row: WorkloadSummary;
  open: boolean;
  onToggle: () => void;
}) {
  return (
    <div className="relative px-4 py-3 has-[[data-row-focus]:focus-visible]:bg-accent-soft/60">
      <div className="flex items-start gap-2">
        <Name row={row} />
        {row.counts.kev > 0 && <KevMark className="ml-auto mt-0.5 shrink-0" />}
        <RowToggle
          label={toggleLabel(row)}
          open={open}
          onToggle={onToggle}
          className={cn("-mr-1", row.counts.kev === 0 && "ml-auto")}
        />
      </div>
      <div className="mt-1.5 flex min-h-6 items-center">
        <Findings row={row} />
      </div>
      <p className="tabular mt-1.5 flex gap-x-4 text-[13px] text-muted">
        <span>{plural(row.imageCount, "image")}</span>
        <span>{plural(row.containers, "container")}</span>
        <RelativeTime iso={row.since} none="" className="ml-auto" />
      </p>
      {row.workload.owner !== undefined && (
        <p className="mt-1 text-[13px]">
          <Owner workload={row.workload} />
        </p>
      )}
    </div>
  );
}
