import { CircleCheck, ScanSearch, X } from "lucide-react";
import { useCallback, useMemo } from "react";
import { ExportMenu } from "@/components/export-menu";
import { NamespaceFilter, OwnerFilter } from "@/components/filter-fields";
import { Button } from "@/components/ui/button";
import { FilterBar } from "@/components/ui/filter-bar";
import { ListPanel } from "@/components/ui/list-panel";
import { useOpenRows } from "@/components/ui/open-rows";
import { PageTitle } from "@/components/ui/page-title";
import { SearchInput } from "@/components/ui/search-input";
import { Skeleton } from "@/components/ui/skeleton";
import { StatePanel } from "@/components/ui/state";
import { Tabs } from "@/components/ui/tabs";
import { useList } from "@/components/ui/use-list";
import { Empty } from "@/features/session/empty";
import type { ContainerCoverage, CoveragePage as Page, CoverageState, CoverageSummary } from "@/gen/model";
import { getListCoverageUrl, listCoverage } from "@/gen/workloads/workloads";
import { useAddress } from "@/lib/address";
import { formatNumber, plural } from "@/lib/format";
import { sumsKey } from "@/lib/lists";
import { useHasOwners } from "@/lib/owners";
import { visible } from "@/lib/text";
import { columns, CoverageCard, CoverageDetail, coverageKey, grid } from "./columns";
import { coverageFilters, toRequest } from "./filters";
import { containersOf, CoverageBar, explainReason, formatRatio, states } from "./state";

const renderDetail = (row: ContainerCoverage) => <CoverageDetail row={row} />;

export function CoveragePage() {
  const { filters, update } = useAddress(coverageFilters);
  const request = toRequest(filters);
  const list = useList<ContainerCoverage, Page>({
    queryKey: [...sumsKey, "coverage", request],
    load: (page, init) => listCoverage({ ...request, ...page }, init),
    rowKey: coverageKey,
  });
  const { isOpen, toggle } = useOpenRows(coverageKey);
  const owners = useHasOwners();
  const tableColumns = useMemo(() => columns({ owners, isOpen, toggle }), [owners, isOpen, toggle]);
  const renderCard = useCallback(
    (row: ContainerCoverage) => <CoverageCard row={row} open={isOpen(row)} onToggle={() => toggle(row)} />,
    [isOpen, toggle],
  );
  const filtered = coverageFilters.isFiltered(filters);
  const clear = () => update({ ...coverageFilters.none, state: undefined });
  const summary = list.page?.summary;
  const total = list.page?.total;
  const count = (key: keyof CoverageSummary) => (summary ? formatNumber(summary[key]) : undefined);
  const tabs = [
    { value: "all" as const, label: "All", note: summary && formatNumber(containersOf(summary)) },
    ...states.map(({ state, key }) => ({ value: state, label: state, note: count(key) })),
  ];
  return (
    <>
      <PageTitle
        title="Coverage"
        hint="All running containers with their scan state and the reason if they are not scanned."
      />
      {summary ? (
        <Headline summary={summary} />
      ) : (
        !list.error && <Skeleton className="h-[calc(5.75rem+2px)] rounded-xl" />
      )}
      <div className="mt-4">
        <Tabs<CoverageState | "all">
          label="State"
          options={tabs}
          value={filters.state ?? "all"}
          onChange={(state) => update({ state: state === "all" ? undefined : state })}
          pending={!summary && !list.error}
        >
          <FilterBar
            label="Coverage"
            count={total === undefined ? "" : plural(total, "row")}
            filtered={filtered}
            onClear={clear}
            actions={
              <ExportMenu
                formats={["csv"]}
                name="coverage"
                url={(format) => getListCoverageUrl({ ...request, format })}
              />
            }
          >
            <SearchInput
              label="Search containers"
              placeholder="Image, workload or container"
              value={filters.text}
              maxLength={256}
              onChange={(text) => update({ text })}
              className="w-full sm:w-72"
            />
            <NamespaceFilter value={filters.namespace} onChange={(namespace) => update({ namespace })} />
            <OwnerFilter value={filters.owner} onChange={(owner) => update({ owner })} />
            {filters.reason && (
              <Button
                onClick={() => update({ reason: "" })}
                aria-label="Show containers with any reason"
                className="max-w-72 border-accent bg-accent-soft"
              >
                <span className="untrusted truncate">
                  {visible(explainReason(filters.reason)?.what ?? filters.reason)}
                </span>
                <X aria-hidden />
              </Button>
            )}
          </FilterBar>
          <h2 className="sr-only">Containers</h2>
          <ListPanel
            label="Containers"
            list={list}
            columns={tableColumns}
            grid={grid(owners)}
            rowHeight={56}
            cardHeight={112}
            renderCard={renderCard}
            renderDetail={renderDetail}
            isOpen={isOpen}
            empty={
              <Empty
                filtered={filtered}
                namespace={filters.namespace}
                noMatch="No container matches"
                nothing={
                  filters.state
                    ? `No container in your namespaces is ${filters.state}`
                    : "No containers in your namespaces"
                }
                onClear={clear}
              >
                {filters.state ? (
                  <StatePanel icon={CircleCheck} title={`No container is ${filters.state}`} />
                ) : (
                  <StatePanel icon={ScanSearch} title="No containers yet">
                    <p>Containers appear here when a Scanner finds them.</p>
                  </StatePanel>
                )}
              </Empty>
            }
          />
        </Tabs>
      </div>
    </>
  );
}

/** The share of containers with a result, which is what all the rest explains. */
function Headline({ summary }: { summary: CoverageSummary }) {
  const wanted = containersOf(summary) - summary.skipped;
  const covered = summary.scanned + summary.partial + summary.stale;
  return (
    <section
      aria-label="Coverage of the cluster"
      className="rounded-xl border border-line bg-surface p-4 shadow-card"
    >
      <p className="flex flex-wrap items-baseline gap-x-3">
        <span className="tabular text-4xl leading-10 font-semibold tracking-tight">
          {wanted === 0 ? "–" : formatRatio(summary.ratio)}
        </span>
        <span className="tabular text-sm">
          {wanted === 0
            ? "There are no containers to scan."
            : `${formatNumber(covered)} of ${plural(wanted, "container")} ${covered === 1 ? "has" : "have"} a result`}
          {summary.partial > 0 && (
            <span className="text-muted">{`, ${formatNumber(summary.partial)} a partial one`}</span>
          )}
          {summary.stale > 0 && (
            <span className="text-muted">{`, ${formatNumber(summary.stale)} of an earlier database`}</span>
          )}
        </span>
      </p>
      <CoverageBar summary={summary} className="mt-3" />
    </section>
  );
}
