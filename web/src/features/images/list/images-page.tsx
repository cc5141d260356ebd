import { useCallback, useMemo } from "react";
import { ListPanel } from "@/components/ui/list-panel";
import { Empty } from "@/features/session/empty";
import type { ListImagesSort } from "@/gen/model";
import { useAddress } from "@/lib/address";
import { usePageTitle } from "@/lib/use-page-title";
import { useImages } from "../queries";
import { RemoveDialog, useCanRemove } from "../remove-dialog";
import { columns, gridOf, ImageCard } from "./columns";
import { ImageFilterBar } from "./filter-bar";
import { imageFilters, toRequest } from "./filters";
import { ImageSummary } from "./image-summary";
import { NoImages } from "./no-images";
import { useRemoval } from "./use-removal";

export function ImagesPage() {
  usePageTitle("Images");
  const { filters, update } = useAddress(imageFilters);
  const list = useImages(toRequest(filters));
  const setSort = useCallback((sort: ListImagesSort) => update({ sort }), [update]);
  const canRemove = useCanRemove();
  const { onRemove, dialog } = useRemoval(canRemove);
  const tableColumns = useMemo(
    () => columns(filters.sort, setSort, onRemove),
    [filters.sort, setSort, onRemove],
  );
  return (
    <>
      <h1 className="sr-only">Images</h1>
      <ImageSummary filters={filters} update={update} />
      <section aria-label="Images">
        <ImageFilterBar filters={filters} update={update} total={list.page?.total} />
        <ListPanel
          label="Images"
          list={list}
          columns={tableColumns}
          grid={gridOf(canRemove)}
          rowHeight={56}
          cardHeight={114}
          renderCard={(image) => <ImageCard image={image} onRemove={onRemove} />}
          empty={
            <Empty
              filtered={imageFilters.isFiltered(filters)}
              namespace={filters.namespace}
              noMatch="No image matches"
              nothing="No images in your namespaces"
              onClear={() => update(imageFilters.none)}
            >
              <NoImages />
            </Empty>
          }
        />
        <RemoveDialog {...dialog} />
      </section>
    </>
  );
}
