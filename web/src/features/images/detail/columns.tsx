import { Link } from "react-router";
import { KevMark, SeverityBadge } from "@/components/severity";
import { Due } from "@/components/due";
import { FixedIn } from "@/components/fixed-in";
import { RowToggle } from "@/components/ui/open-rows";
import { RelativeTime } from "@/components/ui/relative-time";
import { RowCheckbox } from "@/components/ui/selection";
import { sortable } from "@/components/ui/sort-header";
import type { Column } from "@/components/ui/virtual-table";
import { SuppressedMark } from "@/features/exceptions/decisions";
import { ListFindingsSort, type Finding } from "@/gen/model";
import { cn } from "@/lib/cn";
import { fixedIn } from "@/lib/fix";
import { visible } from "@/lib/text";
import { formatPercent, formatRisk } from "@/lib/format";
import { vulnerabilityPath } from "@/lib/paths";

export const grid =
  "grid-cols-[1.5rem_minmax(10rem,13rem)_6rem_4.5rem_3.5rem_minmax(7rem,1fr)_minmax(6rem,9rem)_minmax(6rem,9rem)] xl:grid-cols-[1.5rem_minmax(11rem,14rem)_6rem_4.5rem_3.5rem_minmax(8rem,1fr)_minmax(6rem,9rem)_minmax(6rem,9rem)_6.5rem_6.5rem_6rem_minmax(6rem,1fr)]";

/** The same, with a column to select rows in front. */
export const selectableGrid =
  "grid-cols-[1.5rem_1.5rem_minmax(10rem,13rem)_6rem_4.5rem_3.5rem_minmax(7rem,1fr)_minmax(6rem,9rem)_minmax(6rem,9rem)] xl:grid-cols-[1.5rem_1.5rem_minmax(9rem,14rem)_6rem_4.5rem_3.5rem_minmax(6rem,1fr)_minmax(5rem,9rem)_minmax(5rem,9rem)_6.5rem_6rem_6rem_minmax(4rem,1fr)]";

const toggleLabel = ({ vulnerability, package: pkg }: Finding) =>
  `Details of ${visible(vulnerability.id)} in ${visible(pkg.name)}`;

/** Which findings are selected; suppressed ones cannot be. */
export interface Selection {
  isSelected: (finding: Finding) => boolean;
  toggle: (finding: Finding) => void;
}

function Select({ finding, selection }: { finding: Finding; selection: Selection }) {
  if (finding.suppressed) return null;
  return (
    <RowCheckbox
      label={`Select ${visible(finding.vulnerability.id)} in ${visible(finding.package.name)}`}
      checked={selection.isSelected(finding)}
      onToggle={() => selection.toggle(finding)}
    />
  );
}

interface Options {
  sort: ListFindingsSort;
  setSort: (sort: ListFindingsSort) => void;
  /** Findings that the image has no more are listed. */
  closed: boolean;
  isOpen: (finding: Finding) => boolean;
  toggle: (finding: Finding) => void;
  /** Absent where findings cannot be selected. */
  selection?: Selection;
}

function VulnerabilityLink({ id, className }: { id: string; className?: string }) {
  return (
    <Link
      to={vulnerabilityPath(id)}
      className={cn("untrusted font-medium text-accent underline-offset-2 hover:underline", className)}
    >
      {visible(id)}
    </Link>
  );
}

function EPSS({ finding }: { finding: Finding }) {
  const { epss } = finding.vulnerability;
  if (!epss) return <span className="text-muted">–</span>;
  return (
    <span title={`More likely to be exploited than ${formatPercent(epss.percentile)} of all vulnerabilities`}>
      {formatPercent(epss.score)}
    </span>
  );
}

export function columns({ sort, setSort, closed, isOpen, toggle, selection }: Options): Column<Finding>[] {
  const select: Column<Finding>[] = selection
    ? [
        {
          id: "select",
          header: () => <span className="sr-only">Select</span>,
          cell: ({ row: { original: finding } }) => <Select finding={finding} selection={selection} />,
        },
      ]
    : [];
  return [
    ...select,
    {
      id: "toggle",
      header: () => <span className="sr-only">Details</span>,
      cell: ({ row: { original: finding } }) => (
        <RowToggle label={toggleLabel(finding)} open={isOpen(finding)} onToggle={() => toggle(finding)} />
      ),
    },
    {
      id: "vulnerability",
      header: "Vulnerability",
      cell: ({ row: { original: finding } }) => (
        <span className="flex items-center gap-2 text-sm">
          <VulnerabilityLink id={finding.vulnerability.id} className="relative min-w-0 truncate" />
          {(finding.vulnerability.kev?.length ?? 0) > 0 && <KevMark />}
          <SuppressedMark of={finding} />
        </span>
      ),
    },
    {
      id: "severity",
      ...sortable("Severity", ListFindingsSort["-severity"], "descending", sort, setSort),
      cell: ({ row: { original: finding } }) => <SeverityBadge severity={finding.vulnerability.severity} />,
    },
    {
      id: "epss",
      header: () => (
        <abbr
          title="Exploit Prediction Scoring System: probability of exploitation within 30 days"
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
      ...sortable("Risk", ListFindingsSort["-risk"], "descending", sort, setSort),
      cell: ({ row: { original: finding } }) => (
        <span className="tabular block pr-1 text-right text-[13px] font-medium">
          {formatRisk(finding.vulnerability.risk)}
        </span>
      ),
    },
    {
      id: "package",
      ...sortable("Package", ListFindingsSort.package, "ascending", sort, setSort),
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
      cell: ({ row: { original: finding } }) => <FixedIn fix={finding.fix} />,
    },
    {
      id: "time",
      header: closed ? "Closed" : "First seen",
      meta: { className: "hidden xl:block" },
      cell: ({ row: { original: finding } }) => (
        <RelativeTime
          iso={closed ? finding.fixedAt : finding.firstSeen}
          none="–"
          className="text-[13px] whitespace-nowrap text-muted"
        />
      ),
    },
    {
      id: "due",
      ...sortable("Due", ListFindingsSort.due, "ascending", sort, setSort),
      meta: { className: "hidden xl:block" },
      cell: ({ row: { original: finding } }) => (
        <Due of={finding.due} className="text-[13px] whitespace-nowrap" />
      ),
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
  selection,
}: {
  finding: Finding;
  open: boolean;
  onToggle: () => void;
  selection?: Selection;
}) {
  const { vulnerability, package: pkg } = finding;
  const { text, fixed } = fixedIn(finding);
  return (
    <div className="relative px-4 py-3 has-[[data-row-focus]:focus-visible]:bg-accent-soft/60">
      <div className="flex items-center gap-2">
        {selection && <Select finding={finding} selection={selection} />}
        <VulnerabilityLink id={vulnerability.id} className="relative z-1 min-w-0 text-sm" />
        {(vulnerability.kev?.length ?? 0) > 0 && <KevMark />}
        <SuppressedMark of={finding} />
        <SeverityBadge severity={vulnerability.severity} className="ml-auto" />
        <RowToggle label={toggleLabel(finding)} open={open} onToggle={onToggle} className="-mr-1" />
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
        <span>
          First seen <RelativeTime iso={finding.firstSeen} none="unknown" />
        </span>
        {finding.due && (
          <span>
            Due <Due of={finding.due} />
          </span>
        )}
        {finding.fixedAt && (
          <span>
            Closed <RelativeTime iso={finding.fixedAt} />
          </span>
        )}
      </p>
    </div>
  );
}
