import { ShieldCheck, X } from "lucide-react";
import { useCallback, useMemo } from "react";
import { ExportMenu } from "@/components/export-menu";
import {
  KevFilter,
  NamespaceFilter,
  NoOwnerFilter,
  OverdueFilter,
  OwnerFilter,
} from "@/components/filter-fields";
import { ImageName } from "@/components/image-name";
import { Button } from "@/components/ui/button";
import { FilterBar } from "@/components/ui/filter-bar";
import { ListPanel } from "@/components/ui/list-panel";
import { useOpenRows } from "@/components/ui/open-rows";
import { PageTitle } from "@/components/ui/page-title";
import { Select } from "@/components/ui/select";
import { StatePanel } from "@/components/ui/state";
import { TextFilter } from "@/components/ui/text-filter";
import { useList } from "@/components/ui/use-list";
import { Empty } from "@/features/session/empty";
import { getListFixesUrl, listFixes } from "@/gen/images/images";
import type { FixItem, FixPage } from "@/gen/model";
import { useAddress } from "@/lib/address";
import { plural } from "@/lib/format";
import { sumsKey } from "@/lib/lists";
import { columns, FixCard, FixDetail, fixKey, grid, sameAsOthers } from "./columns";
import { actionOptions, fixFilters, toRequest } from "./filters";

const renderDetail = (row: FixItem) => <FixDetail row={row} />;

export function FixesPage() {
  const { filters, update } = useAddress(fixFilters);
  const request = toRequest(filters);
  const list = useList<FixItem, FixPage>({
    queryKey: [...sumsKey, "fixes", request],
    load: (page, init) => listFixes({ ...request, ...page }, init),
    rowKey: fixKey,
  });
  const { isOpen, toggle } = useOpenRows(fixKey);
  const same = useMemo(() => sameAsOthers(list.rows), [list.rows]);
  const tableColumns = useMemo(() => columns({ same, isOpen, toggle }), [same, isOpen, toggle]);
  const renderCard = useCallback(
    (row: FixItem) => (
      <FixCard row={row} explicit={same.has(fixKey(row))} open={isOpen(row)} onToggle={() => toggle(row)} />
    ),
    [same, isOpen, toggle],
  );
  const filtered = fixFilters.isFiltered(filters);
  const clear = () => update(fixFilters.none);
  const total = list.page?.total;
  return (
    <>
      <PageTitle
        title="Fix first"
        hint="What can be done about findings, the actions that remove the most risk first."
      />
      <FilterBar
        label="Fixes"
        count={total === undefined ? "" : plural(total, "action")}
        filtered={filtered}
        onClear={clear}
        actions={
          <ExportMenu
            formats={["csv"]}
            name="fixes"
            url={(format) => getListFixesUrl({ ...request, format })}
          />
        }
      >
        <Select
          label="Action"
          options={actionOptions}
          value={filters.action ?? "all"}
          active={filters.action !== undefined}
          onChange={(next) => update({ action: next === "all" ? undefined : next })}
        />
        <KevFilter value={filters.kev} onChange={(kev) => update({ kev })} />
        <OverdueFilter value={filters.overdue} onChange={(overdue) => update({ overdue })} />
        <NamespaceFilter value={filters.namespace} onChange={(namespace) => update({ namespace })} />
        <TextFilter
          label="Workload"
          placeholder="Workload"
          value={filters.workload}
          maxLength={253}
          onChange={(workload) => update({ workload })}
          className="w-36"
        />
        <OwnerFilter value={filters.owner} onChange={(owner) => update({ owner, noOwner: false })} />
        <NoOwnerFilter value={filters.noOwner} onChange={(noOwner) => update({ noOwner, owner: "" })} />
        {filters.imageId && (
          <Button
            onClick={() => update({ imageId: "" })}
            aria-label="Show actions for all images"
            className="max-w-72 border-accent bg-accent-soft"
          >
            <ImageName imageId={filters.imageId} className="truncate" />
            <X aria-hidden />
          </Button>
        )}
      </FilterBar>
      <h2 className="sr-only">Actions</h2>
      <ListPanel
        label="Actions"
        list={list}
        columns={tableColumns}
        grid={grid}
        rowHeight={56}
        cardHeight={140}
        renderCard={renderCard}
        renderDetail={renderDetail}
        isOpen={isOpen}
        empty={
          <Empty
            filtered={filtered}
            namespace={filters.namespace}
            noMatch="No action matches"
            nothing="No findings in your namespaces"
            onClear={clear}
          >
            <StatePanel icon={ShieldCheck} title="Nothing to do">
              <p>No image has findings that count. Actions appear here when images are matched.</p>
            </StatePanel>
          </Empty>
        }
      />
    </>
  );
}
