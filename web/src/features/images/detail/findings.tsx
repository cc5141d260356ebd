import { SearchX, ShieldCheck } from "lucide-react";
import { useCallback, useMemo, useState } from "react";
import { Button } from "@/components/ui/button";
import { SearchInput } from "@/components/ui/search-input";
import { Select, type Option } from "@/components/ui/select";
import { Skeleton } from "@/components/ui/skeleton";
import { ErrorPanel, StatePanel } from "@/components/ui/state";
import { ToggleButton } from "@/components/ui/toggle-button";
import { VirtualTable } from "@/components/ui/virtual-table";
import { ListFindingsSort, type Finding } from "@/gen/model";
import { plural } from "@/lib/format";
import { useHotkey } from "@/lib/keyboard";
import { useMediaQuery } from "@/lib/use-media-query";
import { LoadError } from "../load-error";
import { minimumOptions } from "../list/filter-bar";
import { useFindings } from "../queries";
import { columns, FindingCard, grid } from "./columns";
import { isFiltered, noFilters, toRequest, useFindingFilters } from "./filters";
import { FindingDetail } from "./finding-detail";
import { findingKey } from "./finding";

const sortOptions: Option<ListFindingsSort>[] = [
  { value: ListFindingsSort["-risk"], label: "Risk" },
  { value: ListFindingsSort["-severity"], label: "Severity" },
  { value: ListFindingsSort.package, label: "Package" },
];

const renderDetail = (finding: Finding) => <FindingDetail finding={finding} />;

/** Findings that are open; Escape closes them all. */
function useOpenRows() {
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const isOpen = useCallback((finding: Finding) => open.has(findingKey(finding)), [open]);
  const toggle = useCallback(
    (finding: Finding) =>
      setOpen((current) => {
        const key = findingKey(finding);
        const next = new Set(current);
        if (!next.delete(key)) next.add(key);
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

export function Findings({ imageId }: { imageId: string }) {
  const { filters, update } = useFindingFilters();
  const query = useFindings(imageId, toRequest(filters), true);
  const { data, error, hasNextPage, isFetching, isFetchNextPageError, fetchNextPage, refetch } = query;
  const { isOpen, toggle } = useOpenRows();
  const cards = useMediaQuery("(max-width: 1023px)");

  const findings = useMemo(() => {
    const seen = new Set<string>();
    return (data?.pages ?? [])
      .flatMap((page) => page.items)
      .filter((finding) => !seen.has(findingKey(finding)) && seen.add(findingKey(finding)));
  }, [data]);
  const total = data?.pages.at(-1)?.total;
  const tableColumns = useMemo(
    () => columns({ sort: filters.sort, setSort: (sort) => update({ sort }), isOpen, toggle }),
    [filters.sort, update, isOpen, toggle],
  );
  const renderCard = useCallback(
    (finding: Finding) => (
      <FindingCard finding={finding} open={isOpen(finding)} onToggle={() => toggle(finding)} />
    ),
    [isOpen, toggle],
  );
  const loadMore = useCallback(() => {
    if (!isFetching && !isFetchNextPageError) void fetchNextPage({ cancelRefetch: false });
  }, [isFetching, isFetchNextPageError, fetchNextPage]);

  return (
    <section aria-label="Findings" className="mt-6">
      <div role="search" aria-label="Findings" className="flex flex-wrap items-center gap-2">
        <h2 className="mr-2 text-base font-semibold">Findings</h2>
        <SearchInput
          label="Search findings"
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
        <ToggleButton pressed={filters.fixable} onChange={(fixable) => update({ fixable })}>
          Fixable
        </ToggleButton>
        <ToggleButton pressed={filters.kev} onChange={(kev) => update({ kev })}>
          Known exploited
        </ToggleButton>
        <Select
          label="Sort"
          options={sortOptions}
          value={filters.sort}
          onChange={(sort) => update({ sort })}
        />
        {isFiltered(filters) && (
          <Button variant="ghost" onClick={() => update(noFilters)}>
            Clear filters
          </Button>
        )}
        <p role="status" className="tabular ml-auto text-[13px] text-muted">
          {total === undefined ? "" : plural(total, "finding")}
        </p>
      </div>
      {error && data && <LoadError error={error} onRetry={() => void refetch()} />}
      <div
        aria-busy={query.isPending || query.isPlaceholderData}
        className="mt-3 rounded-xl border border-line bg-surface shadow-card"
      >
        {data === undefined ? (
          error ? (
            <ErrorPanel error={error} onRetry={() => void refetch()} />
          ) : (
            <FindingsSkeleton />
          )
        ) : findings.length === 0 ? (
          isFiltered(filters) ? (
            <StatePanel
              icon={SearchX}
              title="No finding matches"
              action={<Button onClick={() => update(noFilters)}>Clear filters</Button>}
            />
          ) : (
            <StatePanel icon={ShieldCheck} title="No findings">
              <p>The vulnerability database in use knows of nothing in this image.</p>
            </StatePanel>
          )
        ) : (
          <div className={query.isPlaceholderData ? "opacity-60 transition-opacity" : undefined}>
            <VirtualTable
              label="Findings"
              columns={tableColumns}
              data={findings}
              rowKey={findingKey}
              total={total ?? findings.length}
              grid={grid}
              rowHeight={44}
              cards={cards}
              cardHeight={98}
              renderCard={renderCard}
              renderDetail={renderDetail}
              isOpen={isOpen}
              hasMore={hasNextPage}
              loadMore={loadMore}
            />
          </div>
        )}
      </div>
    </section>
  );
}

export function FindingsSkeleton() {
  return (
    <div role="status" className="divide-y divide-line">
      <span className="sr-only">Loading the findings</span>
      {Array.from({ length: 8 }, (_, index) => (
        <div key={index} className="flex h-11 items-center gap-6 px-4">
          <Skeleton className="h-3.5 w-36" />
          <Skeleton className="h-5 w-16" />
          <Skeleton className="hidden h-3.5 flex-1 sm:block" />
          <Skeleton className="hidden h-3.5 w-24 lg:block" />
        </div>
      ))}
    </div>
  );
}
