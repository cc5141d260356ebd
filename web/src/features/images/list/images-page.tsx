import { PackageSearch, SearchX } from "lucide-react";
import { useCallback, useMemo } from "react";
import { Button } from "@/components/ui/button";
import { Callout } from "@/components/ui/callout";
import { Skeleton } from "@/components/ui/skeleton";
import { ErrorPanel, StatePanel } from "@/components/ui/state";
import { VirtualTable } from "@/components/ui/virtual-table";
import { Overview } from "@/features/overview/overview";
import type { Image, ListImagesSort } from "@/gen/model";
import { formatNumber } from "@/lib/format";
import { useMediaQuery } from "@/lib/use-media-query";
import { usePageTitle } from "@/lib/use-page-title";
import { useImages } from "../queries";
import { LoadError } from "../load-error";
import { columns, grid, ImageCard } from "./columns";
import { FilterBar } from "./filter-bar";
import { isFiltered, toRequest, useFilters } from "./filters";

const keyOf = (image: Image) => `${image.imageId} ${image.platform}`;
const renderCard = (image: Image) => <ImageCard image={image} />;

export function ImagesPage() {
  usePageTitle("Images");
  const { filters, update } = useFilters();
  const query = useImages(toRequest(filters));
  const { data, error, hasNextPage, isFetching, isFetchNextPageError, fetchNextPage, refetch } = query;
  const cards = useMediaQuery("(max-width: 1023px)");

  const images = useMemo(() => {
    const seen = new Set<string>();
    // While rows move between pages a row may come twice.
    return (data?.pages ?? [])
      .flatMap((page) => page.items)
      .filter((image) => !seen.has(keyOf(image)) && seen.add(keyOf(image)));
  }, [data]);
  const total = data?.pages.at(-1)?.total;
  const setSort = useCallback((sort: ListImagesSort) => update({ sort }), [update]);
  const tableColumns = useMemo(() => columns(filters.sort, setSort), [filters.sort, setSort]);
  const loadMore = useCallback(() => {
    if (!isFetching && !isFetchNextPageError) void fetchNextPage({ cancelRefetch: false });
  }, [isFetching, isFetchNextPageError, fetchNextPage]);

  return (
    <>
      <h1 className="sr-only">Images</h1>
      <Overview filters={filters} update={update} />
      <section aria-label="Images">
        <FilterBar filters={filters} update={update} total={total} />
        {error && data && <LoadError error={error} onRetry={() => void refetch()} />}
        <div
          aria-busy={query.isPending || query.isPlaceholderData}
          className="mt-3 rounded-xl border border-line bg-surface shadow-card"
        >
          {data === undefined ? (
            error ? (
              <ErrorPanel error={error} onRetry={() => void refetch()} />
            ) : (
              <ListSkeleton />
            )
          ) : images.length === 0 ? (
            isFiltered(filters) ? (
              <NothingFound onClear={() => update({ text: "", state: [], severity: undefined })} />
            ) : (
              <NoImages />
            )
          ) : (
            <div className={query.isPlaceholderData ? "opacity-60 transition-opacity" : undefined}>
              <VirtualTable
                label="Images"
                columns={tableColumns}
                data={images}
                rowKey={keyOf}
                total={total ?? images.length}
                grid={grid}
                rowHeight={56}
                cards={cards}
                cardHeight={114}
                renderCard={renderCard}
                hasMore={hasNextPage}
                loadMore={loadMore}
              />
            </div>
          )}
        </div>
        {images.length > 0 && total !== undefined && images.length < total && (
          <p className="tabular mt-3 text-center text-[13px] text-muted">
            {formatNumber(images.length)} of {formatNumber(total)} loaded
          </p>
        )}
      </section>
    </>
  );
}

function ListSkeleton() {
  return (
    <div role="status" className="divide-y divide-line">
      <span className="sr-only">Loading the images</span>
      {Array.from({ length: 10 }, (_, index) => (
        <div key={index} className="flex h-14 items-center gap-6 px-4">
          <div className="flex-1 space-y-2">
            <Skeleton className="h-3.5 w-48 max-w-full" />
            <Skeleton className="h-2.5 w-32 max-w-full" />
          </div>
          <Skeleton className="h-3.5 w-20" />
          <Skeleton className="hidden h-6 w-64 lg:block" />
          <Skeleton className="hidden h-3.5 w-24 sm:block" />
        </div>
      ))}
    </div>
  );
}

function NothingFound({ onClear }: { onClear: () => void }) {
  return (
    <StatePanel
      icon={SearchX}
      title="No image matches"
      action={<Button onClick={onClear}>Clear filters</Button>}
    >
      <p>Nothing in this cluster fits the search and the filters.</p>
    </StatePanel>
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
      <p>Apply a Scanner in a namespace whose containers are to be scanned, and run a pod there.</p>
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
      <p>Images appear here by themselves, as soon as they are found.</p>
    </StatePanel>
  );
}
