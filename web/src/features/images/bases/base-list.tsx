import { Layers } from "lucide-react";
import { useMemo } from "react";
import { Link } from "react-router";
import { ExportMenu } from "@/components/export-menu";
import { NamespaceFilter, OwnerFilter } from "@/components/filter-fields";
import { KevMark, SeverityCounts } from "@/components/severity";
import { FilterBar } from "@/components/ui/filter-bar";
import { ListPanel } from "@/components/ui/list-panel";
import { Select } from "@/components/ui/select";
import { sortable } from "@/components/ui/sort-header";
import { StatePanel } from "@/components/ui/state";
import { useList } from "@/components/ui/use-list";
import type { Column } from "@/components/ui/virtual-table";
import { Empty } from "@/features/session/empty";
import { getListBasesUrl, listBases } from "@/gen/images/images";
import { BaseSource, ListBasesSort as By, type BasePage, type BaseSummary, type Counts } from "@/gen/model";
import { useAddress } from "@/lib/address";
import { plural } from "@/lib/format";
import { parseImageId } from "@/lib/image-id";
import { sumsKey } from "@/lib/lists";
import { baseKey, imagesOnBasePath } from "@/lib/paths";
import { visible } from "@/lib/text";
import { ImageGroupSelect } from "../list/group-select";
import { BaseName } from "./base-name";
import { baseFilters, sortOptions, toRequest, type BaseFilters } from "./filters";
import { UnknownBases } from "./unknown-bases";

const Name = (row: BaseSummary) => (
  <>
    <span className="block truncate text-sm font-medium">
      <BaseName base={row} />
    </span>
    <span className="block truncate text-xs text-muted">
      {plural(row.layers, "layer")}
      {row.source === BaseSource.listed && " · listed"}
      {row.imageId && <> · {parseImageId(visible(row.imageId)).digest}</>}
    </span>
  </>
);

const Images = ({ row, filters }: { row: BaseSummary; filters: BaseFilters }) => (
  <Link
    data-row-focus
    to={imagesOnBasePath(row, filters)}
    className="tabular text-[13px] text-accent underline-offset-2 hover:underline"
  >
    {plural(row.images, "image")}
  </Link>
);

function Findings({ counts, otherwise }: { counts: Counts | undefined; otherwise: string }) {
  if (!counts) return <span className="text-[13px] text-muted">{otherwise}</span>;
  return (
    <span className="flex items-center gap-2">
      <span className="block w-75 min-w-0">
        <SeverityCounts counts={counts} />
      </span>
      {counts.kev > 0 && <KevMark />}
    </span>
  );
}

const OfBase = (row: BaseSummary) => (
  <Findings counts={row.imageCounts} otherwise={row.imageId ? "Not scanned yet" : "Image not known"} />
);

const OfImages = (row: BaseSummary) => (
  <Findings counts={row.scanned > 0 ? row.counts : undefined} otherwise="Not scanned yet" />
);

const columns = (filters: BaseFilters, setSort: (sort: By) => void): Column<BaseSummary>[] => [
  {
    id: "base",
    header: "Base image",
    meta: { width: [10, "1fr"] },
    cell: ({ row: { original: row } }) => <Name {...row} />,
  },
  {
    id: "images",
    ...sortable("Images on it", By["-images"], "descending", filters.sort, setSort, { width: [6, 8] }),
    cell: ({ row: { original: row } }) => <Images row={row} filters={filters} />,
  },
  {
    id: "own",
    header: "Findings of the base image",
    cell: ({ row: { original: row } }) => <OfBase {...row} />,
  },
  {
    id: "findings",
    ...sortable("Findings of the images on it", By["-severity"], "descending", filters.sort, setSort, {
      width: [20.5, 23],
    }),
    cell: ({ row: { original: row } }) => <OfImages {...row} />,
  },
];

/** A base image on a narrow screen. */
const BaseCard = ({ row, filters }: { row: BaseSummary; filters: BaseFilters }) => (
  <div className="relative px-4 py-3">
    <Name {...row} />
    <div className="mt-1.5 flex min-h-6 items-center">
      <OfImages {...row} />
    </div>
    <p className="mt-1.5 text-[13px]">
      <Images row={row} filters={filters} />
    </p>
  </div>
);

/** The base images of images; each leads to the images on it. */
export function BaseList() {
  const { filters, update } = useAddress(baseFilters);
  const request = toRequest(filters);
  const list = useList<BaseSummary, BasePage>({
    queryKey: [...sumsKey, "bases", request],
    load: (page, init) => listBases({ ...request, ...page }, init),
    rowKey: baseKey,
  });
  const tableColumns = useMemo(() => columns(filters, (sort) => update({ sort })), [filters, update]);
  const filtered = baseFilters.isFiltered(filters);
  const clear = () => update(baseFilters.none);
  const total = list.page?.total;
  return (
    <>
      <FilterBar
        label="Base images"
        count={total === undefined ? "" : plural(total, "base image")}
        filtered={filtered}
        onClear={clear}
        actions={
          <ExportMenu
            formats={["csv"]}
            name="base-images"
            url={(format) => getListBasesUrl({ ...request, format })}
          />
        }
      >
        <NamespaceFilter value={filters.namespace} onChange={(namespace) => update({ namespace })} />
        <OwnerFilter value={filters.owner} onChange={(owner) => update({ owner })} />
        <ImageGroupSelect value={filters.group} onChange={(group) => update({ group })} />
        <Select
          label="Sort"
          options={sortOptions}
          value={filters.sort}
          onChange={(sort) => update({ sort })}
        />
      </FilterBar>
      <h2 className="sr-only">Base images</h2>
      <UnknownBases listed={list.page?.listed} />
      <ListPanel
        label="Base images"
        list={list}
        columns={tableColumns}
        rowHeight={56}
        cardHeight={112}
        renderCard={(row) => <BaseCard row={row} filters={filters} />}
        empty={
          <Empty
            filtered={filtered}
            namespace={filters.namespace}
            noMatch="No base image matches"
            nothing="No base images in your namespaces"
            onClear={clear}
          >
            <StatePanel icon={Layers} title="No base images">
              <p>
                Base images appear here when images share layers. The layers of an image are known if its scan
                pulled it from a registry. A scan that reads an image volume asks the registry for them,
                without credentials.
              </p>
            </StatePanel>
          </Empty>
        }
      />
    </>
  );
}
