import { LoadError } from "@/components/ui/load-error";
import { Skeleton } from "@/components/ui/skeleton";
import type { TrendDay } from "@/gen/model";
import { useGetTrends } from "@/gen/workloads/workloads";
import { cn } from "@/lib/cn";
import { formatCompact, formatDay } from "@/lib/format";
import { severities } from "@/lib/severity";
import { Panel } from "./card";
import { changeSince, signed, type Since } from "./since";

const periods = [
  { days: 1, name: "Yesterday" },
  { days: 7, name: "Last week" },
];

const urgent = severities.slice(0, 3);

/** What got worse or better since yesterday and since last week. */
export function ChangesCard() {
  const { data, error, refetch } = useGetTrends();
  return (
    <Panel
      title="Findings since"
      aside={<span className="text-xs text-muted">Opened, closed: by new databases</span>}
    >
      {error && <LoadError error={error} onRetry={() => void refetch()} />}
      {data && <Changes items={data.items} />}
      {!data && !error && <Skeleton className="mt-3 h-24" />}
    </Panel>
  );
}

function Changes({ items }: { items: TrendDay[] }) {
  return (
    <div tabIndex={0} role="region" aria-label="Findings since, table" className="overflow-x-auto">
      <table className="tabular mt-2 w-full text-[13px]">
        <thead className="text-xs text-muted">
          <tr>
            <th scope="col" className="py-1 text-left font-normal">
              <span className="sr-only">Period</span>
            </th>
            <th scope="col" className="px-1 py-1 text-right font-normal">
              All
            </th>
            {urgent.map(({ key, name }) => (
              <th key={key} scope="col" className="px-1 py-1 text-right font-normal">
                {name}
              </th>
            ))}
            <th scope="col" className="py-1 pl-1 text-right font-normal">
              Opened
            </th>
            <th scope="col" className="py-1 pl-1 text-right font-normal">
              Closed
            </th>
          </tr>
        </thead>
        <tbody>
          {periods.map(({ days, name }) => (
            <Period key={days} name={name} since={changeSince(items, days)} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Period({ name, since }: { name: string; since: Since | undefined }) {
  return (
    <tr className="border-t border-line">
      <th scope="row" className="py-1.5 text-left font-medium" title={since && formatDay(since.day)}>
        {since && !since.exact ? formatDay(since.day) : name}
      </th>
      <Cells since={since} />
    </tr>
  );
}

function Cells({ since }: { since: Since | undefined }) {
  if (!since) {
    return (
      <td colSpan={urgent.length + 3} className="py-1.5 text-right text-muted">
        No data that old
      </td>
    );
  }
  return (
    <>
      <Difference value={since.total} />
      {urgent.map(({ key }) => (
        <Difference key={key} value={since.more[key]} />
      ))}
      <td className="py-1.5 pl-1 text-right">{formatCompact(since.opened)}</td>
      <td className="py-1.5 pl-1 text-right">{formatCompact(since.closed)}</td>
    </>
  );
}

function Difference({ value }: { value: number }) {
  return (
    <td
      className={cn(
        "px-1 py-1.5 text-right",
        value > 0 && "font-medium text-danger",
        value < 0 && "text-ok",
        value === 0 && "text-muted",
      )}
    >
      {signed(value, formatCompact)}
    </td>
  );
}
