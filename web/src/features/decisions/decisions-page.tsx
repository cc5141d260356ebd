import { Gavel } from "lucide-react";
import { useCallback, useMemo } from "react";
import { ExportMenu } from "@/components/export-menu";
import { DaysFilter } from "@/components/filter-fields";
import { FilterBar } from "@/components/ui/filter-bar";
import { ListPanel } from "@/components/ui/list-panel";
import { useOpenRows } from "@/components/ui/open-rows";
import { PageTitle } from "@/components/ui/page-title";
import { SearchInput } from "@/components/ui/search-input";
import { MultiSelect, Select, type Option } from "@/components/ui/select";
import { NothingFound, StatePanel } from "@/components/ui/state";
import { TextFilter } from "@/components/ui/text-filter";
import { useList } from "@/components/ui/use-list";
import { DecideProvider } from "@/features/exceptions/decide-provider";
import { statuses } from "@/features/exceptions/decision";
import { getListDecisionsUrl, listDecisions } from "@/gen/decisions/decisions";
import { ListDecisionsSort, ListDecisionsState, type DecisionRecord, type DecisionStatus } from "@/gen/model";
import { useAddress } from "@/lib/address";
import { plural } from "@/lib/format";
import { listsKey } from "@/lib/lists";
import { columns, DecisionCard, grid } from "./columns";
import { DecisionDetail } from "./decision-detail";
import { decisionFilters, toRequest } from "./filters";

const rowKey = ({ id }: DecisionRecord) => String(id);

const stateOptions: Option<ListDecisionsState>[] = [
  { value: ListDecisionsState.standing, label: "In effect" },
  { value: ListDecisionsState.ended, label: "Ended" },
  { value: ListDecisionsState.all, label: "All" },
];

const sortOptions: Option<ListDecisionsSort>[] = [
  { value: ListDecisionsSort["-since"], label: "Latest" },
  { value: ListDecisionsSort.expiresAt, label: "End" },
  { value: ListDecisionsSort.name, label: "Name" },
];

const statusOptions = (Object.keys(statuses) as DecisionStatus[]).map((value) => ({
  value,
  label: statuses[value],
}));

const renderDetail = (row: DecisionRecord) => <DecisionDetail row={row} />;

/** What was decided about findings: what is in effect, what has ended, and what it was before. */
export function DecisionsPage() {
  const { filters, update } = useAddress(decisionFilters);
  const request = toRequest(filters);
  const list = useList({
    queryKey: [...listsKey, "decisions", request],
    load: (page, init) => listDecisions({ ...request, ...page }, init),
    rowKey,
  });
  const { isOpen, toggle } = useOpenRows(rowKey);
  const tableColumns = useMemo(() => columns({ isOpen, toggle }), [isOpen, toggle]);
  const renderCard = useCallback(
    (row: DecisionRecord) => <DecisionCard row={row} open={isOpen(row)} onToggle={() => toggle(row)} />,
    [isOpen, toggle],
  );
  const filtered = decisionFilters.isFiltered(filters);
  const clear = () => update(decisionFilters.none);
  const total = list.page?.total;
  return (
    <DecideProvider>
      <PageTitle
        title="Decisions"
        hint="Why findings do not count, until when, and what was decided before. Decide at a finding or a vulnerability."
      />
      <FilterBar
        label="Decisions"
        count={total === undefined ? "" : plural(total, "decision")}
        filtered={filtered}
        onClear={clear}
        actions={
          <ExportMenu
            formats={["csv"]}
            name="decisions"
            url={(format) => getListDecisionsUrl({ ...request, format })}
          />
        }
      >
        <SearchInput
          label="Vulnerability"
          placeholder="Vulnerability, for example CVE-2024-3094"
          value={filters.vulnerability}
          maxLength={255}
          onChange={(vulnerability) => update({ vulnerability })}
          className="w-full sm:w-80"
        />
        <TextFilter
          label="Name of the object"
          placeholder="Name of the object"
          value={filters.name}
          maxLength={253}
          onChange={(name) => update({ name })}
          className="w-44"
        />
        <Select
          label="State"
          options={stateOptions}
          value={filters.state}
          onChange={(state) => update({ state })}
        />
        <MultiSelect
          label="Decision"
          all="Any"
          options={statusOptions}
          value={filters.statuses}
          onChange={(chosen) => update({ statuses: chosen })}
        />
        <DaysFilter
          label="Ends"
          steps={{ 7: "Within 7 days", 30: "Within 30 days", 90: "Within 90 days" }}
          other={(days) => `Within ${plural(days, "day")}`}
          value={filters.expiringWithin}
          onChange={(expiringWithin) => update({ expiringWithin })}
        />
        <Select
          label="Sort"
          options={sortOptions}
          value={filters.sort}
          onChange={(sort) => update({ sort })}
        />
      </FilterBar>
      <h2 className="sr-only">Decisions</h2>
      <ListPanel
        label="Decisions"
        list={list}
        columns={tableColumns}
        grid={grid}
        rowHeight={52}
        cardHeight={104}
        renderCard={renderCard}
        renderDetail={renderDetail}
        isOpen={isOpen}
        empty={
          filtered ? (
            <NothingFound title="No decision matches" onClear={clear} />
          ) : (
            <StatePanel
              icon={Gavel}
              title={filters.state === "ended" ? "No decision has ended" : "No decisions yet"}
            >
              <p>Choose Decide at a finding or a vulnerability to state why it does not count.</p>
            </StatePanel>
          )
        }
      />
    </DecideProvider>
  );
}
