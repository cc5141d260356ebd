import { ArrowRight } from "lucide-react";
import { Link } from "react-router";
import { RelativeTime } from "@/components/ui/relative-time";
import type { Column } from "@/components/ui/virtual-table";
import type { Rollout, RolloutSide } from "@/gen/model";
import { cn } from "@/lib/cn";
import { imagePath, parseImageId } from "@/lib/image-id";
import { rolloutPath, workloadName } from "@/lib/paths";
import { visible } from "@/lib/text";
import { Evaluation } from "./evaluation";

export const grid = "grid-cols-[6.5rem_minmax(11rem,1fr)_minmax(13rem,1.1fr)_minmax(20rem,25rem)]";

/** Such as "web · Deployment · app"; with the cluster in front and the owner behind where there is one. */
export const placeOf = ({ cluster, workload, container }: Rollout) =>
  visible(
    [cluster, workload.namespace, workload.kind, container, workload.owner].filter(Boolean).join(" · "),
  );

function Name({ row }: { row: Rollout }) {
  return (
    <span className="block min-w-0" title={workloadName(row.workload)}>
      <Link
        data-row-focus
        to={rolloutPath(row.id)}
        className="untrusted block truncate text-sm font-medium outline-none after:absolute after:inset-0"
      >
        {visible(row.workload.name)}
      </Link>
      <span className="untrusted block truncate text-xs text-muted">{placeOf(row)}</span>
    </span>
  );
}

/** The last part of the name and of the digest, by which two images of a repository differ. */
function Side({ side, className }: { side: RolloutSide; className?: string }) {
  const { name, digest } = parseImageId(visible(side.imageId));
  return (
    <Link
      to={imagePath(side.imageId, side.platform)}
      title={visible(side.imageId)}
      className={cn(
        "untrusted relative flex h-6.5 max-w-max min-w-0 items-center gap-1.5 underline-offset-2 hover:underline",
        className,
      )}
    >
      <span className="truncate">{name}</span>
      {digest && <span className="shrink-0 font-mono text-xs">{digest.replace(/^sha\d+:/, "")}</span>}
    </Link>
  );
}

function Sides({ row: { from, to } }: { row: Rollout }) {
  return (
    <span className="grid grid-cols-[1rem_minmax(0,1fr)] items-center gap-x-1 text-[13px]">
      <span className="sr-only">From</span>
      <Side side={from} className="col-start-2 text-muted" />
      <ArrowRight className="col-start-1 size-3.5 text-muted" aria-hidden />
      <span className="sr-only">to</span>
      <Side side={to} className="col-start-2 text-accent" />
    </span>
  );
}

export const columns: Column<Rollout>[] = [
  {
    id: "at",
    header: "When",
    cell: ({ row: { original: row } }) => (
      <RelativeTime iso={row.at} none="–" className="block truncate text-[13px] text-muted" />
    ),
  },
  { id: "name", header: "Workload", cell: ({ row: { original: row } }) => <Name row={row} /> },
  { id: "images", header: "Image", cell: ({ row: { original: row } }) => <Sides row={row} /> },
  {
    id: "evaluation",
    header: "Findings",
    cell: ({ row: { original: row } }) => <Evaluation evaluation={row.evaluation} />,
  },
];

/** A rollout on a narrow screen. */
export function RolloutCard({ row }: { row: Rollout }) {
  return (
    <div className="relative px-4 py-3 has-[[data-row-focus]:focus-visible]:bg-accent-soft/60">
      <div className="flex items-start justify-between gap-3">
        <Name row={row} />
        <RelativeTime iso={row.at} none="–" className="shrink-0 text-[13px] leading-5 text-muted" />
      </div>
      <div className="mt-1.5">
        <Sides row={row} />
      </div>
      <div className="mt-2">
        <Evaluation evaluation={row.evaluation} />
      </div>
    </div>
  );
}
