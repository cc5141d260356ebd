import { Boxes } from "lucide-react";
import { useCallback, useMemo } from "react";
import { ExportMenu } from "@/components/export-menu";
import { FixableFilter, KevFilter, NamespaceFilter, SeverityFilter } from "@/components/filter-fields";
import { FilterBar } from "@/components/ui/filter-bar";
import { ListPanel } from "@/components/ui/list-panel";
import { useOpenRows } from "@/components/ui/open-rows";
import { PageTitle } from "@/components/ui/page-title";
import { SearchInput } from "@/components/ui/search-input";
import { Select, type Option } from "@/components/ui/select";
import { StatePanel } from "@/components/ui/state";
import { useList } from "@/components/ui/use-list";
import { Empty } from "@/features/session/empty";
import { ListWorkloadsSort, type WorkloadPage, type WorkloadSummary } from "@/gen/model";
import { getListWorkloadsUrl, listWorkloads } from "@/gen/workloads/workloads";
import { useAddress } from "@/lib/address";
import { plural } from "@/lib/format";
import { sumsKey } from "@/lib/lists";
import { columns, grid, WorkloadCard, WorkloadDetail, workloadKey } from "./columns";
import { toRequest, workloadFilters } from "./filters";

const sortOptions: Option<ListWorkloadsSort>[] = [
  { value: ListWorkloadsSort["-severity"], label: "Most severe" },
  { value: ListWorkloadsSort.name, label: "Name" },
];

const renderDetail = (row: WorkloadSummary) => <WorkloadDetail row={row} />;

export function WorkloadsPage() {
  const { filters, update } = useAddress(workloadFilters);
  const request = toRequest(filters);
  const list = useList<WorkloadSummary, WorkloadPage>({
    queryKey: [...sumsKey, "workloads", request],
    load: (page, init) => listWorkloads({ ...request, ...page }, init),
    rowKey: workloadKey,
  });
  const { isOpen, toggle } = useOpenRows(workloadKey);
  const tableColumns = useMemo(
    () => columns({ sort: filters.sort, setSort: (sort) => update({ sort }), isOpen, toggle }),
    [filters.sort, update, isOpen, toggle],
  );
  const renderCard = useCallback(
    (row: WorkloadSummary) => <WorkloadCard row={row} open={isOpen(row)} onToggle={() => toggle(row)} />,
    [isOpen, toggle],
  );
  const filtered = workloadFilters.isFiltered(filters);
  const clear = () => update(workloadFilters.none);
  const total = list.page?.total;
  return (
    <>
      <PageTitle title="Workloads" hint="Running workloads with the findings of their images." />
      <FilterBar
        label="Workloads"
        count={total === undefined ? "" : plural(total, "workload")}
        filtered={filtered}
        onClear={clear}
        actions={
          <ExportMenu
            formats={["csv"]}
            name="workloads"
            url={(format) => getListWorkloadsUrl({ ...request, format })}
          />
        }
      >
        <SearchInput
          label="Search workloads"
          placeholder="Workload name"
          value={filters.text}
          maxLength={256}
          onChange={(text) => update({ text })}
          className="w-full sm:w-72"
        />
        <SeverityFilter value={filters.severity} onChange={(severity) => update({ severity })} />
        <FixableFilter value={filters.fixable} onChange={(fixable) => update({ fixable })} />
        <KevFilter value={filters.kev} onChange={(kev) => update({ kev })} />
        <NamespaceFilter value={filters.namespace} onChange={(namespace) => update({ namespace })} />
        <Select
          label="Sort"
          options={sortOptions}
          value={filters.sort}
          onChange={(sort) => update({ sort })}
        />
      </FilterBar>
      <h2 className="sr-only">Workloads</h2>
      <ListPanel
        label="Workloads"
        list={list}
        columns={tableColumns}
        grid={grid}
        rowHeight={56}
        cardHeight={124}
        renderCard={renderCard}
        renderDetail={renderDetail}
        isOpen={isOpen}
        empty={
          <Empty
            filtered={filtered}
            namespace={filters.namespace}
            noMatch="No workload matches"
            nothing="No workloads in your namespaces"
            onClear={clear}
          >
            <StatePanel icon={Boxes} title="No workloads yet">
              <p>Workloads appear here when a Scanner finds running containers.</p>
            </StatePanel>
          </Empty>
        }
      />
    </>
  );
}
