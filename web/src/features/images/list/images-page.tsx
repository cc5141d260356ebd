import { PackageSearch } from "lucide-react";
import { useCallback, useMemo } from "react";
import { Callout } from "@/components/ui/callout";
import { ListPanel } from "@/components/ui/list-panel";
import { StatePanel } from "@/components/ui/state";
import { Overview } from "@/features/overview/overview";
import { Trend } from "@/features/overview/trend";
import { Empty } from "@/features/session/empty";
import type { ListImagesSort } from "@/gen/model";
import { useAddress } from "@/lib/address";
import { usePageTitle } from "@/lib/use-page-title";
import { useImages } from "../queries";
import { RemoveDialog, useCanRemove } from "../remove-dialog";
import { columns, gridOf, ImageCard } from "./columns";
import { ImageFilterBar } from "./filter-bar";
import { imageFilters, toRequest } from "./filters";
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
      <Overview filters={filters} update={update} />
      <Trend />
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

const scanner = `kubectl apply -f - <<EOF
apiVersion: scanner.zoltankerezsi.xyz/v1
kind: Scanner
metadata:
  name: scanner
  namespace: default
EOF`;

function NoImages() {
  return (
    <StatePanel icon={PackageSearch} title="No images yet">
      <p>Create a Scanner in the namespace to scan, and run a pod there.</p>
      <Callout
        tone="info"
        icon={PackageSearch}
        title="A Scanner for the default namespace"
        className="text-left"
      >
        <pre className="overflow-x-auto font-mono text-xs leading-5" tabIndex={0}>
          {scanner}
        </pre>
      </Callout>
      <p>Images appear here automatically.</p>
    </StatePanel>
  );
}
