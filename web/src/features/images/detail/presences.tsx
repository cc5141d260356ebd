import { CalendarX } from "lucide-react";
import { FilterBar } from "@/components/ui/filter-bar";
import { ListPanel } from "@/components/ui/list-panel";
import { RelativeTime } from "@/components/ui/relative-time";
import { StatePanel } from "@/components/ui/state";
import type { Column } from "@/components/ui/virtual-table";
import { InOthers } from "@/features/session/empty";
import type { Presence } from "@/gen/model";
import { plural } from "@/lib/format";
import { workloadName } from "@/lib/paths";
import { visible } from "@/lib/text";
import { usePresences } from "../queries";

const grid = "grid-cols-[minmax(14rem,2fr)_minmax(8rem,1fr)_8rem_9rem_8rem]";

function Until({ presence: { until } }: { presence: Presence }) {
  if (until) return <RelativeTime iso={until} className="text-muted" />;
  return (
    <span className="inline-flex items-center gap-2">
      <span aria-hidden className="size-2 rounded-full bg-ok" />
      Running now
    </span>
  );
}

const text = "text-[13px] [[role=columnheader]&]:text-xs";

const columns: Column<Presence>[] = [
  {
    id: "workload",
    header: "Workload",
    cell: ({ row: { original: presence } }) => (
      <span
        data-row-focus
        tabIndex={-1}
        className="untrusted block truncate text-sm font-medium outline-none"
        title={workloadName(presence.workload)}
      >
        {workloadName(presence.workload)}
      </span>
    ),
  },
  {
    id: "container",
    header: "Container",
    meta: { className: text },
    cell: ({ row: { original: presence } }) => (
      <span className="untrusted block truncate">{visible(presence.container)}</span>
    ),
  },
  {
    id: "cluster",
    header: "Cluster",
    meta: { className: text },
    cell: ({ row: { original: presence } }) => (
      <span className="untrusted block truncate text-muted">{visible(presence.cluster ?? "–")}</span>
    ),
  },
  {
    id: "since",
    header: "Since",
    meta: { className: text },
    cell: ({ row: { original: presence } }) => <RelativeTime iso={presence.since} className="text-muted" />,
  },
  {
    id: "until",
    header: "Until",
    meta: { className: text },
    cell: ({ row: { original: presence } }) => <Until presence={presence} />,
  },
];

const renderCard = (presence: Presence) => (
  <div className="px-4 py-3">
    <p
      data-row-focus
      tabIndex={-1}
      className="untrusted truncate text-sm font-medium outline-none"
      title={workloadName(presence.workload)}
    >
      {workloadName(presence.workload)}
    </p>
    <p className="untrusted mt-1 flex flex-wrap gap-x-3 text-[13px] text-muted">
      <span>{visible([presence.container, presence.cluster].filter(Boolean).join(" · "))}</span>
      <span>
        since <RelativeTime iso={presence.since} />
      </span>
      <span className="text-ink">
        {presence.until && "until "}
        <Until presence={presence} />
      </span>
    </p>
  </div>
);

/** When and where the image ran. */
export function Presences({ imageId, platform }: { imageId: string; platform: string }) {
  const list = usePresences(imageId, platform ? { platform } : {});
  const total = list.page?.total;
  return (
    <section aria-label="Run history">
      <FilterBar
        label="Run history"
        count={total === undefined ? "" : plural(total, "period")}
        filtered={false}
        onClear={() => undefined}
      >
        <p className="text-[13px] text-muted">
          Each uninterrupted period in which a container ran this image.
        </p>
      </FilterBar>
      <ListPanel
        label="Run history"
        list={list}
        columns={columns}
        grid={grid}
        rowHeight={44}
        cardHeight={72}
        renderCard={renderCard}
        empty={
          <StatePanel icon={CalendarX} title="No run history">
            <p>No container has run this image since the operator started to record history.</p>
            <InOthers />
          </StatePanel>
        }
      />
    </section>
  );
}
