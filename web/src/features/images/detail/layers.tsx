import { Layers as LayersIcon } from "lucide-react";
import { useMemo } from "react";
import { Link } from "react-router";
import { KevMark, SeverityCounts } from "@/components/severity";
import { CopyButton } from "@/components/ui/copy-button";
import { FilterBar } from "@/components/ui/filter-bar";
import { ListPanel } from "@/components/ui/list-panel";
import { StatePanel } from "@/components/ui/state";
import type { List } from "@/components/ui/use-list";
import type { Column } from "@/components/ui/virtual-table";
import { ImageSource, type Image, type ImageLayer } from "@/gen/model";
import { orAbsent } from "@/lib/address";
import { formatBytes, plural } from "@/lib/format";
import { visible } from "@/lib/text";
import { OriginMark } from "./origin";
import { MountedPackages, UnknownLayers } from "./packages/packages";
import { useImageLayers } from "./packages/queries";

interface Row {
  layer: ImageLayer;
  /** Size of this layer and those below; absent if one of them is not known. */
  upTo?: number;
}

/** The layers, each with its size and that of those below. */
export function layerRows(layers: ImageLayer[]): Row[] {
  let upTo: number | undefined = 0;
  return layers.map((layer) => {
    if (layer.number === undefined) return { layer };
    upTo = upTo === undefined || layer.size === undefined ? undefined : upTo + layer.size;
    return { layer, ...(upTo !== undefined && { upTo }) };
  });
}

const rowKey = ({ layer: { number = 0 } }: Row) => String(number);

const nameOf = ({ number }: ImageLayer) => (number === undefined ? "No known layer" : `Layer ${number}`);

const Name = ({ layer }: { layer: ImageLayer }) => (
  <span data-row-focus tabIndex={-1} className="flex items-center gap-2 text-sm font-medium outline-none">
    <span className="whitespace-nowrap">{nameOf(layer)}</span>
    <OriginMark origin={layer.origin} />
  </span>
);

const Digest = ({ layer: { number, diffId } }: { layer: ImageLayer }) =>
  diffId ? (
    <span className="flex min-w-0 items-center gap-1">
      <code className="untrusted min-w-0 truncate font-mono text-xs" title={visible(diffId)}>
        {visible(diffId)}
      </code>
      <CopyButton text={diffId} label={`Copy the diff ID of layer ${number ?? 0}`} />
    </span>
  ) : (
    <span className="text-muted">–</span>
  );

const sizeText = (size: number | undefined) => (size === undefined ? "–" : formatBytes(size));

/** Leads to the packages of the layer. Files that were read from an image volume are in no known layer. */
function Packages({ layer, platform, mounted }: { layer: ImageLayer; platform: string; mounted: boolean }) {
  const { number = 0, packages } = layer;
  if (packages === 0) {
    return <span className="text-muted">{mounted && layer.number !== undefined ? "Not known" : "None"}</span>;
  }
  return (
    <Link
      to={`?${new URLSearchParams({ tab: "packages", ...(platform && { platform }), layer: String(number) }).toString()}`}
      className="relative text-accent underline-offset-2 hover:underline"
    >
      {plural(packages, "package")}
    </Link>
  );
}

const Findings = ({ layer: { packages, counts }, matched }: { layer: ImageLayer; matched: boolean }) =>
  packages === 0 ? (
    <span className="text-muted">–</span>
  ) : matched ? (
    <span className="flex max-w-full min-w-0 items-center gap-2">
      <SeverityCounts counts={counts} className="w-75 min-w-0" />
      {counts.kev > 0 && <KevMark />}
    </span>
  ) : (
    <span className="text-[13px] text-muted">Not matched yet</span>
  );

const small = "text-[13px] [[role=columnheader]&]:text-xs";
const amount = `tabular text-right ${small}`;

const columns = (matched: boolean, mounted: boolean, platform: string): Column<Row>[] => [
  {
    id: "layer",
    header: "Layer",
    meta: { width: [12, 13] },
    cell: ({ row: { original: row } }) => <Name layer={row.layer} />,
  },
  {
    id: "diffId",
    header: "Diff ID",
    meta: { width: [8, "1fr"] },
    cell: ({ row: { original: row } }) => <Digest layer={row.layer} />,
  },
  {
    id: "size",
    header: () => <span title="As it is pulled">Size</span>,
    meta: { width: [5, 5], className: amount },
    cell: ({ row: { original: row } }) => sizeText(row.layer.size),
  },
  {
    id: "upTo",
    header: () => <span title="Size of the layer and those below">With those below</span>,
    meta: { width: [7, 7], className: amount },
    cell: ({ row: { original: row } }) => <span className="text-muted">{sizeText(row.upTo)}</span>,
  },
  {
    id: "packages",
    header: "Packages",
    meta: { width: [7, 8], className: small },
    cell: ({ row: { original: row } }) => (
      <Packages layer={row.layer} platform={platform} mounted={mounted} />
    ),
  },
  {
    id: "findings",
    header: "Findings",
    meta: { width: [22, 22] },
    cell: ({ row: { original: row } }) => <Findings layer={row.layer} matched={matched} />,
  },
];

/** The layers of an image, the lowest first: what each adds, and which findings. */
export function Layers({ image }: { image: Image }) {
  const { platform } = image;
  const query = useImageLayers(image.imageId, { platform: orAbsent(platform) });
  const { data, error } = query;
  const matched = image.matchedAt !== undefined;
  const mounted = image.source === ImageSource.ImageVolume;
  const rows = useMemo(() => layerRows(data?.items ?? []), [data]);
  const tableColumns = useMemo(() => columns(matched, mounted, platform), [matched, mounted, platform]);
  const known = rows.filter(({ layer }) => layer.number !== undefined).length;
  const list: List<Row> = {
    rows,
    rowKey,
    page: data && { total: rows.length },
    error,
    busy: query.isPending,
    stale: false,
    hasMore: false,
    loadMore: () => undefined,
    reload: () => void query.refetch(),
  };
  const card = ({ layer, upTo }: Row) => (
    <div className="px-4 py-3">
      <div className="flex items-center justify-between gap-2">
        <Name layer={layer} />
        <span className="tabular text-[13px]">{sizeText(layer.size)}</span>
      </div>
      <Digest layer={layer} />
      <div className="mt-1 flex flex-wrap items-center gap-x-3 gap-y-1.5 text-[13px]">
        <Packages layer={layer} platform={platform} mounted={mounted} />
        {upTo !== undefined && (
          <span className="tabular ml-auto text-muted">{formatBytes(upTo)} with those below</span>
        )}
        {layer.packages > 0 && <Findings layer={layer} matched={matched} />}
      </div>
    </div>
  );
  return (
    <section aria-label="Layers">
      <FilterBar
        label="Layers"
        count={data ? plural(known, "layer") : ""}
        filtered={false}
        onClear={() => undefined}
      >
        <p className="text-[13px] text-muted">A package counts in the lowest layer that has it.</p>
      </FilterBar>
      <h2 className="sr-only">Layers</h2>
      {data && known === 0 && rows.length > 0 && <UnknownLayers image={image} />}
      {mounted && known > 0 && <MountedPackages />}
      <ListPanel
        label="Layers"
        list={list}
        columns={tableColumns}
        rowHeight={44}
        cardHeight={104}
        renderCard={card}
        empty={
          <StatePanel icon={LayersIcon} title="No layers are known">
            <p>The layers appear here when the image is scanned.</p>
          </StatePanel>
        }
      />
    </section>
  );
}
