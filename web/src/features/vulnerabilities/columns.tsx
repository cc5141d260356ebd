import { Link } from "react-router";
import { KevMark, SeverityBadge } from "@/components/severity";
import { RelativeTime } from "@/components/ui/relative-time";
import { sortable } from "@/components/ui/sort-header";
import type { Column } from "@/components/ui/virtual-table";
import { ListVulnerabilitiesSort as By, type VulnerabilitySummary } from "@/gen/model";
import { formatNumber, formatPercent, formatRisk, plural } from "@/lib/format";
import { vulnerabilityPath } from "@/lib/paths";
import { visible } from "@/lib/text";

export const grid =
  "grid-cols-[minmax(12rem,1fr)_6rem_5rem_5rem_5rem_5rem_6rem_6rem_8rem] xl:grid-cols-[minmax(14rem,1fr)_7rem_6rem_6rem_7rem_7rem_7rem_7rem_9rem]";

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
  sort: By;
  setSort: (sort: By) => void;
  suppressed: boolean;
}

export function columns({ sort, setSort, suppressed }: Options): Column<VulnerabilitySummary>[] {
  const byNumber = (name: string, by: By) => {
    const { meta, header } = sortable(name, by, "descending", sort, setSort);
    return { meta: { ...meta, className: number }, header };
  };
  return [
    {
      id: "id",
      ...sortable("Vulnerability", By.id, "ascending", sort, setSort),
      cell: ({ row: { original: row } }) => <Name row={row} suppressed={suppressed} />,
    },
    {
      id: "severity",
      ...sortable("Severity", By["-severity"], "descending", sort, setSort),
      cell: ({ row: { original: row } }) => <SeverityBadge severity={row.severity} />,
    },
    {
      id: "risk",
      ...byNumber("Risk", By["-risk"]),
      cell: ({ row: { original: row } }) => <span className="font-medium">{formatRisk(row.risk)}</span>,
    },
    {
      id: "epss",
      ...byNumber("EPSS", By["-epss"]),
      cell: ({ row: { original: row } }) => epssOf(row.epss),
    },
    {
      id: "images",
      header: "Images",
      meta: { className: number },
      cell: ({ row: { original: row } }) => formatNumber(row.images),
    },
    {
      id: "packages",
      header: "Packages",
      meta: { className: number },
      cell: ({ row: { original: row } }) => formatNumber(row.packages),
    },
    {
      id: "workloads",
      header: "Workloads",
      meta: { className: number },
      cell: ({ row: { original: row } }) => formatNumber(row.workloads),
    },
    {
      id: "fix",
      header: "Fix",
      meta: { className: "text-[13px] pl-3 [[role=columnheader]&]:text-xs" },
      cell: ({ row: { original: row } }) =>
        row.fixable ? <span className="text-ok">available</span> : <span className="text-muted">none</span>,
    },
    {
      id: "firstSeen",
      header: "First seen",
      cell: ({ row: { original: row } }) => (
        <RelativeTime iso={row.firstSeen} none="unknown" className="block truncate text-[13px] text-muted" />
      ),
    },
  ];
}

/** A vulnerability on a narrow screen. */
export function VulnerabilityCard({ row, suppressed }: RowProps) {
  return (
    <div className="relative px-4 py-3 has-[[data-row-focus]:focus-visible]:bg-accent-soft/60">
      <div className="flex items-center justify-between gap-2">
        <Name row={row} suppressed={suppressed} />
        <SeverityBadge severity={row.severity} className="shrink-0" />
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
