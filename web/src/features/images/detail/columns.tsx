import { ChevronRight } from "lucide-react";
import { KevMark, SeverityBadge } from "@/components/severity";
import { ExternalLink } from "@/components/ui/external-link";
import { SortHeader } from "@/components/ui/sort-header";
import type { Column } from "@/components/ui/virtual-table";
import { ListFindingsSort, type Finding } from "@/gen/model";
import { cn } from "@/lib/cn";
import { visible } from "@/lib/text";
import { formatPercent, formatRisk } from "@/lib/format";
import { fixedIn } from "./finding";

export const grid =
  "grid-cols-[1.5rem_minmax(10rem,13rem)_6rem_4.5rem_3.5rem_minmax(7rem,1fr)_minmax(6rem,9rem)_minmax(6rem,9rem)] xl:grid-cols-[1.5rem_minmax(11rem,14rem)_6rem_4.5rem_3.5rem_minmax(8rem,1fr)_minmax(7rem,10rem)_minmax(7rem,10rem)_6.5rem_minmax(8rem,1fr)]";

interface Options {
  sort: ListFindingsSort;
  setSort: (sort: ListFindingsSort) => void;
  isOpen: (finding: Finding) => boolean;
  toggle: (finding: Finding) => void;
}

export function Toggle({
  finding,
  open,
  onToggle,
  className,
}: {
  finding: Finding;
  open: boolean;
  onToggle: () => void;
  className?: string;
}) {
  return (
    <button
      type="button"
      data-row-focus
      aria-expanded={open}
      aria-label={`Details of ${finding.vulnerability.id} in ${finding.package.name}`}
      onClick={onToggle}
      className={cn(
        "flex size-6 items-center justify-center rounded text-muted outline-none after:absolute after:inset-0",
        className,
      )}
    >
      <ChevronRight className={cn("size-4 transition-transform", open && "rotate-90")} aria-hidden />
    </button>
  );
}

function EPSS({ finding }: { finding: Finding }) {
  const { epss } = finding.vulnerability;
  if (!epss) return <span className="text-muted">–</span>;
  return (
    <span title={`Likelier to be exploited than ${formatPercent(epss.percentile)} of all vulnerabilities`}>
      {formatPercent(epss.score)}
    </span>
  );
}

export function columns({ sort, setSort, isOpen, toggle }: Options): Column<Finding>[] {
  const sortable = (name: string, by: ListFindingsSort, direction: "ascending" | "descending") => {
    const sorted = sort === by ? direction : ("none" as const);
    return {
      meta: { sorted },
      header: () => (
        <SortHeader sorted={sorted} onSort={() => setSort(by)}>
          {name}
        </SortHeader>
      ),
    };
  };
  return [
    {
      id: "toggle",
      header: () => <span className="sr-only">Details</span>,
      cell: ({ row: { original: finding } }) => (
        <Toggle finding={finding} open={isOpen(finding)} onToggle={() => toggle(finding)} />
      ),
    },
    {
      id: "vulnerability",
      header: "Vulnerability",
      cell: ({ row: { original: finding } }) => (
        <span className="flex items-center gap-2 text-sm">
          <ExternalLink href={finding.vulnerability.dataSource} className="relative font-medium">
            {finding.vulnerability.id}
          </ExternalLink>
          {(finding.vulnerability.kev?.length ?? 0) > 0 && <KevMark />}
        </span>
      ),
    },
    {
      id: "severity",
      ...sortable("Severity", ListFindingsSort["-severity"], "descending"),
      cell: ({ row: { original: finding } }) => <SeverityBadge severity={finding.vulnerability.severity} />,
    },
    {
      id: "epss",
      header: () => (
        <abbr
          title="Exploit Prediction Scoring System: how likely it is exploited within 30 days"
          className="no-underline"
        >
          EPSS
        </abbr>
      ),
      meta: { className: "tabular text-right text-[13px] [[role=columnheader]&]:text-xs" },
      cell: ({ row: { original: finding } }) => <EPSS finding={finding} />,
    },
    {
      id: "risk",
      ...sortable("Risk", ListFindingsSort["-risk"], "descending"),
      cell: ({ row: { original: finding } }) => (
        <span className="tabular block pr-1 text-right text-[13px] font-medium">
          {formatRisk(finding.vulnerability.risk)}
        </span>
      ),
    },
    {
      id: "package",
      ...sortable("Package", ListFindingsSort.package, "ascending"),
      cell: ({ row: { original: finding } }) => (
        <span className="untrusted block truncate text-sm font-medium" title={visible(finding.package.name)}>
          {visible(finding.package.name)}
        </span>
      ),
    },
    {
      id: "version",
      header: "Version",
      cell: ({ row: { original: finding } }) => (
        <span className="untrusted block truncate font-mono text-xs" title={visible(finding.package.version)}>
          {visible(finding.package.version)}
        </span>
      ),
    },
    {
      id: "fix",
      header: "Fixed in",
      cell: ({ row: { original: finding } }) => {
        const { text, fixed } = fixedIn(finding);
        return (
          <span
            className={cn(
              "untrusted block truncate",
              fixed ? "font-mono text-xs text-ok" : "text-[13px] text-muted",
            )}
            title={text}
          >
            {text}
          </span>
        );
      },
    },
    {
      id: "type",
      header: "Type",
      meta: { className: "hidden xl:block" },
      cell: ({ row: { original: finding } }) => (
        <span className="untrusted block truncate text-[13px] text-muted">
          {visible(finding.package.type)}
        </span>
      ),
    },
    {
      id: "location",
      header: "Location",
      meta: { className: "hidden xl:block" },
      cell: ({ row: { original: finding } }) => {
        const [first, ...rest] = finding.locations;
        return (
          <span
            className="flex items-center gap-1 text-xs text-muted"
            title={finding.locations.map(({ path }) => path).join("\n")}
          >
            <span className="untrusted truncate font-mono">{visible(first?.path ?? "–")}</span>
            {rest.length > 0 && <span className="shrink-0">+{rest.length}</span>}
          </span>
        );
      },
    },
  ];
}

/** A finding on a narrow screen. */
export function FindingCard({
  finding,
  open,
  onToggle,
}: {
  finding: Finding;
  open: boolean;
  onToggle: () => void;
}) {
  const { vulnerability, package: pkg } = finding;
  const { text, fixed } = fixedIn(finding);
  return (
    <div className="relative px-4 py-3 has-[[data-row-focus]:focus-visible]:bg-accent-soft/60">
      <div className="flex items-center gap-2">
        <ExternalLink href={vulnerability.dataSource} className="relative z-1 min-w-0 text-sm font-medium">
          {vulnerability.id}
        </ExternalLink>
        {(vulnerability.kev?.length ?? 0) > 0 && <KevMark />}
        <SeverityBadge severity={vulnerability.severity} className="ml-auto" />
        <Toggle finding={finding} open={open} onToggle={onToggle} className="-mr-1" />
      </div>
      <p className="untrusted mt-1 truncate text-sm">
        {visible(pkg.name)} <span className="font-mono text-xs text-muted">{visible(pkg.version)}</span>
      </p>
      <p className="untrusted tabular mt-1 flex flex-wrap gap-x-4 text-[13px] text-muted">
        <span>Risk {formatRisk(vulnerability.risk)}</span>
        <span>
          EPSS <EPSS finding={finding} />
        </span>
        <span className={cn(fixed && "text-ok")}>{fixed ? `Fixed in ${text}` : text}</span>
      </p>
    </div>
  );
}
