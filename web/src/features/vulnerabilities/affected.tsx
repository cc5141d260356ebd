import { CalendarSearch, ShieldCheck } from "lucide-react";
import { useMemo } from "react";
import { ExportMenu } from "@/components/export-menu";
import { NamespaceFilter, OwnerFilter } from "@/components/filter-fields";
import { DayInput } from "@/components/ui/day-input";
import { FilterBar } from "@/components/ui/filter-bar";
import { ListPanel } from "@/components/ui/list-panel";
import { StatePanel } from "@/components/ui/state";
import { Tabs } from "@/components/ui/tabs";
import { ToggleButton } from "@/components/ui/toggle-button";
import { Empty } from "@/features/session/empty";
import type { Affected, AffectedPage } from "@/gen/model";
import { getListAffectedUrl } from "@/gen/vulnerabilities/vulnerabilities";
import { useAddress } from "@/lib/address";
import { useNow } from "@/lib/clock";
import { dayOf } from "@/lib/day";
import { plural } from "@/lib/format";
import { fileStem } from "@/lib/image-id";
import { AffectedCard, affectedColumns, affectedGrid } from "./affected-columns";
import {
  affectedFilters,
  rowsOf,
  times,
  toAffectedRequest,
  type AffectedFilters,
  type Time,
} from "./filters";
import { useAffected } from "./queries";
import { Timeline } from "./timeline-view";
import { WorkloadTimeline } from "./workload-timeline";

const tabs = [
  { value: times.now, label: "Current" },
  { value: times.closed, label: "Closed" },
  { value: times.day, label: "On a date" },
  { value: times.timeline, label: "Timeline" },
];

/** Titles for users who do not see the whole cluster. */
const nothing: Record<Time, string> = {
  now: "No affected images in your namespaces",
  closed: "No closed findings in your namespaces",
  day: "No affected workloads in your namespaces on this date",
};

const describe = ({ total, images, workloads }: AffectedPage) =>
  total === 0
    ? "nothing"
    : `${plural(total, "finding")} in ${plural(images, "image")}, ${plural(workloads, "workload")}`;

/** What has the vulnerability, had it, or ran with it on some day. */
export function AffectedList({ id }: { id: string }) {
  const { filters, update } = useAddress(affectedFilters);
  return (
    <section aria-labelledby="affected" className="mt-6">
      <h2 id="affected" className="text-base font-semibold">
        Affected images
      </h2>
      <Tabs label="When" options={tabs} value={filters.time} onChange={(time) => update({ time })}>
        {filters.time === times.timeline ? (
          filters.by === rowsOf.workload ? (
            <WorkloadTimeline id={id} filters={filters} update={update} />
          ) : (
            <Timeline id={id} filters={filters} update={update} />
          )
        ) : (
          <AffectedTable id={id} time={filters.time} filters={filters} update={update} />
        )}
      </Tabs>
    </section>
  );
}

function AffectedTable({
  id,
  time,
  filters,
  update,
}: {
  id: string;
  time: Time;
  filters: AffectedFilters;
  update: (change: Partial<AffectedFilters>) => void;
}) {
  const today = dayOf(useNow());
  const request = toAffectedRequest(filters, today);
  const list = useAffected(id, time, request);
  const columns = useMemo(() => affectedColumns(time), [time]);
  const renderCard = (row: Affected) => <AffectedCard row={row} time={time} />;
  const filtered = affectedFilters.isFiltered(filters);
  const clear = () => update(affectedFilters.none);
  return (
    <>
      <FilterBar
        label="Affected images"
        count={list.page && !list.stale ? describe(list.page) : ""}
        filtered={filtered}
        onClear={clear}
        actions={
          <ExportMenu
            formats={["csv"]}
            name={fileStem(id)}
            url={(format) => getListAffectedUrl(id, { ...request, format })}
          />
        }
      >
        {time === "day" && (
          <DayInput
            label="Date (UTC)"
            value={filters.on || today}
            max={today}
            onChange={(on) => update({ on })}
          />
        )}
        {time === "now" && (
          <ToggleButton pressed={filters.suppressed} onChange={(suppressed) => update({ suppressed })}>
            Show suppressed
          </ToggleButton>
        )}
        <NamespaceFilter value={filters.namespace} onChange={(namespace) => update({ namespace })} />
        <OwnerFilter value={filters.owner} onChange={(owner) => update({ owner })} />
      </FilterBar>
      <ListPanel
        label="Affected images"
        list={list}
        columns={columns}
        grid={affectedGrid}
        rowHeight={56}
        cardHeight={134}
        renderCard={renderCard}
        empty={
          <Empty
            filtered={filtered}
            namespace={filters.namespace}
            noMatch="Nothing matches"
            nothing={nothing[time]}
            onClear={clear}
          >
            <Nothing time={time} />
          </Empty>
        }
      />
    </>
  );
}

function Nothing({ time }: { time: Time }) {
  switch (time) {
    case "now":
      return (
        <StatePanel icon={ShieldCheck} title="No affected images">
          <p>No package in the known images has this vulnerability.</p>
        </StatePanel>
      );
    case "closed":
      return (
        <StatePanel icon={CalendarSearch} title="No closed findings">
          <p>No finding of this vulnerability was closed in the recorded history.</p>
        </StatePanel>
      );
    case "day":
      return (
        <StatePanel icon={CalendarSearch} title="No affected workloads on this date">
          <p>Dates are in UTC. There is no data for dates before the recorded history.</p>
        </StatePanel>
      );
  }
}
