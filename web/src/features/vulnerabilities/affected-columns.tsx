import { Link } from "react-router";
import { Due } from "@/components/due";
import { FixedIn } from "@/components/fixed-in";
import { SeverityBadge } from "@/components/severity";
import { RelativeTime } from "@/components/ui/relative-time";
import type { Column } from "@/components/ui/virtual-table";
import { Workloads } from "@/components/workloads";
import { ImageName } from "@/components/image-name";
import { DecisionBadge } from "@/features/exceptions/decisions";
import type { Affected } from "@/gen/model";
import { imagePath, parseImageId } from "@/lib/image-id";
import { visible } from "@/lib/text";
import type { Time } from "./filters";

export const affectedGrid =
  "grid-cols-[minmax(12rem,1.4fr)_minmax(8rem,1fr)_5.5rem_minmax(6rem,0.8fr)_7.5rem_7.5rem_minmax(8rem,1fr)]";

function ImageLink({ row, className }: { row: Affected; className?: string }) {
  return (
    <Link
      data-row-focus
      to={imagePath(row.imageId, row.platform)}
      className={`block truncate text-sm font-medium outline-none after:absolute after:inset-0 ${className ?? ""}`}
    >
      <ImageName imageId={row.imageId} />
    </Link>
  );
}

/** Since when, or from when to when, something ran the image with it, and until when it is due. */
function Exposure({ row }: { row: Affected }) {
  if (!row.exposedSince) return <span>never ran</span>;
  return (
    <>
      <RelativeTime iso={row.exposedSince} />
      {row.exposedUntil && (
        <>
          {" "}
          <span className="block truncate text-xs">
            until <RelativeTime iso={row.exposedUntil} />
          </span>
        </>
      )}
      {row.due && (
        <span className="block truncate text-xs">
          due <Due of={row.due} />
        </span>
      )}
    </>
  );
}

const small = "text-[13px] [[role=columnheader]&]:text-xs";

export const affectedColumns = (time: Time): Column<Affected>[] => [
  {
    id: "image",
    header: "Image",
    cell: ({ row: { original: row } }) => (
      <>
        <ImageLink row={row} />
        <span className="untrusted block truncate text-xs text-muted">
          <span className="font-mono">{parseImageId(row.imageId).digest || "no digest"}</span> ·{" "}
          {visible(row.platform)}
        </span>
      </>
    ),
  },
  {
    id: "package",
    header: "Package",
    meta: { className: small },
    cell: ({ row: { original: row } }) => (
      <>
        <span className="untrusted block truncate">{visible(row.package.name)}</span>
        <span className="untrusted block truncate font-mono text-xs text-muted">
          {visible(row.package.version)}
        </span>
      </>
    ),
  },
  {
    id: "severity",
    header: "Severity",
    cell: ({ row: { original: row } }) => <SeverityBadge severity={row.severity} />,
  },
  {
    id: "fix",
    header: "Fixed in",
    cell: ({ row: { original: row } }) => (
      <>
        <FixedIn fix={row.fix} />
        <DecisionBadge of={row} className="max-w-full" />
      </>
    ),
  },
  {
    id: "seen",
    header: time === "closed" ? "Closed" : "First seen",
    meta: { className: `${small} text-muted` },
    cell: ({ row: { original: row } }) =>
      time === "closed" ? (
        <>
          <RelativeTime iso={row.fixedAt} none="–" />{" "}
          <span className="block truncate text-xs">
            seen <RelativeTime iso={row.firstSeen} none="–" />
          </span>
        </>
      ) : (
        <RelativeTime iso={row.firstSeen} none="–" />
      ),
  },
  {
    id: "exposed",
    header: "Exposed since",
    meta: { className: `${small} text-muted` },
    cell: ({ row: { original: row } }) => <Exposure row={row} />,
  },
  {
    id: "workloads",
    header: time === "day" ? "Workloads on this date" : "Workloads",
    meta: { className: small },
    cell: ({ row: { original: row } }) => (
      <Workloads workloads={row.workloads} count={row.workloadCount} owners={row.owners} />
    ),
  },
];

/** Affected images on a narrow screen. */
export function AffectedCard({ row, time }: { row: Affected; time: Time }) {
  return (
    <div className="relative px-4 py-3 has-[[data-row-focus]:focus-visible]:bg-accent-soft/60">
      <div className="flex items-center justify-between gap-2">
        <ImageLink row={row} className="min-w-0" />
        <SeverityBadge severity={row.severity} className="shrink-0" />
      </div>
      <p className="untrusted mt-1 truncate text-sm">
        {visible(row.package.name)}{" "}
        <span className="font-mono text-xs text-muted">{visible(row.package.version)}</span>
      </p>
      <div className="mt-1 flex gap-x-2 text-[13px] text-muted">
        <span className="shrink-0">Fixed in</span>
        <FixedIn fix={row.fix} />
        <DecisionBadge of={row} className="ml-auto" />
      </div>
      <p className="mt-1 flex flex-wrap gap-x-4 text-[13px] text-muted">
        <span>
          {time === "closed" ? "Closed " : "First seen "}
          <RelativeTime iso={time === "closed" ? row.fixedAt : row.firstSeen} none="–" />
        </span>
        <span>
          Exposed <RelativeTime iso={row.exposedSince} none="never" />
        </span>
        {row.due && (
          <span>
            Due <Due of={row.due} />
          </span>
        )}
      </p>
      <div className="mt-1 text-[13px]">
        <Workloads workloads={row.workloads} count={row.workloadCount} owners={row.owners} />
      </div>
    </div>
  );
}
