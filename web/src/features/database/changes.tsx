import { CircleCheck, SearchX, X } from "lucide-react";
import { useCallback, useMemo, useState } from "react";
import { Button } from "@/components/ui/button";
import { SearchInput } from "@/components/ui/search-input";
import { Select } from "@/components/ui/select";
import { Skeleton } from "@/components/ui/skeleton";
import { ErrorPanel, StatePanel } from "@/components/ui/state";
import { Tabs } from "@/components/ui/tabs";
import { ToggleButton } from "@/components/ui/toggle-button";
import { VirtualTable } from "@/components/ui/virtual-table";
import { ImageName } from "@/features/images/image-name";
import { minimumOptions } from "@/features/images/list/filter-bar";
import { LoadError } from "@/features/images/load-error";
import type { Change, ChangeKind, Database } from "@/gen/model";
import { formatNumber, plural } from "@/lib/format";
import { useHotkey } from "@/lib/keyboard";
import { useMediaQuery } from "@/lib/use-media-query";
import { ChangeDetail } from "./change-detail";
import { kinds } from "./change";
import { ChangeCard, columns, grid } from "./columns";
import { isFiltered, noFilters, toRequest, type ChangeFilters } from "./filters";
import { useChanges } from "./queries";

interface Props {
  database: Database;
  filters: ChangeFilters;
  update: (change: Partial<ChangeFilters>) => void;
}

const keyOf = ({ id }: Change) => String(id);
const renderDetail = (change: Change) => <ChangeDetail change={change} />;

/** Changes that are open; Escape closes them all. */
function useOpenRows() {
  const [open, setOpen] = useState<ReadonlySet<number>>(new Set());
  const isOpen = useCallback(({ id }: Change) => open.has(id), [open]);
  const toggle = useCallback(
    ({ id }: Change) =>
      setOpen((current) => {
        const next = new Set(current);
        if (!next.delete(id)) next.add(id);
        return next;
      }),
    [],
  );
  useHotkey((event) => {
    if (event.key !== "Escape" || open.size === 0) return;
    event.preventDefault();
    setOpen(new Set());
  });
  return { isOpen, toggle };
}

/** What a build changed against the one before, one kind per tab. */
export function Changes({ database, filters, update }: Props) {
  const { changes } = database;
  const tabs = [
    {
      value: "all" as const,
      label: "All",
      note: formatNumber(changes.opened + changes.closed + changes.changed),
    },
    ...kinds.map(({ value, label }) => ({ value, label, note: formatNumber(changes[value]) })),
  ];
  return (
    <section aria-labelledby="changes" className="mt-6">
      <h2 id="changes" className="text-base font-semibold">
        What changed
      </h2>
      <p className="mb-1 text-[13px] text-muted">
        {database.previousBuild
          ? `Against the build before, in ${plural(changes.images, "image")}: ` +
            `${plural(changes.openedCritical, "critical finding")} opened, ${formatNumber(changes.newKev)} newly known to be exploited.`
          : "This is the first build: there is nothing to compare it with."}
      </p>
      {database.previousBuild && (
        <Tabs<ChangeKind | "all">
          label="Kind of change"
          options={tabs}
          value={filters.kind ?? "all"}
          onChange={(kind) => update({ kind: kind === "all" ? undefined : kind })}
        >
          <ChangeTable database={database} filters={filters} update={update} />
        </Tabs>
      )}
    </section>
  );
}

function FilterBar({ filters, update, total }: Omit<Props, "database"> & { total: number | undefined }) {
  return (
    <div role="search" aria-label="Changes" className="flex flex-wrap items-center gap-2">
      <SearchInput
        label="Search changes"
        placeholder="Vulnerability or package"
        value={filters.text}
        maxLength={256}
        onChange={(text) => update({ text })}
        className="w-full sm:w-72"
      />
      <Select
        label="Severity"
        options={minimumOptions}
        value={filters.severity ?? "all"}
        active={filters.severity !== undefined}
        onChange={(value) => update({ severity: value === "all" ? undefined : value })}
      />
      <ToggleButton pressed={filters.kev} onChange={(kev) => update({ kev })}>
        Known exploited
      </ToggleButton>
      {filters.imageId && (
        <Button
          onClick={() => update({ imageId: "" })}
          aria-label="Show changes of all images"
          className="max-w-72 border-accent bg-accent-soft"
        >
          <ImageName imageId={filters.imageId} className="truncate" />
          <X aria-hidden />
        </Button>
      )}
      {isFiltered(filters) && (
        <Button variant="ghost" onClick={() => update(noFilters)}>
          Clear filters
        </Button>
      )}
      <p role="status" className="tabular ml-auto text-[13px] text-muted">
        {total === undefined ? "" : plural(total, "change")}
      </p>
    </div>
  );
}

function ChangeTable({ database, filters, update }: Props) {
  const query = useChanges(database, toRequest(filters));
  const { data, error, hasNextPage, isFetching, isFetchNextPageError, fetchNextPage, refetch } = query;
  const { isOpen, toggle } = useOpenRows();
  const cards = useMediaQuery("(max-width: 1023px)");

  const rows = useMemo(() => {
    const seen = new Set<number>();
    return (data?.pages ?? [])
      .flatMap((page) => page.items)
      .filter(({ id }) => !seen.has(id) && seen.add(id));
  }, [data]);
  const total = data?.pages.at(-1)?.total;
  const tableColumns = useMemo(() => columns({ isOpen, toggle }), [isOpen, toggle]);
  const renderCard = useCallback(
    (change: Change) => <ChangeCard change={change} open={isOpen(change)} onToggle={() => toggle(change)} />,
    [isOpen, toggle],
  );
  const loadMore = useCallback(() => {
    if (!isFetching && !isFetchNextPageError) void fetchNextPage({ cancelRefetch: false });
  }, [isFetching, isFetchNextPageError, fetchNextPage]);

  return (
    <>
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
            <ChangesSkeleton />
          )
        ) : rows.length === 0 ? (
          <NoChanges filters={filters} onClear={() => update({ ...noFilters, kind: undefined })} />
        ) : (
          <div className={query.isPlaceholderData ? "opacity-60 transition-opacity" : undefined}>
            <VirtualTable
              label="Changes"
              columns={tableColumns}
              data={rows}
              rowKey={keyOf}
              total={total ?? rows.length}
              grid={grid}
              rowHeight={52}
              cards={cards}
              cardHeight={104}
              renderCard={renderCard}
              renderDetail={renderDetail}
              isOpen={isOpen}
              hasMore={hasNextPage}
              loadMore={loadMore}
            />
          </div>
        )}
      </div>
    </>
  );
}

function NoChanges({ filters, onClear }: { filters: ChangeFilters; onClear: () => void }) {
  if (isFiltered(filters)) {
    return (
      <StatePanel
        icon={SearchX}
        title="No change matches"
        action={<Button onClick={onClear}>Clear filters</Button>}
      />
    );
  }
  return (
    <StatePanel icon={CircleCheck} title="Nothing changed">
      <p>
        {filters.kind === undefined
          ? "The build says the same of every package in this cluster as the one before."
          : "The build brought no change of this kind."}
      </p>
    </StatePanel>
  );
}

function ChangesSkeleton() {
  return (
    <div role="status" className="divide-y divide-line">
      <span className="sr-only">Loading the changes</span>
      {Array.from({ length: 8 }, (_, index) => (
        <div key={index} className="flex h-13 items-center gap-6 px-4">
          <Skeleton className="h-3.5 w-36" />
          <Skeleton className="h-5 w-16" />
          <Skeleton className="hidden h-3.5 flex-1 sm:block" />
          <Skeleton className="hidden h-3.5 w-24 lg:block" />
        </div>
      ))}
    </div>
  );
}
