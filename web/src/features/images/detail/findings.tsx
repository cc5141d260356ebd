import { ShieldCheck } from "lucide-react";
import { useCallback, useMemo } from "react";
import { allFormats, ExportMenu, type ExportFormat } from "@/components/export-menu";
import { FixableFilter, KevFilter, OverdueFilter, SeverityFilter } from "@/components/filter-fields";
import { Button } from "@/components/ui/button";
import { FilterBar } from "@/components/ui/filter-bar";
import { ListPanel } from "@/components/ui/list-panel";
import { useOpenRows } from "@/components/ui/open-rows";
import { SearchInput } from "@/components/ui/search-input";
import { useSelection } from "@/components/ui/selection";
import { Select, type Option } from "@/components/ui/select";
import { NothingFound, StatePanel } from "@/components/ui/state";
import { ToggleButton } from "@/components/ui/toggle-button";
import { Decide } from "@/features/exceptions/decide";
import { maxPackages } from "@/features/exceptions/draft";
import { getListFindingsUrl } from "@/gen/images/images";
import { ListFindingsSort, type BaseImage, type Finding } from "@/gen/model";
import { useAddress } from "@/lib/address";
import { plural } from "@/lib/format";
import { fileStem } from "@/lib/image-id";
import { useFindings } from "../queries";
import { columns, FindingCard, grid, selectableGrid } from "./columns";
import { findingFilters, toRequest } from "./filters";
import { FindingDetail } from "./finding-detail";
import { findingKey } from "./finding";
import { OriginFilter } from "./origin";

const sortOptions: Option<ListFindingsSort>[] = [
  { value: ListFindingsSort["-risk"], label: "Risk" },
  { value: ListFindingsSort["-severity"], label: "Severity" },
  { value: ListFindingsSort.package, label: "Package" },
  { value: ListFindingsSort.due, label: "Due date" },
];

const closedFormats: ExportFormat[] = ["csv"];

export function Findings({ imageId, base }: { imageId: string; base: BaseImage | undefined }) {
  const { filters, update } = useAddress(findingFilters);
  const list = useFindings(imageId, toRequest(filters));
  const { isOpen, toggle } = useOpenRows(findingKey);
  const {
    selected,
    clear,
    isSelected,
    toggle: select,
  } = useSelection({
    rows: list.rows,
    rowKey: findingKey,
    max: maxPackages,
  });
  // Findings that are closed are not decided about.
  const selection = useMemo(
    () => (filters.closed ? undefined : { isSelected, toggle: select }),
    [filters.closed, isSelected, select],
  );
  const tableColumns = useMemo(
    () =>
      columns({
        sort: filters.sort,
        setSort: (sort) => update({ sort }),
        closed: filters.closed,
        isOpen,
        toggle,
        selection,
      }),
    [filters.sort, filters.closed, update, isOpen, toggle, selection],
  );
  const renderDetail = useCallback(
    (finding: Finding) => <FindingDetail finding={finding} imageId={imageId} base={base} />,
    [imageId, base],
  );
  const renderCard = useCallback(
    (finding: Finding) => (
      <FindingCard
        finding={finding}
        open={isOpen(finding)}
        onToggle={() => toggle(finding)}
        selection={selection}
      />
    ),
    [isOpen, toggle, selection],
  );
  const total = list.page?.total;
  return (
    <section aria-label="Findings">
      <FilterBar
        label="Findings"
        count={total === undefined ? "" : plural(total, "finding")}
        filtered={findingFilters.isFiltered(filters)}
        onClear={() => update(findingFilters.none)}
        actions={
          <ExportMenu
            formats={filters.closed ? closedFormats : allFormats}
            name={`${fileStem(imageId)}-findings`}
            url={(format) => getListFindingsUrl(imageId, { ...toRequest(filters), format })}
          />
        }
      >
        <SearchInput
          label="Search findings"
          placeholder="Vulnerability or package"
          value={filters.text}
          maxLength={256}
          onChange={(text) => update({ text })}
          className="w-full sm:w-72"
        />
        <SeverityFilter value={filters.severity} onChange={(severity) => update({ severity })} />
        <FixableFilter value={filters.fixable} onChange={(fixable) => update({ fixable })} />
        <KevFilter value={filters.kev} onChange={(kev) => update({ kev })} />
        <ToggleButton pressed={filters.closed} onChange={(closed) => update({ closed })}>
          Closed
        </ToggleButton>
        {!filters.closed && (
          <OverdueFilter value={filters.overdue} onChange={(overdue) => update({ overdue })} />
        )}
        {!filters.closed && (
          <ToggleButton pressed={filters.suppressed} onChange={(suppressed) => update({ suppressed })}>
            Show suppressed
          </ToggleButton>
        )}
        {(base?.layers !== undefined || filters.origin) && (
          <OriginFilter value={filters.origin} onChange={(origin) => update({ origin })} />
        )}
        <Select
          label="Sort"
          options={sortOptions}
          value={filters.sort}
          onChange={(sort) => update({ sort })}
        />
      </FilterBar>
      <h2 className="sr-only">Findings</h2>
      {selected.length > 0 && !filters.closed && (
        <div
          role="region"
          aria-label="Selected findings"
          className="sticky top-16 z-10 mt-3 flex flex-wrap items-center gap-2 rounded-lg border border-accent bg-accent-soft px-4 py-2 text-sm"
        >
          <p role="status" className="tabular mr-auto">
            {plural(selected.length, "finding")} selected
            {selected.length === maxPackages && ", the maximum"}
          </p>
          <Decide
            label="Decide about these"
            subjects={selected.map(({ vulnerability, package: pkg }) => ({
              vulnerability: vulnerability.id,
              pkg,
              imageId,
            }))}
            onSaved={clear}
          />
          <Button size="sm" variant="ghost" onClick={clear}>
            Clear selection
          </Button>
        </div>
      )}
      <ListPanel
        label="Findings"
        list={list}
        columns={tableColumns}
        grid={selection ? selectableGrid : grid}
        rowHeight={44}
        cardHeight={98}
        renderCard={renderCard}
        renderDetail={renderDetail}
        isOpen={isOpen}
        empty={
          findingFilters.isFiltered(filters) ? (
            <NothingFound title="No finding matches" onClear={() => update(findingFilters.none)} />
          ) : (
            <StatePanel icon={ShieldCheck} title="No findings">
              <p>No known vulnerabilities were found in this image.</p>
            </StatePanel>
          )
        }
      />
    </section>
  );
}
