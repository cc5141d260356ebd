import { Skeleton } from "@/components/ui/skeleton";
import type { TrendDay, Trends } from "@/gen/model";
import { useGetTrends } from "@/gen/workloads/workloads";
import { cn } from "@/lib/cn";
import { formatDay, formatNumber, plural } from "@/lib/format";
import { describeCounts, severities, severityFill, totalFindings } from "@/lib/severity";
import { box } from "./card";
import { signed } from "./since";
import { layoutTrend, sumChanges, type Bar } from "./trend-layout";

/** Findings of what ran, day by day. */
export function Trend() {
  const { data, error } = useGetTrends();
  if (!data) return error ? null : <Skeleton className={cn(height, "mb-5 rounded-xl")} />;
  return data.items.length < 2 ? <NoTrend /> : <TrendChart trends={data} />;
}

/** How high the chart is at least. */
const height = "min-h-60";

const NoTrend = () => (
  <section aria-labelledby="trend" className={cn(box, height, "mb-5 flex flex-col text-[13px]")}>
    <h2 id="trend" className="font-medium">
      Findings by day
    </h2>
    <p className="m-auto text-muted">One day is no trend yet. The chart begins tomorrow.</p>
  </section>
);

function TrendChart({ trends }: { trends: Trends }) {
  const { bars, most } = layoutTrend(trends);
  const { opened, closed } = sumChanges(trends.items);
  const first = trends.items[0];
  const last = trends.items.at(-1);
  if (!first || !last) return null;
  const difference = totalFindings(last.counts) - totalFindings(first.counts);
  return (
    <section aria-labelledby="trend" className={cn(box, height, "mb-5")}>
      <div className="flex flex-wrap items-baseline gap-x-4 gap-y-1 text-[13px]">
        <h2 id="trend" className="font-medium">
          Findings by day
        </h2>
        <p className="tabular text-muted">
          <span className="font-medium text-ink">{signed(difference, formatNumber)}</span> since{" "}
          {formatDay(first.day)}
        </p>
        <p className="tabular text-muted sm:ml-auto">
          New databases opened {formatNumber(opened)} and closed {formatNumber(closed)}
        </p>
      </div>
      <div className="mt-3 flex gap-2">
        <svg
          role="img"
          aria-label={`Findings by day: ${describeCounts(first.counts)} on ${formatDay(first.day)}; ${describeCounts(last.counts)} on ${formatDay(last.day)}`}
          viewBox="0 -20 1000 120"
          preserveAspectRatio="none"
          className="h-24 min-w-0 flex-1"
        >
          {bars.map((bar) => (
            <DayBar key={bar.item.day} bar={bar} />
          ))}
        </svg>
        <div
          aria-hidden
          className="tabular mt-4 flex w-10 shrink-0 flex-col justify-between text-[11px] leading-none text-muted"
        >
          <span>{formatNumber(most)}</span>
          <span>0</span>
        </div>
      </div>
      <div className="mt-1.5 mr-12 flex justify-between text-[11px] text-muted" aria-hidden>
        <span>{formatDay(trends.from)}</span>
        <span>{formatDay(trends.to)}</span>
      </div>
      <p aria-hidden className="mt-1 flex flex-wrap gap-x-4 text-[11px] text-muted">
        <span className="flex items-center gap-1.5">
          <span className="size-2 bg-accent" /> New database
        </span>
        <span className="flex items-center gap-1.5">
          <span className="size-2 bg-ink" /> Rollouts
        </span>
      </p>
      <details className="mt-1 text-[13px]">
        <summary className="w-fit rounded text-muted hover:text-ink">View as table</summary>
        <TrendTable items={trends.items} />
      </details>
    </section>
  );
}

function DayBar({ bar: { item, x, width, parts } }: { bar: Bar }) {
  return (
    <g className="hover:opacity-75">
      <title>{describeDay(item)}</title>
      {/* The whole column can be pointed at. */}
      <rect x={1000 * x} y={-20} width={1000 * width} height={120} fill="transparent" />
      {item.databases > 0 && <Mark x={x} width={width} y={-19} className="fill-accent" />}
      {item.rollouts > 0 && <Mark x={x} width={width} y={-10} className="fill-ink" />}
      {parts.map(({ key, y, height }) => (
        <rect
          key={key}
          x={1000 * (x + width * 0.1)}
          y={100 * y}
          width={1000 * width * 0.8}
          height={100 * height}
          className={severityFill[key]}
        />
      ))}
    </g>
  );
}

/** A mark above the bar of a day: why findings may have changed. */
function Mark({ x, width, y, className }: { x: number; width: number; y: number; className: string }) {
  return (
    <rect x={1000 * (x + width * 0.3)} y={y} width={1000 * width * 0.4} height={7} className={className} />
  );
}

function describeDay({ day, counts, images, databases, rollouts }: TrendDay): string {
  const reasons = [
    databases > 0 && plural(databases, "new database"),
    rollouts > 0 && plural(rollouts, "rollout"),
  ].filter((reason) => reason !== false);
  return [`${formatDay(day)}: ${describeCounts(counts)} (images: ${formatNumber(images)})`, ...reasons].join(
    "; ",
  );
}

function TrendTable({ items }: { items: TrendDay[] }) {
  const cell = "px-2 py-1 text-right";
  return (
    <div
      tabIndex={0}
      role="region"
      aria-label="Findings by day, table"
      className="mt-2 max-h-64 overflow-auto rounded-md border border-line"
    >
      <table className="tabular w-full text-xs">
        <thead className="sticky top-0 bg-surface text-muted">
          <tr>
            <th scope="col" className={cn(cell, "text-left font-medium")}>
              Day
            </th>
            <th scope="col" className={cn(cell, "font-medium")}>
              Images
            </th>
            {severities.map(({ key, name }) => (
              <th key={key} scope="col" className={cn(cell, "font-medium")}>
                {name}
              </th>
            ))}
            <th scope="col" className={cn(cell, "font-medium")}>
              New databases
            </th>
            <th scope="col" className={cn(cell, "font-medium")}>
              Rollouts
            </th>
          </tr>
        </thead>
        <tbody>
          {[...items].reverse().map(({ day, images, counts, databases, rollouts }) => (
            <tr key={day} className="border-t border-line">
              <th scope="row" className={cn(cell, "text-left font-normal whitespace-nowrap")}>
                {formatDay(day)}
              </th>
              <td className={cell}>{formatNumber(images)}</td>
              {severities.map(({ key }) => (
                <td key={key} className={cell}>
                  {formatNumber(counts[key])}
                </td>
              ))}
              <td className={cell}>{formatNumber(databases)}</td>
              <td className={cell}>{formatNumber(rollouts)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
