import { Link } from "react-router";
import { OverdueCount } from "@/components/due";
import { KevMark, SeverityCounts } from "@/components/severity";
import { RowToggle } from "@/components/ui/open-rows";
import { sortable } from "@/components/ui/sort-header";
import type { Column } from "@/components/ui/virtual-table";
import { ListNamespacesSort as By, type NamespaceSummary } from "@/gen/model";
import { formatNumber, plural } from "@/lib/format";
import { visible } from "@/lib/text";

/** An owner or a namespace. */
export interface Group extends Omit<NamespaceSummary, "namespace"> {
  /** Undefined for what has no owner. */
  name: string | undefined;
}

export const groupKey = ({ name }: Group) => JSON.stringify(name ?? null);

const nameOf = ({ name }: Group) => (name === undefined ? "No owner" : visible(name));

interface Options {
  pathOf: (group: Group) => string;
  isOpen: (group: Group) => boolean;
  toggle: (group: Group) => void;
}

const Toggle = ({ row, isOpen, toggle, className }: Options & { row: Group; className?: string }) => (
  <RowToggle
    label={`First rows of ${nameOf(row)}`}
    open={isOpen(row)}
    onToggle={() => toggle(row)}
    className={className}
  />
);

const Name = ({ row, pathOf }: Options & { row: Group }) => (
  <Link
    to={pathOf(row)}
    title={nameOf(row)}
    className="untrusted relative min-w-0 truncate text-sm font-medium underline-offset-2 hover:underline"
  >
    {row.name === undefined ? <span className="text-muted">{nameOf(row)}</span> : nameOf(row)}
  </Link>
);

function Findings({ row }: { row: Group }) {
  if (row.scanned === 0) return <span className="text-[13px] text-muted">Not scanned yet</span>;
  return (
    <span className="flex min-w-0 items-center gap-2">
      <span className="block w-75 max-w-full min-w-0">
        <SeverityCounts counts={row.counts} />
        <OverdueCount of={row.overdue} />
      </span>
      {row.counts.kev > 0 && <KevMark className="shrink-0" />}
    </span>
  );
}

const numbers = "tabular pr-3 text-right text-[13px] [[role=columnheader]&]:text-xs";

export const grid = "grid-cols-[minmax(12rem,1fr)_7rem_7rem_24rem]";

export const columns = (
  title: string,
  sort: By,
  setSort: (sort: By) => void,
  options: Options,
): Column<Group>[] => [
  {
    id: "name",
    ...sortable(title, By.name, "ascending", sort, setSort),
    cell: ({ row: { original: row } }) => (
      <span className="flex items-center gap-2">
        <Toggle row={row} {...options} className="-ml-1.5" />
        <Name row={row} {...options} />
      </span>
    ),
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

/** A group on a narrow screen. */
export const GroupCard = ({ row, ...options }: Options & { row: Group }) => (
  <div className="relative px-4 py-3 has-[[data-row-focus]:focus-visible]:bg-accent-soft/60">
    <div className="flex items-start gap-2">
      <Name row={row} {...options} />
      <Toggle row={row} {...options} className="-mr-1 ml-auto" />
    </div>
    <div className="mt-1.5 flex min-h-6 items-center">
      <Findings row={row} />
    </div>
    <p className="tabular mt-1.5 flex gap-x-4 text-[13px] text-muted">
      <span>{plural(row.workloads, "workload")}</span>
      <span>{plural(row.images, "image")}</span>
    </p>
  </div>
);
