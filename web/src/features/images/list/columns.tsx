import { Trash2 } from "lucide-react";
import { Link } from "react-router";
import { OverdueCount } from "@/components/due";
import { ImageName } from "@/components/image-name";
import { KevMark, SeverityCounts } from "@/components/severity";
import { Button } from "@/components/ui/button";
import { CopyButton } from "@/components/ui/copy-button";
import { RelativeTime } from "@/components/ui/relative-time";
import { sortable } from "@/components/ui/sort-header";
import type { Column } from "@/components/ui/virtual-table";
import { ListImagesSort, type Image } from "@/gen/model";
import { formatNumber } from "@/lib/format";
import { imagePath, parseImageId } from "@/lib/image-id";
import { visible } from "@/lib/text";
import { distributionName, EndOfLifeMark } from "../lifecycle";
import { explain, hasResults, scannedAt, StateBadge } from "../state";

const grid =
  "grid-cols-[minmax(14rem,1fr)_minmax(8rem,11rem)_22rem_4.5rem_7.5rem] xl:grid-cols-[minmax(18rem,1fr)_8.5rem_minmax(8rem,12rem)_22rem_5.5rem_8.5rem]";
const gridWithActions =
  "grid-cols-[minmax(13rem,1fr)_8rem_22rem_4.5rem_6.5rem_1.75rem] xl:grid-cols-[minmax(16rem,1fr)_8.5rem_minmax(8rem,12rem)_22rem_5.5rem_7.5rem_1.75rem]";

export const gridOf = (canRemove: boolean) => (canRemove ? gridWithActions : grid);

/** Removes the scan result of an image; undefined when the user may not. */
export type OnRemove = ((image: Image) => void) | undefined;

function RemoveButton({ image, onRemove }: { image: Image; onRemove: (image: Image) => void }) {
  const label = `Remove the scan result of ${visible(image.imageId)}`;
  return (
    <Button
      variant="ghost"
      size="icon-sm"
      aria-label={label}
      title="Remove the scan result"
      onClick={() => onRemove(image)}
      className="relative z-1 hover:text-danger"
    >
      <Trash2 aria-hidden />
    </Button>
  );
}

function FailureNote({ image }: { image: Image }) {
  if (image.partial)
    return <span className="block truncate text-xs text-warn">Partial: some files were unreadable</span>;
  if (image.state !== "Failed" || !image.reason) return null;
  return (
    <span className="block truncate text-xs text-muted" title={image.message && visible(image.message)}>
      {explain(image.reason).what}
      {image.nextAttempt && (
        <>
          {" · next "}
          <RelativeTime iso={image.nextAttempt} />
        </>
      )}
    </span>
  );
}

export const columns = (
  sort: ListImagesSort,
  setSort: (sort: ListImagesSort) => void,
  onRemove: OnRemove,
): Column<Image>[] => [
  {
    id: "image",
    ...sortable("Image", ListImagesSort.imageId, "ascending", sort, setSort),
    cell: ({ row: { original: image } }) => (
      <span className="flex items-center gap-1">
        <span className="min-w-0">
          <Link
            data-row-focus
            to={imagePath(image.imageId, image.platform)}
            className="block truncate text-sm font-medium outline-none after:absolute after:inset-0"
          >
            <ImageName imageId={image.imageId} />
          </Link>
          <span className="block truncate font-mono text-xs text-muted">
            {parseImageId(image.imageId).digest || "no digest"}
            <span className="xl:hidden"> · {visible(image.platform)}</span>
          </span>
        </span>
        <CopyButton
          text={image.imageId}
          label="Copy the image ID"
          className="relative opacity-0 group-hover:opacity-100 focus-visible:opacity-100"
        />
      </span>
    ),
  },
  {
    id: "platform",
    meta: { className: "hidden xl:block" },
    header: "Platform",
    cell: ({ row: { original: image } }) => (
      <span className="block text-[13px]">
        <span className="untrusted block truncate">{visible(image.platform)}</span>
        <span className="untrusted block truncate text-xs text-muted">
          {distributionName(image.distribution)}
        </span>
      </span>
    ),
  },
  {
    id: "state",
    header: "State",
    cell: ({ row: { original: image } }) => (
      <>
        <StateBadge state={image.state} />
        <span className="flex gap-2 text-xs">
          <EndOfLifeMark distribution={image.distribution} />
          <FailureNote image={image} />
        </span>
      </>
    ),
  },
  {
    id: "findings",
    ...sortable("Findings", ListImagesSort["-severity"], "descending", sort, setSort),
    cell: ({ row: { original: image } }) =>
      hasResults(image) ? (
        <>
          <span className="flex items-center gap-2">
            <SeverityCounts counts={image.counts} className="w-75 shrink-0" />
            {image.counts.kev > 0 && <KevMark />}
          </span>
          <OverdueCount of={image.overdue} />
        </>
      ) : (
        <span className="text-[13px] text-muted">Not scanned yet</span>
      ),
  },
  {
    id: "packages",
    meta: { className: "text-right" },
    header: "Packages",
    cell: ({ row: { original: image } }) => (
      <span className="tabular text-[13px]">{image.packages > 0 ? formatNumber(image.packages) : "–"}</span>
    ),
  },
  {
    id: "scanned",
    meta: { className: "text-right" },
    header: "Scanned",
    cell: ({ row: { original: image } }) => (
      <>
        <RelativeTime iso={scannedAt(image)} className="text-[13px] whitespace-nowrap text-muted" />
        {image.created && (
          <span className="block truncate text-xs text-muted">
            created <RelativeTime iso={image.created} />
          </span>
        )}
      </>
    ),
  },
  ...(onRemove ? [actions(onRemove)] : []),
];

const actions = (onRemove: (image: Image) => void): Column<Image> => ({
  id: "actions",
  header: () => <span className="sr-only">Actions</span>,
  cell: ({ row: { original: image } }) => <RemoveButton image={image} onRemove={onRemove} />,
});

/** A row of the list on a narrow screen. */
export function ImageCard({ image, onRemove }: { image: Image; onRemove: OnRemove }) {
  return (
    <div className="relative px-4 py-3 has-[[data-row-focus]:focus-visible]:bg-accent-soft/60">
      <div className="flex items-center gap-1">
        <Link
          data-row-focus
          to={imagePath(image.imageId, image.platform)}
          className="block min-w-0 flex-1 truncate text-sm font-medium outline-none after:absolute after:inset-0"
        >
          <ImageName imageId={image.imageId} />
        </Link>
        {onRemove && (
          <span className="-my-1 -mr-1.5">
            <RemoveButton image={image} onRemove={onRemove} />
          </span>
        )}
      </div>
      <p className="untrusted truncate text-xs text-muted">
        <span className="font-mono">{parseImageId(image.imageId).digest || "no digest"}</span> ·{" "}
        {image.platform}
        {image.distribution && ` · ${distributionName(image.distribution)}`}
      </p>
      <div className="mt-2 flex items-center gap-2">
        <StateBadge state={image.state} />
        {image.counts.kev > 0 && <KevMark />}
        <EndOfLifeMark distribution={image.distribution} className="text-xs" />
        <RelativeTime iso={scannedAt(image)} className="ml-auto text-xs text-muted" />
      </div>
      {hasResults(image) ? (
        <div className="mt-2 space-y-1">
          <SeverityCounts counts={image.counts} />
          <OverdueCount of={image.overdue} />
        </div>
      ) : (
        <div className="mt-2 min-h-6">
          <FailureNote image={image} />
        </div>
      )}
    </div>
  );
}
