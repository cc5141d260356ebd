import { Trash2 } from "lucide-react";
import { Link } from "react-router";
import { OverdueCount } from "@/components/due";
import { ImageName } from "@/components/image-name";
import { KevMark, SeverityCounts } from "@/components/severity";
import { Button } from "@/components/ui/button";
import { CopyButton } from "@/components/ui/copy-button";
import { RelativeTime } from "@/components/ui/relative-time";
import { SelectRow, selectColumn } from "@/components/ui/selection";
import { sortable } from "@/components/ui/sort-header";
import type { Column } from "@/components/ui/virtual-table";
import { ListImagesSort, type Image } from "@/gen/model";
import { cn } from "@/lib/cn";
import { formatBytes, formatDay, formatNumber } from "@/lib/format";
import { imagePath, parseImageId } from "@/lib/image-id";
import { visible } from "@/lib/text";
import { distributionName, EndOfLifeMark } from "../lifecycle";
import { explain, hasResults, scannedAt, StateBadge } from "../state";
import { columnNames, imageColumns, type ImageColumn } from "./column-names";

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

const number = "tabular truncate text-right text-[13px] [[role=columnheader]&]:text-xs";
const text = "text-[13px] [[role=columnheader]&]:text-xs";
const time = `${text} text-muted text-right`;

/** A column of counts of findings, which mean nothing before the first match. */
const counted = (
  id: "fixable" | "kev" | "overdue",
  count: (image: Image) => number,
  tone = "",
): Column<Image> => ({
  id,
  meta: { className: number, width: [5.5, 7.5] },
  header: imageColumns[id],
  cell: ({ row: { original: image } }) =>
    hasResults(image) && count(image) > 0 ? (
      <span className={tone}>{formatNumber(count(image))}</span>
    ) : (
      <span className="text-muted">{hasResults(image) ? "0" : "–"}</span>
    ),
});

interface Options {
  shown: readonly ImageColumn[];
  sort: ListImagesSort;
  setSort: (sort: ListImagesSort) => void;
  onRemove: OnRemove;
}

export function columns({ shown, sort, setSort, onRemove }: Options): Column<Image>[] {
  const platform = shown.includes("platform");
  const all: Record<ImageColumn, Column<Image>> = {
    image: {
      id: "image",
      ...sortable(imageColumns.image, ListImagesSort.imageId, "ascending", sort, setSort, {
        width: [11, "1fr"],
      }),
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
              {!platform && ` · ${visible(image.platform)}`}
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
    platform: {
      id: "platform",
      meta: { className: text, width: [7, 8] },
      header: imageColumns.platform,
      cell: ({ row: { original: image } }) => (
        <>
          <span className="untrusted block truncate">{visible(image.platform)}</span>
          <span className="untrusted block truncate text-xs text-muted">
            {distributionName(image.distribution)}
          </span>
        </>
      ),
    },
    state: {
      id: "state",
      meta: { width: [7.5, "0.5fr"] },
      header: imageColumns.state,
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
    findings: {
      id: "findings",
      ...sortable(imageColumns.findings, ListImagesSort["-severity"], "descending", sort, setSort, {
        width: [20.5, 22],
      }),
      cell: ({ row: { original: image } }) =>
        hasResults(image) ? (
          <>
            <span className="flex items-center gap-2">
              <SeverityCounts counts={image.counts} className="w-70 min-w-0 xl:w-75" />
              {image.counts.kev > 0 && <KevMark />}
            </span>
            <OverdueCount of={image.overdue} />
          </>
        ) : (
          <span className="text-[13px] text-muted">Not scanned yet</span>
        ),
    },
    fixable: counted("fixable", ({ counts }) => counts.fixable),
    kev: counted("kev", ({ counts }) => counts.kev, "font-medium text-danger"),
    overdue: counted("overdue", ({ overdue = 0 }) => overdue, "font-medium text-danger"),
    packages: {
      id: "packages",
      meta: { className: number, width: [4.5, 5.5] },
      header: imageColumns.packages,
      cell: ({ row: { original: image } }) => (image.packages > 0 ? formatNumber(image.packages) : "–"),
    },
    size: {
      id: "size",
      meta: { className: number, width: [5, 6] },
      header: imageColumns.size,
      cell: ({ row: { original: image } }) => (image.size > 0 ? formatBytes(image.size) : "–"),
    },
    owners: {
      id: "owners",
      meta: { className: text, width: [7, 12] },
      header: imageColumns.owners,
      cell: ({ row: { original: image } }) => (
        <span className="untrusted block truncate" title={image.owners?.map(visible).join(", ")}>
          {image.owners ? image.owners.map(visible).join(", ") : <span className="text-muted">–</span>}
        </span>
      ),
    },
    endOfLife: {
      id: "endOfLife",
      meta: { className: time, width: [6, 8] },
      header: imageColumns.endOfLife,
      cell: ({ row: { original: image } }) => (
        <span className={cn("block truncate", image.distribution?.endOfLifeReached && "text-danger")}>
          {image.distribution?.endOfLife ? formatDay(image.distribution.endOfLife) : "–"}
        </span>
      ),
    },
    created: {
      id: "created",
      meta: { className: time, width: [6, 8] },
      header: imageColumns.created,
      cell: ({ row: { original: image } }) => (
        <RelativeTime iso={image.created} none="–" className="block truncate" />
      ),
    },
    firstSeen: {
      id: "firstSeen",
      meta: { className: time, width: [6, 8] },
      header: imageColumns.firstSeen,
      cell: ({ row: { original: image } }) => (
        <RelativeTime iso={image.firstSeen} className="block truncate" />
      ),
    },
    cataloger: {
      id: "cataloger",
      meta: { className: text, width: [7, 10] },
      header: imageColumns.cataloger,
      cell: ({ row: { original: image } }) => (
        <span className="untrusted block truncate text-muted">{visible(image.cataloger ?? "–")}</span>
      ),
    },
    scanned: {
      id: "scanned",
      meta: { className: "text-right", width: [6.5, 8] },
      header: imageColumns.scanned,
      cell: ({ row: { original: image } }) => (
        <>
          <RelativeTime iso={scannedAt(image)} className="block truncate text-[13px] text-muted" />
          {image.created && !shown.includes("created") && (
            <span className="block truncate text-xs text-muted">
              created <RelativeTime iso={image.created} />
            </span>
          )}
        </>
      ),
    },
  };
  return [
    selectColumn<Image>(imageLabel),
    ...columnNames.filter((name) => name === "image" || shown.includes(name)).map((name) => all[name]),
    ...(onRemove ? [actions(onRemove)] : []),
  ];
}

/** How the box of an image is called. */
const imageLabel = ({ imageId, platform }: Image) => visible(`${imageId} ${platform}`.trim());

const actions = (onRemove: (image: Image) => void): Column<Image> => ({
  id: "actions",
  meta: { width: [1.75, 1.75] },
  header: () => <span className="sr-only">Actions</span>,
  cell: ({ row: { original: image } }) => <RemoveButton image={image} onRemove={onRemove} />,
});

/** A row of the list on a narrow screen. */
export function ImageCard({ image, onRemove }: { image: Image; onRemove: OnRemove }) {
  return (
    <div className="relative px-4 py-3 has-[[data-row-focus]:focus-visible]:bg-accent-soft/60">
      <div className="flex items-center gap-1">
        <SelectRow row={image} label={imageLabel(image)} className="-ml-1.5 mr-1" />
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
