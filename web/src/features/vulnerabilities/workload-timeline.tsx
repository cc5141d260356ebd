import { CalendarSearch } from "lucide-react";
import { useMemo } from "react";
import { Link } from "react-router";
import { ExportMenu } from "@/components/export-menu";
import { NamespaceFilter, OwnerFilter } from "@/components/filter-fields";
import { FirstImage } from "@/components/image-links";
import { FilterBar } from "@/components/ui/filter-bar";
import { ListPanel } from "@/components/ui/list-panel";
import { StatePanel } from "@/components/ui/state";
import { useList } from "@/components/ui/use-list";
import type { Column } from "@/components/ui/virtual-table";
import { Empty } from "@/features/session/empty";
import { ExposureEnd, type ExposurePage, type WorkloadExposures } from "@/gen/model";
import { getListExposuresUrl, listExposures } from "@/gen/vulnerabilities/vulnerabilities";
import { orAbsent } from "@/lib/address";
import { useNow } from "@/lib/clock";
import { plural } from "@/lib/format";
import { fileStem } from "@/lib/image-id";
import { sumsKey } from "@/lib/lists";
import { imagesOfPath, workloadName } from "@/lib/paths";
import { visible } from "@/lib/text";
import { affectedFilters, type AffectedFilters } from "./filters";
import { SpanBar } from "./span-bar";
import { dayText, spanText } from "./span-text";
import { exposureSpans } from "./timeline";
import { TimelineBy } from "./timeline-by";

const rowKey = ({ workload }: WorkloadExposures) =>
  JSON.stringify([workload.namespace, workload.kind, workload.name]);

const ends: Record<ExposureEnd, string> = {
  [ExposureEnd.Database]: "then the database closed it",
  [ExposureEnd.Image]: "then it ran other images",
  [ExposureEnd.Workload]: "then it stopped running",
};

const Name = ({ row: { workload } }: { row: WorkloadExposures }) => (
  <>
    <Link
      data-row-focus
      to={imagesOfPath(workload)}
      title={workloadName(workload)}
      className="untrusted block truncate text-sm font-medium underline-offset-2 hover:underline"
    >
      {visible(workload.name)}
    </Link>
    <span className="untrusted block truncate text-xs text-muted">
      {visible([workload.namespace, workload.kind, workload.owner].filter(Boolean).join(" · "))}
    </span>
  </>
);

const Bars = ({ row, start, now }: { row: WorkloadExposures; start: number; now: number }) => (
  <SpanBar
    layers={[{ spans: exposureSpans(row), className: "inset-y-1 bg-danger" }]}
    start={start}
    now={now}
  />
);

function When({ row }: { row: WorkloadExposures }) {
  const last = exposureSpans(row).at(-1);
  const end = row.exposures.at(-1)?.end;
  const notes = [
    end && ends[end],
    row.exposureCount > 1 &&
      `the last of ${plural(row.exposureCount, "time")} since ${dayText(Date.parse(row.since))}`,
    row.suppressed && "suppressed",
  ].filter(Boolean);
  return (
    <span className="block min-w-0">
      <span className="tabular block truncate text-[13px]">{last && spanText(last)}</span>
      <span className="tabular block truncate text-xs text-muted" title={notes.join(" · ")}>
        {notes.join(" · ")}
      </span>
    </span>
  );
}

function Packages({ row }: { row: WorkloadExposures }) {
  const [first = "–"] = row.packages;
  return (
    <span
      className="untrusted block truncate text-xs text-muted"
      title={row.packages.map(visible).join("\n")}
    >
      {visible(first)}
      {row.packageCount > 1 && ` +${row.packageCount - 1}`}
    </span>
  );
}

const columns = (start: number, now: number): Column<WorkloadExposures>[] => [
  {
    id: "workload",
    header: "Workload",
    meta: { width: [10, "1fr"] },
    cell: ({ row: { original: row } }) => <Name row={row} />,
  },
  {
    id: "bars",
    header: `${dayText(start)} to ${dayText(now)}`,
    meta: { width: [14, "2fr"] },
    cell: ({ row: { original: row } }) => <Bars row={row} start={start} now={now} />,
  },
  {
    id: "when",
    header: "Ran it",
    meta: { width: [15, 19] },
    cell: ({ row: { original: row } }) => <When row={row} />,
  },
  {
    id: "images",
    header: "Images",
    meta: { width: [8, 14], className: "text-[13px] [[role=columnheader]&]:text-xs" },
    cell: ({ row: { original: row } }) => (
      <span className="block min-w-0">
        <FirstImage images={row.images} count={row.imageCount} />
        <Packages row={row} />
      </span>
    ),
  },
];

/** A workload on a narrow screen. */
const Card = ({ row, start, now }: { row: WorkloadExposures; start: number; now: number }) => (
  <div className="relative px-4 py-3">
    <Name row={row} />
    <div className="mt-1.5">
      <Bars row={row} start={start} now={now} />
    </div>
    <div className="mt-1.5 min-h-9">
      <When row={row} />
    </div>
  </div>
);

/** Which workloads ran images with a vulnerability from when to when. */
export function WorkloadTimeline({
  id,
  filters,
  update,
}: {
  id: string;
  filters: AffectedFilters;
  update: (change: Partial<AffectedFilters>) => void;
}) {
  const request = { namespace: orAbsent(filters.namespace), owner: orAbsent(filters.owner) };
  const list = useList<WorkloadExposures, ExposurePage>({
    queryKey: [...sumsKey, "exposures", id, request],
    load: (page, init) => listExposures(id, { ...request, ...page }, init),
    rowKey,
  });
  const now = useNow();
  // The one that began first is the first row.
  const start = Math.min(now, Date.parse(list.rows[0]?.since ?? "") || now);
  const tableColumns = useMemo(() => columns(start, now), [start, now]);
  const clear = () => update(affectedFilters.none);
  const total = list.page?.total;
  return (
    <>
      <FilterBar
        label="Timeline"
        count={total === undefined ? "" : plural(total, "workload")}
        filtered={affectedFilters.isFiltered(filters)}
        onClear={clear}
        actions={
          <ExportMenu
            formats={["csv"]}
            name={`${fileStem(id)}-exposures`}
            url={(format) => getListExposuresUrl(id, { ...request, format })}
          />
        }
      >
        <TimelineBy filters={filters} update={update} />
        <NamespaceFilter value={filters.namespace} onChange={(namespace) => update({ namespace })} />
        <OwnerFilter value={filters.owner} onChange={(owner) => update({ owner })} />
      </FilterBar>
      <ListPanel
        label="Timeline"
        list={list}
        columns={tableColumns}
        rowHeight={56}
        cardHeight={134}
        renderCard={(row) => <Card row={row} start={start} now={now} />}
        empty={
          <Empty
            filtered={affectedFilters.isFiltered(filters)}
            namespace={filters.namespace}
            noMatch="Nothing matches"
            nothing="No workload in your namespaces ran it"
            onClear={clear}
          >
            <StatePanel icon={CalendarSearch} title="No workloads">
              <p>No workload ran an image with this vulnerability in the recorded history.</p>
            </StatePanel>
          </Empty>
        }
      />
    </>
  );
}
