import { Hourglass, Layers2, PackageCheck, RefreshCw, Tags } from "lucide-react";
import { Link } from "react-router";
import { KevMark, SeverityCounts } from "@/components/severity";
import { RowToggle } from "@/components/ui/open-rows";
import type { Column } from "@/components/ui/virtual-table";
import { Part } from "@/components/vulnerability-facts";
import { Workloads } from "@/components/workloads";
import type { FixItem, FixItemPackage } from "@/gen/model";
import { formatNumber, formatRisk, plural } from "@/lib/format";
import { imagePath, parseImageId } from "@/lib/image-id";
import { vulnerabilityPath, workloadName } from "@/lib/paths";
import { totalFindings } from "@/lib/severity";
import { visible } from "@/lib/text";
import { NewerTagOfFix, RecommendedTag } from "./newer-tag";
import { Preview } from "./preview";

export const grid = "grid-cols-[1.5rem_minmax(15rem,1.6fr)_5rem_22rem_5rem_minmax(9rem,1fr)]";

/** An update is told apart from others of the same image by its package, and a newer tag by its lookup. */
export const fixKey = ({ action, imageId, platform, packages, newerTag }: FixItem) =>
  JSON.stringify([
    action,
    imageId,
    platform,
    action === "update" && packages.map(({ id }) => id),
    newerTag?.lookup,
  ]);

const described = ({ summary, imageId, platform }: FixItem) => JSON.stringify([summary, imageId, platform]);

/** Rows that say the same as others: updates of packages of one name and version, which differ in what they are matched by. */
export function sameAsOthers(rows: FixItem[]): ReadonlySet<string> {
  const counts = new Map<string, number>();
  for (const row of rows) counts.set(described(row), (counts.get(described(row)) ?? 0) + 1);
  return new Set(rows.filter((row) => (counts.get(described(row)) ?? 0) > 1).map(fixKey));
}

/** What tells the package of an update apart from others of its name and version. */
function identity({ packages: [pkg] }: FixItem): string {
  return visible(pkg?.purl ?? pkg?.type ?? "");
}

const icons = {
  update: PackageCheck,
  rebuild: RefreshCw,
  newerTag: Tags,
  newerBase: Layers2,
  wait: Hourglass,
};

const number = "tabular text-right text-[13px] [[role=columnheader]&]:text-xs";

const toggleLabel = (row: FixItem) => `Details of ${visible(row.summary)}`;

function Action({ row, explicit }: { row: FixItem; explicit: boolean }) {
  const { name, digest } = parseImageId(visible(row.imageId));
  const Icon = icons[row.action];
  return (
    <span className="flex min-w-0 items-start gap-2">
      <Icon className="mt-0.5 size-4 shrink-0 text-muted" aria-hidden />
      <span className="block min-w-0">
        <span className="untrusted block truncate text-sm font-medium" title={visible(row.summary)}>
          {visible(row.summary)}
        </span>
        <span className="flex min-w-0 items-center gap-1.5 text-xs text-muted">
          <Link
            to={imagePath(row.imageId, row.platform)}
            title={visible(row.imageId)}
            className="untrusted relative truncate text-accent underline-offset-2 hover:underline"
          >
            {name}
          </Link>
          {digest && <span className="shrink-0 font-mono">{digest.replace(/^sha\d+:/, "")}</span>}
          {explicit && (
            <span className="untrusted min-w-0 truncate font-mono" title={identity(row)}>
              {identity(row)}
            </span>
          )}
        </span>
      </span>
    </span>
  );
}

/** The findings that an action closes, or that remain. */
function Findings({ row }: { row: FixItem }) {
  return (
    <span className="flex items-center gap-2">
      <SeverityCounts
        counts={row.counts}
        quiet={row.action === "wait"}
        className="w-75 max-w-full shrink-0"
      />
      {row.counts.kev > 0 && <KevMark />}
    </span>
  );
}

function Overdue({ count }: { count: number }) {
  return count > 0 ? (
    <span className="font-medium text-danger">{formatNumber(count)}</span>
  ) : (
    <span className="text-muted">–</span>
  );
}

interface Options {
  /** Keys of rows that other rows say the same as. */
  same: ReadonlySet<string>;
  isOpen: (row: FixItem) => boolean;
  toggle: (row: FixItem) => void;
}

export const columns = ({ same, isOpen, toggle }: Options): Column<FixItem>[] => [
  {
    id: "toggle",
    header: () => <span className="sr-only">Details</span>,
    cell: ({ row: { original: row } }) => (
      <RowToggle label={toggleLabel(row)} open={isOpen(row)} onToggle={() => toggle(row)} />
    ),
  },
  {
    id: "action",
    header: "Action",
    cell: ({ row: { original: row } }) => <Action row={row} explicit={same.has(fixKey(row))} />,
  },
  {
    id: "risk",
    header: "Risk",
    meta: { className: `${number} pr-3` },
    cell: ({ row: { original: row } }) => <span className="font-medium">{formatRisk(row.risk)}</span>,
  },
  { id: "findings", header: "Findings", cell: ({ row: { original: row } }) => <Findings row={row} /> },
  {
    id: "overdue",
    header: "Overdue",
    meta: { className: `${number} pr-3` },
    cell: ({ row: { original: row } }) => <Overdue count={row.overdue} />,
  },
  {
    id: "workloads",
    header: "Workloads",
    meta: { className: "text-[13px] [[role=columnheader]&]:text-xs" },
    cell: ({ row: { original: row } }) => (
      <Workloads workloads={row.workloads} count={row.workloadCount} owners={row.owners} />
    ),
  },
];

const explanations = {
  update: "The version is the lowest one that closes all findings of the package that have a fix.",
  rebuild:
    "These packages come from the distribution of the image, which has fixed versions. A build that installs updates gets them.",
  newerTag:
    "The newer tag does not have these findings. Updates and a rebuild of the image can close the same findings: do one of these.",
  newerBase:
    "The newer tag of the base image does not have these findings. It opens its own only as far as the image does not have them. Updates and a rebuild of the image can close the same findings.",
  wait: "There is no fixed version of these packages yet. Remove what you do not need, or decide about the findings.",
};

/** What the action consists of, and where it helps. */
export function FixDetail({ row }: { row: FixItem }) {
  return (
    <div className="grid gap-4 border-t border-line bg-subtle/50 px-4 py-4 lg:grid-cols-[1.6fr_1fr] lg:pl-14">
      <Part title={`Packages (${formatNumber(row.packageCount)})`}>
        <p className="text-muted">{explanations[row.action]}</p>
        <ul className="leading-7">
          {row.packages.map((pkg, index) => (
            <Package key={index} pkg={pkg} />
          ))}
          {row.packageCount > row.packages.length && (
            <li className="text-muted">{`and ${formatNumber(row.packageCount - row.packages.length)} more`}</li>
          )}
        </ul>
        <p className="flex flex-wrap gap-x-5 pt-1">
          <Link
            to={imagePath(row.imageId, row.platform)}
            className="text-accent underline-offset-2 hover:underline"
          >
            Findings of the image
          </Link>
        </p>
      </Part>
      <div className="min-w-0 space-y-4">
        {row.newerTag ? (
          <NewerTagOfFix row={row} tag={row.newerTag} />
        ) : (
          row.action !== "wait" && <Preview row={row} />
        )}
        <Part title={`Workloads (${formatNumber(row.workloadCount)})`}>
          <ul className="leading-7">
            {row.workloads.map((workload, index) => (
              <li key={index} className="untrusted truncate">
                {workloadName(workload)}
                {workload.owner !== undefined && (
                  <span className="text-muted"> · {visible(workload.owner)}</span>
                )}
              </li>
            ))}
            {row.workloads.length === 0 && <li className="text-muted">None runs the image now.</li>}
            {row.workloadCount > row.workloads.length && (
              <li className="text-muted">{`and ${formatNumber(row.workloadCount - row.workloads.length)} more`}</li>
            )}
          </ul>
        </Part>
        {!row.newerTag && <RecommendedTag row={row} />}
      </div>
    </div>
  );
}

function Package({ pkg }: { pkg: FixItemPackage }) {
  return (
    <li className="min-w-0">
      <span className="untrusted font-medium">{visible(pkg.name)}</span>{" "}
      <span className="untrusted font-mono text-xs">{visible(pkg.version)}</span>
      {pkg.fixVersion !== undefined && (
        <span className="untrusted font-mono text-xs text-ok"> → {visible(pkg.fixVersion)}</span>
      )}
      <span className="tabular text-muted">
        {` · ${plural(totalFindings(pkg.counts), "finding")}, risk ${formatRisk(pkg.risk)}`}
        {pkg.counts.kev > 0 && `, ${formatNumber(pkg.counts.kev)} known to be exploited`}
      </span>
      {pkg.purl && (
        <span className="untrusted block font-mono text-xs leading-5 text-muted">{visible(pkg.purl)}</span>
      )}
      {pkg.vulnerabilities && (
        <span className="flex flex-wrap gap-x-3 text-xs leading-6">
          {pkg.vulnerabilities.map((id) => (
            <Link
              key={id}
              to={vulnerabilityPath(id)}
              className="untrusted text-accent underline-offset-2 hover:underline"
            >
              {visible(id)}
            </Link>
          ))}
        </span>
      )}
    </li>
  );
}

interface CardProps {
  row: FixItem;
  explicit: boolean;
  open: boolean;
  onToggle: () => void;
}

/** A fix on a narrow screen. */
export function FixCard({ row, explicit, open, onToggle }: CardProps) {
  return (
    <div className="relative px-4 py-3 has-[[data-row-focus]:focus-visible]:bg-accent-soft/60">
      <div className="flex items-start justify-between gap-2">
        <Action row={row} explicit={explicit} />
        <RowToggle label={toggleLabel(row)} open={open} onToggle={onToggle} className="-mr-1" />
      </div>
      <div className="mt-1.5 flex min-h-6 items-center">
        <SeverityCounts counts={row.counts} quiet={row.action === "wait"} className="w-full" />
      </div>
      <p className="tabular mt-1.5 flex flex-wrap gap-x-4 text-[13px] text-muted">
        <span>Risk {formatRisk(row.risk)}</span>
        {row.counts.kev > 0 && <KevMark />}
        {row.overdue > 0 && <span className="text-danger">{formatNumber(row.overdue)} overdue</span>}
        <span className="ml-auto">{plural(row.workloadCount, "workload")}</span>
      </p>
    </div>
  );
}
