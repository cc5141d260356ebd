import { Link } from "react-router";
import { RowToggle } from "@/components/ui/open-rows";
import { RelativeTime } from "@/components/ui/relative-time";
import type { Column } from "@/components/ui/virtual-table";
import { Owner } from "@/components/workloads";
import { Part } from "@/components/vulnerability-facts";
import { ImageName } from "@/components/image-name";
import type { ContainerCoverage } from "@/gen/model";
import { formatNumber, plural } from "@/lib/format";
import { imagePath, parseImageId } from "@/lib/image-id";
import { workloadName } from "@/lib/paths";
import { visible } from "@/lib/text";
import { sourceName } from "@/lib/source";
import { CoverageBadge, explainReason } from "./state";

export const grid = (owners: boolean) =>
  owners
    ? "grid-cols-[1.5rem_minmax(10rem,1.2fr)_minmax(6rem,0.7fr)_minmax(9rem,1.2fr)_6rem_minmax(10rem,1.4fr)_3.5rem_7rem]"
    : "grid-cols-[1.5rem_minmax(11rem,1.2fr)_minmax(10rem,1.2fr)_6rem_minmax(11rem,1.4fr)_4rem_8rem]";

export const coverageKey = ({
  workload,
  container,
  imageId,
  platform,
  reference,
  ...row
}: ContainerCoverage) =>
  JSON.stringify([
    workload.namespace,
    workload.kind,
    workload.name,
    container,
    imageId,
    platform,
    reference,
    row.state,
    row.reason,
  ]);

const toggleLabel = ({ workload, container }: ContainerCoverage) =>
  `Details of ${visible(container)} in ${workloadName(workload)}`;

function Name({ row: { workload, container } }: { row: ContainerCoverage }) {
  return (
    <span className="block min-w-0" title={workloadName(workload)}>
      <span className="untrusted block truncate text-sm font-medium">{visible(workload.name)}</span>
      <span className="untrusted block truncate text-xs text-muted">
        {visible(`${workload.namespace} · ${workload.kind} · ${container}`)}
      </span>
    </span>
  );
}

function Reference({ row: { imageId, platform, reference } }: { row: ContainerCoverage }) {
  const name = visible(reference || imageId);
  if (!imageId)
    return (
      <span className="untrusted block truncate" title={name}>
        {name}
      </span>
    );
  return (
    <Link
      to={imagePath(imageId, platform)}
      title={visible(imageId)}
      className="relative block truncate text-accent underline-offset-2 hover:underline"
    >
      {reference ? (
        <span className="untrusted">{name}</span>
      ) : (
        <ImageName imageId={parseImageId(imageId).repository} />
      )}
    </Link>
  );
}

/** Why, and what comes next. */
function Why({ row }: { row: ContainerCoverage }) {
  const reason = explainReason(row.reason);
  if (!reason) return <span className="text-muted">–</span>;
  return (
    <span className="block min-w-0">
      <span className="untrusted block truncate" title={row.message && visible(row.message)}>
        {visible(reason.what)}
      </span>
      {row.nextAttempt && (
        <span className="block truncate text-xs text-muted">
          next attempt <RelativeTime iso={row.nextAttempt} />
        </span>
      )}
    </span>
  );
}

const small = "text-[13px] [[role=columnheader]&]:text-xs";

interface Options {
  /** Whether there is a column for owners. */
  owners: boolean;
  isOpen: (row: ContainerCoverage) => boolean;
  toggle: (row: ContainerCoverage) => void;
}

const ownerColumn: Column<ContainerCoverage> = {
  id: "owner",
  header: "Owner",
  meta: { className: small },
  cell: ({ row: { original: row } }) => <Owner workload={row.workload} />,
};

export const columns = ({ owners, isOpen, toggle }: Options): Column<ContainerCoverage>[] => [
  {
    id: "toggle",
    header: () => <span className="sr-only">Details</span>,
    cell: ({ row: { original: row } }) => (
      <RowToggle label={toggleLabel(row)} open={isOpen(row)} onToggle={() => toggle(row)} />
    ),
  },
  { id: "name", header: "Container", cell: ({ row: { original: row } }) => <Name row={row} /> },
  ...(owners ? [ownerColumn] : []),
  {
    id: "image",
    header: "Image",
    meta: { className: small },
    cell: ({ row: { original: row } }) => <Reference row={row} />,
  },
  {
    id: "state",
    header: "State",
    cell: ({ row: { original: row } }) => <CoverageBadge state={row.state} />,
  },
  {
    id: "why",
    header: "Why",
    meta: { className: small },
    cell: ({ row: { original: row } }) => <Why row={row} />,
  },
  {
    id: "pods",
    header: "Pods",
    meta: { className: `tabular pr-2 text-right ${small}` },
    cell: ({ row: { original: row } }) => formatNumber(row.pods),
  },
  {
    id: "since",
    header: "Since",
    cell: ({ row: { original: row } }) => (
      <RelativeTime iso={row.since} none="–" className="block truncate text-[13px] text-muted" />
    ),
  },
];

/** The reason at full length, and what can be done. */
export function CoverageDetail({ row }: { row: ContainerCoverage }) {
  const reason = explainReason(row.reason);
  return (
    <div className="grid gap-x-8 gap-y-4 border-t border-line bg-subtle/50 px-4 py-4 md:grid-cols-2 lg:pl-14">
      <Part title={row.reason ? `Why it is ${row.state} (${visible(row.reason)})` : "Why"}>
        {reason ? (
          <>
            <p>{visible(reason.what)}.</p>
            <p className="text-muted">{reason.advice}</p>
          </>
        ) : (
          <p className="text-muted">The container has a scan result.</p>
        )}
        {row.message && (
          <p className="untrusted font-mono text-xs leading-5 whitespace-pre-line">{visible(row.message)}</p>
        )}
        {row.nextAttempt && (
          <p>
            The next attempt is due <RelativeTime iso={row.nextAttempt} />.
          </p>
        )}
      </Part>
      <Part title="Container">
        <p className="untrusted">{workloadName(row.workload)}</p>
        {row.workload.owner !== undefined && (
          <p className="untrusted text-muted">Owner: {visible(row.workload.owner)}</p>
        )}
        <p className="untrusted text-muted">
          {visible(row.container)}, {plural(row.pods, "pod")}
        </p>
        <p className="untrusted font-mono text-xs leading-5 break-all">{visible(row.reference)}</p>
        <p className="untrusted font-mono text-xs leading-5 break-all text-muted">
          {visible(row.imageId) || "The image ID is not known yet."}
        </p>
        {row.source && <p className="text-muted">The image was read from {sourceName(row.source)}.</p>}
      </Part>
    </div>
  );
}

/** A container on a narrow screen. */
export function CoverageCard({
  row,
  open,
  onToggle,
}: {
  row: ContainerCoverage;
  open: boolean;
  onToggle: () => void;
}) {
  return (
    <div className="relative px-4 py-3 has-[[data-row-focus]:focus-visible]:bg-accent-soft/60">
      <div className="flex items-start gap-2">
        <Name row={row} />
        <span className="ml-auto shrink-0">
          <CoverageBadge state={row.state} />
        </span>
        <RowToggle label={toggleLabel(row)} open={open} onToggle={onToggle} className="-mr-1" />
      </div>
      <div className="mt-1 text-[13px]">
        <Reference row={row} />
      </div>
      {row.reason && (
        <div className="mt-1 text-[13px]">
          <Why row={row} />
        </div>
      )}
    </div>
  );
}
