import { Link } from "react-router";
import { KevMark, SeverityBadge } from "@/components/severity";
import { RelativeTime } from "@/components/ui/relative-time";
import { SelectRow, selectColumn } from "@/components/ui/selection";
import { sortable } from "@/components/ui/sort-header";
import type { Column } from "@/components/ui/virtual-table";
import { ListVulnerabilitiesSort as By, type VulnerabilitySummary } from "@/gen/model";
import { formatNumber, formatPercent, formatRisk, plural } from "@/lib/format";
import { vulnerabilityPath } from "@/lib/paths";
import { visible } from "@/lib/text";
import { columnNames, vulnerabilityColumns, type VulnerabilityColumn } from "./column-names";

const number = "tabular text-right text-[13px] [[role=columnheader]&]:text-xs";

interface RowProps {
  row: VulnerabilitySummary;
  /** Whether the list has what decisions suppress; its links lead to pages that have it, too. */
  suppressed: boolean;
}

function Name({ row, suppressed }: RowProps) {
  return (
    <span className="flex min-w-0 items-center gap-2">
      <Link
        data-row-focus
        to={vulnerabilityPath(row.id) + (suppressed ? "?suppressed=true" : "")}
        title={visible(row.id)}
        className="untrusted min-w-0 truncate text-sm font-medium outline-none after:absolute after:inset-0"
      >
        {visible(row.id)}
      </Link>
      {row.kev && <KevMark className="shrink-0" />}
    </span>
  );
}

export const epssOf = (epss: number) => (epss > 0 ? formatPercent(Math.min(1, epss)) : "–");

interface Options {
  shown: readonly VulnerabilityColumn[];
  sort: By;
  setSort: (sort: By) => void;
  suppressed: boolean;
}

export function columns({ shown, sort, setSort, suppressed }: Options): Column<VulnerabilitySummary>[] {
  const { id, severity, risk, epss, firstSeen } = vulnerabilityColumns;
  const counted = (name: "images" | "packages" | "workloads"): Column<VulnerabilitySummary> => ({
    id: name,
    header: vulnerabilityColumns[name],
    meta: { className: number, width: [5, 7] },
    cell: ({ row: { original: row } }) => formatNumber(row[name]),
  });
  const byNumber = (name: string, by: By) =>
    sortable(name, by, "descending", sort, setSort, { className: number, width: [5, 6] });
  const all: Record<VulnerabilityColumn, Column<VulnerabilitySummary>> = {
    id: {
      id: "id",
      ...sortable(id, By.id, "ascending", sort, setSort, { width: [12, "1fr"] }),
      cell: ({ row: { original: row } }) => <Name row={row} suppressed={suppressed} />,
    },
    severity: {
      id: "severity",
      ...sortable(severity, By["-severity"], "descending", sort, setSort, { width: [6, 7] }),
      cell: ({ row: { original: row } }) => <SeverityBadge severity={row.severity} />,
    },
    risk: {
      id: "risk",
      ...byNumber(risk, By["-risk"]),
      cell: ({ row: { original: row } }) => <span className="font-medium">{formatRisk(row.risk)}</span>,
    },
    epss: {
      id: "epss",
      ...byNumber(epss, By["-epss"]),
      cell: ({ row: { original: row } }) => epssOf(row.epss),
    },
    images: counted("images"),
    packages: counted("packages"),
    workloads: counted("workloads"),
    fix: {
      id: "fix",
      header: vulnerabilityColumns.fix,
      meta: { className: "text-[13px] pl-3 [[role=columnheader]&]:text-xs", width: [6, 7] },
      cell: ({ row: { original: row } }) =>
        row.fixable ? <span className="text-ok">available</span> : <span className="text-muted">none</span>,
    },
    firstSeen: {
      id: "firstSeen",
      header: firstSeen,
      meta: { width: [7, 9] },
      cell: ({ row: { original: row } }) => (
        <RelativeTime iso={row.firstSeen} none="unknown" className="block truncate text-[13px] text-muted" />
      ),
    },
  };
  return [
    selectColumn<VulnerabilitySummary>(labelOf),
    ...columnNames.filter((name) => name === "id" || shown.includes(name)).map((name) => all[name]),
  ];
}

const labelOf = (row: VulnerabilitySummary) => visible(row.id);

/** A vulnerability on a narrow screen. */
export function VulnerabilityCard({ row, suppressed }: RowProps) {
  return (
    <div className="relative px-4 py-3 has-[[data-row-focus]:focus-visible]:bg-accent-soft/60">
      <div className="flex items-center gap-2">
        <SelectRow row={row} label={labelOf(row)} className="-ml-1.5" />
        <Name row={row} suppressed={suppressed} />
        <SeverityBadge severity={row.severity} className="ml-auto shrink-0" />
      </div>
      <p className="tabular mt-1 flex flex-wrap gap-x-4 text-[13px] text-muted">
        <span>Risk {formatRisk(row.risk)}</span>
        <span>EPSS {epssOf(row.epss)}</span>
        <span className={row.fixable ? "text-ok" : undefined}>{row.fixable ? "Fixable" : "No fix"}</span>
      </p>
      <p className="tabular mt-1 flex flex-wrap gap-x-4 text-[13px] text-muted">
        <span>{plural(row.images, "image")}</span>
        <span>{plural(row.workloads, "workload")}</span>
        <span className="ml-auto">
          <RelativeTime iso={row.firstSeen} none="" />
        </span>
      </p>
    </div>
  );
}
