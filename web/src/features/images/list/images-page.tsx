import { useCallback, useMemo } from "react";
import { SelectionProvider, useSelection } from "@/components/ui/selection";
import { ListPanel } from "@/components/ui/list-panel";
import { DecideProvider } from "@/features/exceptions/decide-provider";
import { isGrouping } from "@/features/groups/filters";
import { GroupList } from "@/features/groups/group-list";
import { Empty } from "@/features/session/empty";
import type { ListImagesSort } from "@/gen/model";
import { useAddress } from "@/lib/address";
import { maxSelected } from "@/lib/bulk";
import { useMediaQuery } from "@/lib/use-media-query";
import { usePageTitle } from "@/lib/use-page-title";
import { BaseList } from "../bases/base-list";
import { imageKey, useImages } from "../queries";
import { RemoveDialog } from "../remove-dialog";
import { useCanRemove } from "../rights";
import { defaultColumns } from "./column-names";
import { columns, ImageCard } from "./columns";
import { ImageFilterBar } from "./filter-bar";
import { groups, imageFilters, toGroup, toRequest, type Filters } from "./filters";
import { ImageGroupSelect } from "./group-select";
import { ImageSummary } from "./image-summary";
import { NoImages } from "./no-images";
import { SelectedImages } from "./selected-images";
import { useRemoval } from "./use-removal";

export function ImagesPage() {
  usePageTitle("Images");
  const { filters, update } = useAddress(imageFilters);
  return (
    <>
      <h1 className="sr-only">Images</h1>
      <ImageSummary filters={filters} update={(change) => update({ ...change, group: groups.images })} />
      {filters.group === groups.bases ? (
        <BaseList />
      ) : isGrouping(filters.group) ? (
        <section aria-label="Images">
          <GroupList
            by={filters.group}
            list="images"
            controls={
              <ImageGroupSelect value={filters.group} onChange={(group) => update(toGroup(filters, group))} />
            }
          />
        </section>
      ) : (
        <ImageList filters={filters} update={update} />
      )}
    </>
  );
}

function ImageList({ filters, update }: { filters: Filters; update: (change: Partial<Filters>) => void }) {
  const list = useImages(toRequest(filters));
  const setSort = useCallback((sort: ListImagesSort) => update({ sort }), [update]);
  const canRemove = useCanRemove();
  const { onRemove, dialog } = useRemoval(canRemove);
  const wide = useMediaQuery("(min-width: 1280px)");
  const shown = useMemo(() => filters.columns ?? defaultColumns(wide), [filters.columns, wide]);
  const tableColumns = useMemo(
    () => columns({ shown, sort: filters.sort, setSort, onRemove }),
    [shown, filters.sort, setSort, onRemove],
  );
  const selection = useSelection({ rows: list.rows, rowKey: imageKey, max: maxSelected });
  return (
    <section aria-label="Images">
      <ImageFilterBar filters={filters} update={update} total={list.page?.total} shown={shown} />
      <DecideProvider>
        <SelectedImages selection={selection} />
      </DecideProvider>
      <SelectionProvider selection={selection}>
        <ListPanel
          label="Images"
          list={list}
          columns={tableColumns}
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
      </SelectionProvider>
      <RemoveDialog {...dialog} />
    </section>
  );
}
