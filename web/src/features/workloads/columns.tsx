import { Link } from "react-router";
import { OverdueCount } from "@/components/due";
import { FirstImage, ImageLinks } from "@/components/image-links";
import { KevMark, SeverityCounts } from "@/components/severity";
import { RowToggle } from "@/components/ui/open-rows";
import { RelativeTime } from "@/components/ui/relative-time";
import { SelectRow, selectColumn } from "@/components/ui/selection";
import { sortable } from "@/components/ui/sort-header";
import type { Column } from "@/components/ui/virtual-table";
import { Owner } from "@/components/workloads";
import { Part } from "@/components/vulnerability-facts";
import { ListWorkloadsSort as By, type WorkloadSummary } from "@/gen/model";
import { cn } from "@/lib/cn";
import { formatNumber, plural } from "@/lib/format";
import { fixesOfWorkloadPath, imagesOfPath, rolloutsOfWorkloadPath, workloadName } from "@/lib/paths";
import { visible } from "@/lib/text";
import { columnNames, workloadColumns, type WorkloadColumn } from "./column-names";

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
    <span className="block w-70 max-w-full min-w-0 xl:w-75">
      <SeverityCounts counts={row.counts} />
      <OverdueCount of={row.overdue} />
    </span>
  ) : (
    <span className="text-[13px] text-muted">Not scanned yet</span>
  );
}

interface Options {
  shown: readonly WorkloadColumn[];
  sort: By;
  setSort: (sort: By) => void;
  isOpen: (row: WorkloadSummary) => boolean;
  toggle: (row: WorkloadSummary) => void;
}

const text = "text-[13px] [[role=columnheader]&]:text-xs";
const number = `tabular pr-3 text-right ${text}`;

const worded = (id: "namespace" | "kind", width: readonly [number, number]): Column<WorkloadSummary> => ({
  id,
  header: workloadColumns[id],
  meta: { className: text, width },
  cell: ({ row: { original: row } }) => (
    <span className="untrusted block truncate">{visible(row.workload[id])}</span>
  ),
});

/** A column of counts of findings. */
const counted = (
  id: "fixable" | "kev" | "overdue",
  count: (row: WorkloadSummary) => number,
  tone = "",
): Column<WorkloadSummary> => ({
  id,
  header: workloadColumns[id],
  meta: { className: number, width: [5.5, 7.5] },
  cell: ({ row: { original: row } }) =>
    row.scanned > 0 ? (
      <span className={count(row) > 0 ? tone : "text-muted"}>{formatNumber(count(row))}</span>
    ) : (
      "–"
    ),
});

export function columns({ shown, sort, setSort, isOpen, toggle }: Options): Column<WorkloadSummary>[] {
  const all: Record<WorkloadColumn, Column<WorkloadSummary>> = {
    name: {
      id: "name",
      ...sortable(workloadColumns.name, By.name, "ascending", sort, setSort, { width: [10, "1.3fr"] }),
      cell: ({ row: { original: row } }) => <Name row={row} />,
    },
    namespace: worded("namespace", [7, 11]),
    kind: worded("kind", [6, 8]),
    owner: {
      id: "owner",
      header: workloadColumns.owner,
      meta: { className: text, width: [6, "0.7fr"] },
      cell: ({ row: { original: row } }) => <Owner workload={row.workload} />,
    },
    images: {
      id: "images",
      header: workloadColumns.images,
      meta: { className: text, width: [7, "1fr"] },
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
    containers: {
      id: "containers",
      header: workloadColumns.containers,
      meta: { className: number, width: [5.5, 6] },
      cell: ({ row: { original: row } }) => formatNumber(row.containers),
    },
    findings: {
      id: "findings",
      ...sortable(workloadColumns.findings, By["-severity"], "descending", sort, setSort, {
        width: [20.5, 22],
      }),
      cell: ({ row: { original: row } }) => (
        <span className="flex items-center gap-2">
          <Findings row={row} />
          {row.counts.kev > 0 && <KevMark />}
        </span>
      ),
    },
    fixable: counted("fixable", ({ counts }) => counts.fixable),
    kev: counted("kev", ({ counts }) => counts.kev, "font-medium text-danger"),
    overdue: counted("overdue", ({ overdue = 0 }) => overdue, "font-medium text-danger"),
    since: {
      id: "since",
      header: workloadColumns.since,
      meta: { width: [6, 8] },
      cell: ({ row: { original: row } }) => (
        <RelativeTime iso={row.since} none="–" className="block truncate text-[13px] text-muted" />
      ),
    },
  };
  return [
    selectColumn<WorkloadSummary>(({ workload }) => workloadName(workload)),
    {
      id: "toggle",
      meta: { width: [1.5, 1.5] },
      header: () => <span className="sr-only">Details</span>,
      cell: ({ row: { original: row } }) => (
        <RowToggle label={toggleLabel(row)} open={isOpen(row)} onToggle={() => toggle(row)} />
      ),
    },
    ...columnNames.filter((name) => name === "name" || shown.includes(name)).map((name) => all[name]),
  ];
}

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
          <Link
            to={fixesOfWorkloadPath(row.workload)}
            className="text-accent underline-offset-2 hover:underline"
          >
            What to fix first
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
        <SelectRow row={row} label={workloadName(row.workload)} className="-ml-1.5" />
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
