import { useQuery } from "@tanstack/react-query";
import { CalendarSearch } from "lucide-react";
import { Link } from "react-router";
import { NamespaceFilter, OwnerFilter } from "@/components/filter-fields";
import { ImageName } from "@/components/image-name";
import { FilterBar } from "@/components/ui/filter-bar";
import { LoadError } from "@/components/ui/load-error";
import { Skeleton } from "@/components/ui/skeleton";
import { ErrorPanel, StatePanel } from "@/components/ui/state";
import { Workloads } from "@/components/workloads";
import { Empty } from "@/features/session/empty";
import { listAffected } from "@/gen/vulnerabilities/vulnerabilities";
import { useNow } from "@/lib/clock";
import { cn } from "@/lib/cn";
import { formatNumber, plural } from "@/lib/format";
import { imagePath } from "@/lib/image-id";
import { sumsKey } from "@/lib/lists";
import { orAbsent } from "@/lib/address";
import { visible } from "@/lib/text";
import { affectedFilters, type AffectedFilters } from "./filters";
import { SpanBar } from "./span-bar";
import { dayText, spanText } from "./span-text";
import { timeline, type TimelineRow } from "./timeline";
import { TimelineBy } from "./timeline-by";

/** How many findings are asked for, open and closed ones each, and how many images are shown of them. */
const asked = 500;
const maxRows = 100;

function unknownText({ had, unknown }: TimelineRow) {
  const text = had.length > 0 ? "Some findings: not known since when" : "Not known since when";
  return unknown?.to === undefined ? text : `${text}, until ${dayText(unknown.to)}`;
}

function exposureText({ exposed, unknown }: TimelineRow) {
  if (exposed.length > 0) return `ran ${exposed.map(spanText).join(", ")}`;
  return unknown ? "not known whether it ran with it" : "never ran with it";
}

/** Open and closed findings of a vulnerability, also those that decisions suppress. */
const useTimeline = (id: string, { namespace, owner }: AffectedFilters) =>
  useQuery({
    queryKey: [...sumsKey, "timeline", id, namespace, owner],
    queryFn: ({ signal }) => {
      const params = { namespace: orAbsent(namespace), owner: orAbsent(owner), pageSize: asked };
      return Promise.all([
        listAffected(id, { ...params, suppressed: true }, { signal }),
        listAffected(id, { ...params, closed: true }, { signal }),
      ]);
    },
  });

/** Which images had a vulnerability from when to when. */
export function Timeline({
  id,
  filters,
  update,
}: {
  id: string;
  filters: AffectedFilters;
  update: (change: Partial<AffectedFilters>) => void;
}) {
  const { data, error, refetch, isPending } = useTimeline(id, filters);
  const { rows, total } = timeline(data ?? [], maxRows);
  const clear = () => update(affectedFilters.none);
  const retry = () => void refetch();
  return (
    <>
      <FilterBar
        label="Timeline"
        count={
          !data ? "" : total === undefined ? `first ${plural(rows.length, "image")}` : plural(total, "image")
        }
        filtered={affectedFilters.isFiltered(filters)}
        onClear={clear}
      >
        <TimelineBy filters={filters} update={update} />
        <NamespaceFilter value={filters.namespace} onChange={(namespace) => update({ namespace })} />
        <OwnerFilter value={filters.owner} onChange={(owner) => update({ owner })} />
      </FilterBar>
      {error && data && <LoadError error={error} onRetry={retry} />}
      <div aria-busy={isPending} className="mt-3 rounded-xl border border-line bg-surface shadow-card">
        {!data ? (
          error ? (
            <ErrorPanel error={error} onRetry={retry} />
          ) : (
            <div role="status" className="space-y-4 p-4">
              <span className="sr-only">Loading: Timeline</span>
              {Array.from({ length: 5 }, (_, index) => (
                <Skeleton key={index} className="h-6" />
              ))}
            </div>
          )
        ) : rows.length > 0 ? (
          <Rows rows={rows} total={total} />
        ) : total === undefined ? (
          <StatePanel icon={CalendarSearch} title="Too many findings">
            <p>The first image has more findings than the timeline shows. The other tabs list all.</p>
          </StatePanel>
        ) : (
          <Empty
            filtered={affectedFilters.isFiltered(filters)}
            namespace={filters.namespace}
            noMatch="Nothing matches"
            nothing="No image in your namespaces has or had it"
            onClear={clear}
          >
            <StatePanel icon={CalendarSearch} title="No history">
              <p>No image has or had this vulnerability in the recorded history.</p>
            </StatePanel>
          </Empty>
        )}
      </div>
    </>
  );
}

const columns = "lg:grid-cols-[minmax(12rem,1fr)_minmax(16rem,2fr)_13rem_minmax(9rem,1fr)]";

/** The total is undefined if it is not known. */
function Rows({ rows, total }: { rows: TimelineRow[]; total: number | undefined }) {
  const now = useNow();
  const start = Math.min(
    now,
    ...rows.flatMap(({ had, exposed }) => [...had, ...exposed].map(({ from }) => from)),
  );
  return (
    <>
      <div className="flex flex-wrap items-center gap-x-5 gap-y-1 border-b border-line px-4 py-2.5 text-[13px] text-muted">
        <Key className="bg-warn/40" text="had it" />
        <Key className="bg-danger" text="containers ran it meanwhile" />
        <span className="tabular ml-auto">
          {dayText(start)} to {dayText(now)}
        </span>
      </div>
      <ol aria-label="Timeline" className="divide-y divide-line">
        {rows.map((row) => (
          <li
            key={`${row.imageId} ${row.platform}`}
            className={cn("grid items-center gap-x-5 gap-y-1.5 px-4 py-2.5 text-[13px]", columns)}
          >
            <div className="min-w-0">
              <Link
                to={imagePath(row.imageId, row.platform)}
                className="block truncate text-sm font-medium underline-offset-2 hover:underline"
              >
                <ImageName imageId={row.imageId} />
              </Link>
              <span className="untrusted block truncate text-xs text-muted">
                {visible(row.packages.slice(0, 3).join(", "))}
                {row.packages.length > 3 && ` and ${formatNumber(row.packages.length - 3)} more`}
              </span>
            </div>
            <SpanBar
              layers={[
                { spans: row.had, className: "inset-y-0.5 bg-warn/40" },
                { spans: row.exposed, className: "inset-y-1.5 bg-danger" },
              ]}
              start={start}
              now={now}
            />
            <div className="tabular min-w-0">
              {row.had.map((span) => (
                <span key={span.from} className="block">
                  {spanText(span)}
                </span>
              ))}
              {row.unknown && <span className="block">{unknownText(row)}</span>}
              <span className="block text-xs text-muted">
                {exposureText(row)}
                {row.suppressed && " · suppressed"}
              </span>
            </div>
            <div className="min-w-0">
              <span className="sr-only">Runs now in </span>
              <Workloads workloads={row.workloads} count={row.workloadCount} />
            </div>
          </li>
        ))}
      </ol>
      {total !== rows.length && (
        <p className="tabular border-t border-line px-4 py-2.5 text-[13px] text-muted">
          {total === undefined
            ? `Shows only the first ${plural(rows.length, "image")} by image ID, because there are too many findings: filter by namespace. `
            : `Shows only the first ${formatNumber(rows.length)} of ${plural(total, "image")}. `}
          The other tabs list all.
        </p>
      )}
    </>
  );
}

const Key = ({ className, text }: { className: string; text: string }) => (
  <span className="inline-flex items-center gap-2">
    <span aria-hidden className={cn("h-2.5 w-5 rounded-sm", className)} />
    {text}
  </span>
);
