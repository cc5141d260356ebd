import { LoadError } from "@/components/ui/load-error";
import { Skeleton } from "@/components/ui/skeleton";
import { useLimits } from "@/features/session/namespaces";
import { useGetOverviewChanges } from "@/gen/images/images";
import type { OverviewChanges, SeverityCounts, TrendDay } from "@/gen/model";
import { useGetTrends } from "@/gen/workloads/workloads";
import { cn } from "@/lib/cn";
import { formatCompact, formatDay } from "@/lib/format";
import { costlyKey } from "@/lib/lists";
import { severities, totalFindings } from "@/lib/severity";
import { Panel } from "./card";
import { changeSince, signed, type Since } from "./since";

const periods = [
  { days: 1, name: "Yesterday" },
  { days: 7, name: "Last week" },
];

const urgent = severities.slice(0, 3);

/** The operator reads all findings for each of these, so that live data does not ask for them again. */
const changesInterval = 5 * 60_000;

/** What got worse or better since yesterday and since last week. */
export function ChangesCard() {
  const { data, error, refetch } = useGetTrends();
  return (
    <Panel
      title="Changes since"
      aside={<span className="text-xs text-muted">By new databases and by rollouts</span>}
    >
      {error && <LoadError error={error} onRetry={() => void refetch()} />}
      {data && <Changes items={data.items} />}
      {!data && !error && <Skeleton className="mt-3 h-24" />}
    </Panel>
  );
}

const heading = "px-1 py-1 text-right font-normal";

function Changes({ items }: { items: TrendDay[] }) {
  const perNamespace = useLimits() !== undefined;
  return (
    <div tabIndex={0} role="region" aria-label="Changes since, table" className="overflow-x-auto">
      <table className="tabular mt-2 w-full min-w-104 table-fixed text-[13px]">
        <thead className="text-xs text-muted">
          <tr>
            <td className="w-24" />
            <th
              scope="colgroup"
              colSpan={urgent.length + 1}
              className={heading}
              title={perNamespace ? "The findings of an image count once in each namespace" : undefined}
            >
              {perNamespace ? "Findings per image and namespace" : "Findings per image"}
            </th>
            <th
              scope="colgroup"
              colSpan={2}
              className={cn(heading, "pl-3")}
              title="Each vulnerability counts once, whatever has it"
            >
              Vulnerabilities
            </th>
          </tr>
          <tr>
            <th scope="col" className="py-1 text-left font-normal">
              <span className="sr-only">Period</span>
            </th>
            <th scope="col" className={heading}>
              All
            </th>
            {urgent.map(({ key, name }) => (
              <th key={key} scope="col" className={heading}>
                {name}
              </th>
            ))}
            <th scope="col" className="py-1 pl-3 text-right font-normal">
              Opened
            </th>
            <th scope="col" className="py-1 pl-1 text-right font-normal">
              Closed
            </th>
          </tr>
        </thead>
        <tbody>
          {periods.map(({ days, name }) => (
            <Period key={days} name={name} days={days} since={changeSince(items, days)} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Period({ name, days, since }: { name: string; days: number; since: Since | undefined }) {
  return (
    <tr className="border-t border-line">
      <th scope="row" className="py-1.5 text-left font-medium" title={since && formatDay(since.day)}>
        {since && !since.exact ? formatDay(since.day) : name}
      </th>
      <Differences since={since} />
      <Vulnerabilities days={days} />
    </tr>
  );
}

function Differences({ since }: { since: Since | undefined }) {
  if (!since) {
    return (
      <td colSpan={urgent.length + 1} className="py-1.5 text-right text-muted">
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
    </>
  );
}

const knew = ({ since, knownSince }: OverviewChanges) =>
  knownSince !== undefined && Date.parse(knownSince) <= Date.parse(since);

/** How many vulnerabilities were opened and closed in so many days. */
function Vulnerabilities({ days }: { days: number }) {
  const { data, error } = useGetOverviewChanges(
    { since: `${days}d` },
    {
      query: {
        queryKey: [...costlyKey, "overview changes", days],
        staleTime: changesInterval,
        refetchInterval: changesInterval,
      },
    },
  );
  const known = data && knew(data);
  return (
    <>
      <Count counts={known ? data.opened : undefined} failed={error !== null} className="pl-3" />
      <Count counts={known ? data.closed : undefined} failed={error !== null} className="pl-1" />
    </>
  );
}

function Count({
  counts,
  failed,
  className,
}: {
  counts: SeverityCounts | undefined;
  failed: boolean;
  className: string;
}) {
  if (!counts) {
    return (
      <td
        // Another element than that with a number: a text that is replaced by a wider one would move.
        key="unknown"
        className={cn("py-1.5 text-right text-muted", className)}
        title={failed ? "Could not be counted" : undefined}
      >
        {failed ? "?" : "–"}
      </td>
    );
  }
  const worst = urgent
    .filter(({ key }) => counts[key] > 0)
    .map(({ key, name }) => `${formatCompact(counts[key])} ${name.toLowerCase()}`)
    .join(", ");
  return (
    <td className={cn("py-1.5 text-right", className)} title={worst || undefined}>
      {formatCompact(totalFindings(counts))}
    </td>
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
