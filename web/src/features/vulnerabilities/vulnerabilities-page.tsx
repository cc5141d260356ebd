import { ShieldCheck } from "lucide-react";
import { useCallback, useMemo, type ReactNode } from "react";
import { ExportMenu } from "@/components/export-menu";
import {
  EPSSFilter,
  FixableFilter,
  KevFilter,
  NamespaceFilter,
  OverdueFilter,
  OwnerFilter,
  SeverityFilter,
  WithoutOwner,
} from "@/components/filter-fields";
import { GroupSelect } from "@/components/group-select";
import { ColumnsMenu } from "@/components/ui/columns-menu";
import { FilterBar } from "@/components/ui/filter-bar";
import { ListPanel } from "@/components/ui/list-panel";
import { PageTitle } from "@/components/ui/page-title";
import { SearchInput } from "@/components/ui/search-input";
import { SelectionProvider, useSelection } from "@/components/ui/selection";
import { Select, type Option } from "@/components/ui/select";
import { StatePanel } from "@/components/ui/state";
import { ToggleButton } from "@/components/ui/toggle-button";
import { DecideProvider } from "@/features/exceptions/decide-provider";
import { isGrouping } from "@/features/groups/filters";
import { GroupList } from "@/features/groups/group-list";
import { Empty } from "@/features/session/empty";
import { ListVulnerabilitiesSort, type VulnerabilitySummary } from "@/gen/model";
import { getListVulnerabilitiesUrl } from "@/gen/vulnerabilities/vulnerabilities";
import { useAddress } from "@/lib/address";
import { maxSelected } from "@/lib/bulk";
import { plural } from "@/lib/format";
import { columnChoices, columnNames } from "./column-names";
import { columns, VulnerabilityCard } from "./columns";
import { groups, toRequest, vulnerabilityFilters, type VulnerabilityFilters } from "./filters";
import { useVulnerabilities, vulnerabilityKey } from "./queries";
import { SelectedVulnerabilities } from "./selected-vulnerabilities";

const sortOptions: Option<ListVulnerabilitiesSort>[] = [
  { value: ListVulnerabilitiesSort["-risk"], label: "Risk" },
  { value: ListVulnerabilitiesSort["-severity"], label: "Severity" },
  { value: ListVulnerabilitiesSort["-epss"], label: "EPSS" },
  { value: ListVulnerabilitiesSort.id, label: "ID" },
];

const offered = [groups.owners, groups.namespaces];

export function VulnerabilitiesPage() {
  const { filters, update } = useAddress(vulnerabilityFilters);
  const { group, namespace, owner, noOwner } = filters;
  const groupSelect = (
    <GroupSelect
      none={groups.vulnerabilities}
      groups={offered}
      value={group}
      // Groups have no other filters than these.
      onChange={(next) =>
        update({ ...vulnerabilityFilters.none, suppressed: false, namespace, owner, noOwner, group: next })
      }
    />
  );
  return (
    <>
      <PageTitle title="Vulnerabilities" hint="All vulnerabilities with the affected images and workloads." />
      {isGrouping(group) ? (
        <GroupList by={group} list="vulnerabilities" controls={groupSelect} />
      ) : (
        <VulnerabilityList filters={filters} update={update} groupSelect={groupSelect} />
      )}
    </>
  );
}

function VulnerabilityList({
  filters,
  update,
  groupSelect,
}: {
  filters: VulnerabilityFilters;
  update: (change: Partial<VulnerabilityFilters>) => void;
  groupSelect: ReactNode;
}) {
  const list = useVulnerabilities(toRequest(filters));
  const setSort = useCallback((sort: ListVulnerabilitiesSort) => update({ sort }), [update]);
  const { suppressed, columns: shown = columnNames } = filters;
  const tableColumns = useMemo(
    () => columns({ shown, sort: filters.sort, setSort, suppressed }),
    [shown, filters.sort, setSort, suppressed],
  );
  const selection = useSelection({ rows: list.rows, rowKey: vulnerabilityKey, max: maxSelected });
  const renderCard = useCallback(
    (row: VulnerabilitySummary) => <VulnerabilityCard row={row} suppressed={suppressed} />,
    [suppressed],
  );
  const filtered = vulnerabilityFilters.isFiltered(filters);
  const clear = () => update(vulnerabilityFilters.none);
  const total = list.page?.total;
  return (
    <>
      <FilterBar
        label="Vulnerabilities"
        count={total === undefined ? "" : plural(total, "vulnerability", "vulnerabilities")}
        filtered={filtered}
        onClear={clear}
        actions={
          <>
            <ColumnsMenu
              choices={columnChoices}
              always="id"
              shown={shown}
              onChange={(columns) => update({ columns })}
            />
            <ExportMenu
              formats={["csv"]}
              name="vulnerabilities"
              url={(format) => getListVulnerabilitiesUrl({ ...toRequest(filters), format })}
            />
          </>
        }
      >
        <SearchInput
          label="Search vulnerabilities"
          placeholder="ID or alias, such as CVE-2021-44228"
          value={filters.text}
          maxLength={256}
          onChange={(text) => update({ text })}
          className="w-full sm:w-80"
        />
        <SeverityFilter value={filters.severity} onChange={(severity) => update({ severity })} />
        <EPSSFilter value={filters.epss} onChange={(epss) => update({ epss })} />
        <FixableFilter value={filters.fixable} onChange={(fixable) => update({ fixable })} />
        <KevFilter value={filters.kev} onChange={(kev) => update({ kev })} />
        <OverdueFilter value={filters.overdue} onChange={(overdue) => update({ overdue })} />
        <NamespaceFilter value={filters.namespace} onChange={(namespace) => update({ namespace })} />
        <OwnerFilter value={filters.owner} onChange={(owner) => update({ owner })} />
        {filters.noOwner && (
          <WithoutOwner what="vulnerabilities" onClear={() => update({ noOwner: false })} />
        )}
        {groupSelect}
        <ToggleButton pressed={filters.suppressed} onChange={(suppressed) => update({ suppressed })}>
          Show suppressed
        </ToggleButton>
        <Select
          label="Sort"
          options={sortOptions}
          value={filters.sort}
          onChange={(sort) => update({ sort })}
        />
      </FilterBar>
      <DecideProvider>
        <SelectedVulnerabilities selection={selection} />
      </DecideProvider>
      <SelectionProvider selection={selection}>
        <ListPanel
          label="Vulnerabilities"
          list={list}
          columns={tableColumns}
          rowHeight={44}
          cardHeight={94}
          renderCard={renderCard}
          empty={
            <Empty
              filtered={filtered}
              namespace={filters.namespace}
              noMatch="No vulnerability matches"
              nothing="No vulnerabilities in your namespaces"
              onClear={clear}
            >
              <StatePanel icon={ShieldCheck} title="No vulnerabilities">
                <p>No image has known vulnerabilities. They appear here when images are matched.</p>
              </StatePanel>
            </Empty>
          }
        />
      </SelectionProvider>
    </>
  );
}
