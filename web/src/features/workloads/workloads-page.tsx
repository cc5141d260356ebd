import { Boxes, X } from "lucide-react";
import { useCallback, useMemo } from "react";
import { ExportMenu } from "@/components/export-menu";
import {
  FixableFilter,
  KevFilter,
  NamespaceFilter,
  OverdueFilter,
  OwnerFilter,
  SeverityFilter,
  WithoutOwner,
} from "@/components/filter-fields";
import { ReportMenu } from "@/components/report-menu";
import { Button } from "@/components/ui/button";
import { ColumnsMenu } from "@/components/ui/columns-menu";
import { FilterBar } from "@/components/ui/filter-bar";
import { ListPanel } from "@/components/ui/list-panel";
import { useOpenRows } from "@/components/ui/open-rows";
import { PageTitle } from "@/components/ui/page-title";
import { SearchInput } from "@/components/ui/search-input";
import { SelectionProvider, useSelection } from "@/components/ui/selection";
import { Select } from "@/components/ui/select";
import { StatePanel } from "@/components/ui/state";
import { Tabs } from "@/components/ui/tabs";
import { useList } from "@/components/ui/use-list";
import { DecideProvider } from "@/features/exceptions/decide-provider";
import { isGrouping } from "@/features/groups/filters";
import { GroupList } from "@/features/groups/group-list";
import { Empty } from "@/features/session/empty";
import type { WorkloadPage, WorkloadSummary } from "@/gen/model";
import { getListWorkloadsUrl, listWorkloads } from "@/gen/workloads/workloads";
import { useAddress } from "@/lib/address";
import { maxSelected } from "@/lib/bulk";
import { plural } from "@/lib/format";
import { sumsKey } from "@/lib/lists";
import { useHasOwners } from "@/lib/owners";
import { visible } from "@/lib/text";
import { columnChoices, defaultColumns } from "./column-names";
import { columns, WorkloadCard, WorkloadDetail, workloadKey } from "./columns";
import { groups, sortOptions, toRequest, workloadFilters, type WorkloadFilters } from "./filters";
import { WorkloadBaseList } from "./bases";
import { SelectedWorkloads } from "./selected-workloads";

const renderDetail = (row: WorkloadSummary) => <WorkloadDetail row={row} />;

const tabs = (owners: boolean) => [
  { value: groups.workloads, label: "By workload" },
  ...(owners ? [{ value: groups.owners, label: "By owner" }] : []),
  { value: groups.namespaces, label: "By namespace" },
  { value: groups.bases, label: "By base image" },
];

export function WorkloadsPage() {
  const { filters, update } = useAddress(workloadFilters);
  const hasOwners = useHasOwners();
  return (
    <>
      <PageTitle title="Workloads" hint="Running workloads with the findings of their images." />
      <Tabs
        label="Group"
        options={tabs(hasOwners || filters.group === "owners")}
        value={filters.group}
        onChange={(group) => update({ group })}
      >
        {isGrouping(filters.group) ? (
          <GroupList by={filters.group} list="workloads" />
        ) : filters.group === "bases" ? (
          <WorkloadBaseList filters={filters} update={update} />
        ) : (
          <WorkloadList filters={filters} update={update} owners={hasOwners} />
        )}
      </Tabs>
    </>
  );
}

function WorkloadList({
  filters,
  update,
  owners,
}: {
  filters: WorkloadFilters;
  update: (change: Partial<WorkloadFilters>) => void;
  owners: boolean;
}) {
  const request = toRequest(filters);
  const list = useList<WorkloadSummary, WorkloadPage>({
    queryKey: [...sumsKey, "workloads", request],
    load: (page, init) => listWorkloads({ ...request, ...page }, init),
    rowKey: workloadKey,
  });
  const { isOpen, toggle } = useOpenRows(workloadKey);
  const shown = useMemo(() => filters.columns ?? defaultColumns(owners), [filters.columns, owners]);
  const tableColumns = useMemo(
    () => columns({ shown, sort: filters.sort, setSort: (sort) => update({ sort }), isOpen, toggle }),
    [shown, filters.sort, update, isOpen, toggle],
  );
  const selection = useSelection({ rows: list.rows, rowKey: workloadKey, max: maxSelected });
  const renderCard = useCallback(
    (row: WorkloadSummary) => <WorkloadCard row={row} open={isOpen(row)} onToggle={() => toggle(row)} />,
    [isOpen, toggle],
  );
  const filtered = workloadFilters.isFiltered(filters);
  const clear = () => update(workloadFilters.none);
  const total = list.page?.total;
  return (
    <>
      <FilterBar
        label="Workloads"
        count={total === undefined ? "" : plural(total, "workload")}
        filtered={filtered}
        onClear={clear}
        actions={
          <>
            <ColumnsMenu
              choices={columnChoices(owners)}
              always="name"
              shown={shown}
              onChange={(columns) => update({ columns })}
            />
            <ReportMenu scope={filters} />
            <ExportMenu
              formats={["csv"]}
              name="workloads"
              url={(format) => getListWorkloadsUrl({ ...request, format })}
            />
          </>
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
        <OverdueFilter value={filters.overdue} onChange={(overdue) => update({ overdue })} />
        <NamespaceFilter value={filters.namespace} onChange={(namespace) => update({ namespace })} />
        <OwnerFilter value={filters.owner} onChange={(owner) => update({ owner })} />
        {filters.noOwner && <WithoutOwner what="workloads" onClear={() => update({ noOwner: false })} />}
        {filters.base && (
          <Button
            onClick={() => update({ base: "", baseLayers: undefined })}
            aria-label="Show workloads on all base images"
            title={visible(filters.base)}
            className="border-accent bg-accent-soft"
          >
            On one base image
            <X aria-hidden />
          </Button>
        )}
        <Select
          label="Sort"
          options={sortOptions}
          value={filters.sort}
          onChange={(sort) => update({ sort })}
        />
      </FilterBar>
      <h2 className="sr-only">Workloads</h2>
      <DecideProvider>
        <SelectedWorkloads selection={selection} />
      </DecideProvider>
      <SelectionProvider selection={selection}>
        <ListPanel
          label="Workloads"
          list={list}
          columns={tableColumns}
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
      </SelectionProvider>
    </>
  );
}
