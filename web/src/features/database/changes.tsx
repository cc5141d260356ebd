import { CircleCheck, X } from "lucide-react";
import { useCallback, useMemo } from "react";
import { KevFilter, SeverityFilter } from "@/components/filter-fields";
import { Button } from "@/components/ui/button";
import { FilterBar } from "@/components/ui/filter-bar";
import { ListPanel } from "@/components/ui/list-panel";
import { useOpenRows } from "@/components/ui/open-rows";
import { SearchInput } from "@/components/ui/search-input";
import { StatePanel } from "@/components/ui/state";
import { Tabs } from "@/components/ui/tabs";
import { ImageName } from "@/components/image-name";
import { Empty } from "@/features/session/empty";
import type { Change, ChangeKind, Database } from "@/gen/model";
import { formatNumber, plural } from "@/lib/format";
import { ChangeDetail } from "./change-detail";
import { kinds } from "./change";
import { ChangeCard, columns, grid } from "./columns";
import { changeFilters, toRequest, type ChangeFilters } from "./filters";
import { changeKey, useChanges } from "./queries";

interface Props {
  database: Database;
  filters: ChangeFilters;
  update: (change: Partial<ChangeFilters>) => void;
}

const renderDetail = (change: Change) => <ChangeDetail change={change} />;

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
          ? `Compared with the previous build, in ${plural(changes.images, "image")}: ` +
            `${plural(changes.openedCritical, "critical finding")} opened, ${formatNumber(changes.newKev)} newly known exploited.`
          : "This is the first build. There is no previous build to compare with."}
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

function ChangeTable({ database, filters, update }: Props) {
  const list = useChanges(database, toRequest(filters));
  const { isOpen, toggle } = useOpenRows(changeKey);
  const tableColumns = useMemo(() => columns({ isOpen, toggle }), [isOpen, toggle]);
  const renderCard = useCallback(
    (change: Change) => <ChangeCard change={change} open={isOpen(change)} onToggle={() => toggle(change)} />,
    [isOpen, toggle],
  );
  const total = list.page?.total;
  return (
    <>
      <FilterBar
        label="Changes"
        count={total === undefined ? "" : plural(total, "change")}
        filtered={changeFilters.isFiltered(filters)}
        onClear={() => update(changeFilters.none)}
      >
        <SearchInput
          label="Search changes"
          placeholder="Vulnerability or package"
          value={filters.text}
          maxLength={256}
          onChange={(text) => update({ text })}
          className="w-full sm:w-72"
        />
        <SeverityFilter value={filters.severity} onChange={(severity) => update({ severity })} />
        <KevFilter value={filters.kev} onChange={(kev) => update({ kev })} />
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
      </FilterBar>
      <ListPanel
        label="Changes"
        list={list}
        columns={tableColumns}
        grid={grid}
        rowHeight={52}
        cardHeight={104}
        renderCard={renderCard}
        renderDetail={renderDetail}
        isOpen={isOpen}
        empty={
          <Empty
            filtered={changeFilters.isFiltered(filters)}
            noMatch="No change matches"
            nothing="No changes in your namespaces"
            onClear={() => update({ ...changeFilters.none, kind: undefined })}
          >
            <StatePanel icon={CircleCheck} title="No changes">
              <p>
                {filters.kind === undefined
                  ? "The findings in this cluster are the same as with the previous build."
                  : "The build has no changes of this kind."}
              </p>
            </StatePanel>
          </Empty>
        }
      />
    </>
  );
}
