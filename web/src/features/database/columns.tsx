import { ArrowRight } from "lucide-react";
import { Link } from "react-router";
import { FirstImage } from "@/components/image-links";
import { KevMark, SeverityBadge } from "@/components/severity";
import { RowToggle } from "@/components/ui/open-rows";
import type { Column } from "@/components/ui/virtual-table";
import { Workloads } from "@/components/workloads";
import { Severity, type Change, type ChangeSide } from "@/gen/model";
import { cn } from "@/lib/cn";
import { plural } from "@/lib/format";
import { vulnerabilityPath } from "@/lib/paths";
import { visible } from "@/lib/text";
import { describeEPSS, describeFix, describeReasons, kinds, present } from "./change";

export const grid =
  "grid-cols-[1.5rem_minmax(9rem,12rem)_6.5rem_minmax(6rem,11rem)_4rem_minmax(8rem,1fr)_minmax(7rem,1fr)] xl:grid-cols-[1.5rem_minmax(10rem,13rem)_6.5rem_11rem_4rem_minmax(9rem,1fr)_minmax(6rem,8rem)_minmax(9rem,1fr)_minmax(8rem,1fr)]";

export function KindBadge({ change, className }: { change: Change; className?: string }) {
  const kind = kinds.find(({ value }) => value === change.kind);
  return (
    <span
      className={cn(
        "inline-flex h-5.5 items-center rounded border px-1.5 text-xs font-medium",
        kind?.look,
        className,
      )}
    >
      {kind?.label ?? visible(change.kind)}
    </span>
  );
}

/** The severity, or what it was and what it is. */
export function SeverityChange({ change: { before, after } }: { change: Change }) {
  const badge = (side: ChangeSide) => (
    <SeverityBadge severity={Object.values(Severity).find((name) => name === side.severity) ?? "Unknown"} />
  );
  if (before && after && before.severity !== after.severity) {
    return (
      <span className="inline-flex flex-wrap items-center gap-1">
        {badge(before)}
        <ArrowRight className="size-3 text-muted" aria-hidden />
        <span className="sr-only">became</span>
        {badge(after)}
      </span>
    );
  }
  const side = after ?? before;
  return side ? badge(side) : <span className="text-muted">–</span>;
}

export function VulnerabilityName({ change, className }: { change: Change; className?: string }) {
  return (
    <Link
      to={vulnerabilityPath(change.vulnerabilityId)}
      className={cn(
        "untrusted relative font-medium text-accent underline-offset-2 hover:underline",
        className,
      )}
    >
      {visible(change.vulnerabilityId)}
    </Link>
  );
}

export function Images({ change: { images, imageIds } }: { change: Change }) {
  if (images === 0) return <span className="text-muted">none any more</span>;
  return <FirstImage images={imageIds.map((imageId) => ({ imageId }))} count={images} />;
}

const toggleLabel = (change: Change) =>
  `Details of ${visible(change.vulnerabilityId)} in ${visible(change.package.name)}`;

interface Options {
  isOpen: (change: Change) => boolean;
  toggle: (change: Change) => void;
}

export const columns = ({ isOpen, toggle }: Options): Column<Change>[] => [
  {
    id: "toggle",
    header: () => <span className="sr-only">Details</span>,
    cell: ({ row: { original: change } }) => (
      <RowToggle label={toggleLabel(change)} open={isOpen(change)} onToggle={() => toggle(change)} />
    ),
  },
  {
    id: "vulnerability",
    header: "Vulnerability",
    cell: ({ row: { original: change } }) => (
      <span className="flex items-center gap-2 text-sm">
        <VulnerabilityName change={change} className="min-w-0 truncate" />
        {present(change)?.kev && <KevMark className="shrink-0" />}
      </span>
    ),
  },
  {
    id: "kind",
    header: "What",
    cell: ({ row: { original: change } }) => (
      <span className="block">
        <KindBadge change={change} />
        {change.reasons.length > 0 && (
          <span className="block truncate text-xs text-muted" title={describeReasons(change.reasons)}>
            {describeReasons(change.reasons)}
          </span>
        )}
      </span>
    ),
  },
  {
    id: "severity",
    header: "Severity",
    cell: ({ row: { original: change } }) => <SeverityChange change={change} />,
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
    cell: ({ row: { original: change } }) => describeEPSS(present(change)),
  },
  {
    id: "package",
    header: "Package",
    cell: ({ row: { original: change } }) => (
      <span className="block text-[13px]">
        <span className="untrusted block truncate">{visible(change.package.name)}</span>
        <span className="untrusted block truncate font-mono text-xs text-muted">
          {visible(change.package.version)}
        </span>
      </span>
    ),
  },
  {
    id: "fix",
    header: "Fixed in",
    meta: { className: "hidden xl:block" },
    cell: ({ row: { original: change } }) => (
      <span className="untrusted block truncate text-[13px]" title={describeFix(present(change))}>
        {describeFix(present(change))}
      </span>
    ),
  },
  {
    id: "images",
    header: "Images",
    meta: { className: "text-[13px] [[role=columnheader]&]:text-xs" },
    cell: ({ row: { original: change } }) => <Images change={change} />,
  },
  {
    id: "workloads",
    header: "Workloads",
    meta: { className: "hidden xl:block text-[13px] [[role=columnheader]&]:text-xs" },
    cell: ({ row: { original: change } }) => (
      <Workloads workloads={change.workloads} count={change.workloads.length} />
    ),
  },
];

/** A change on a narrow screen. */
export function ChangeCard({
  change,
  open,
  onToggle,
}: {
  change: Change;
  open: boolean;
  onToggle: () => void;
}) {
  return (
    <div className="relative px-4 py-3 has-[[data-row-focus]:focus-visible]:bg-accent-soft/60">
      <div className="flex items-center gap-2">
        <VulnerabilityName change={change} className="z-1 min-w-0 truncate text-sm" />
        {present(change)?.kev && <KevMark className="shrink-0" />}
        <span className="ml-auto shrink-0">
          <KindBadge change={change} />
        </span>
        <RowToggle label={toggleLabel(change)} open={open} onToggle={onToggle} className="-mr-1" />
      </div>
      <p className="untrusted mt-1 truncate text-sm">
        {visible(change.package.name)}{" "}
        <span className="font-mono text-xs text-muted">{visible(change.package.version)}</span>
      </p>
      <div className="tabular mt-1.5 flex items-center gap-x-3 text-[13px] text-muted">
        <SeverityChange change={change} />
        <span>EPSS {describeEPSS(present(change))}</span>
        <span className="ml-auto">{plural(change.images, "image")}</span>
      </div>
    </div>
  );
}
