import type { ReactNode } from "react";
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
import { useMediaQuery } from "@/lib/use-media-query";
import { Panel } from "./card";
import { changeSince, signed, type Since } from "./since";

const periods = [
  { days: 1, name: "Yesterday" },
  { days: 7, name: "Last week" },
] as const;

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
      {!data && !error && <Skeleton className="mt-3 h-24 max-sm:h-69" />}
    </Panel>
  );
}

const heading = "px-1 py-1 text-right font-normal";

/** What has changed in one period. */
interface Changed {
  name: string;
  since: Since | undefined;
  vulnerabilities: Vulnerabilities;
}

function useChanged(items: TrendDay[], { days, name }: (typeof periods)[number]): Changed {
  const since = changeSince(items, days);
  return {
    name: since && !since.exact ? formatDay(since.day) : name,
    since,
    vulnerabilities: useVulnerabilities(days),
  };
}

function Changes({ items }: { items: TrendDay[] }) {
  const perNamespace = useLimits() !== undefined;
  const narrow = useMediaQuery("(max-width: 639px)");
  const changed = [useChanged(items, periods[0]), useChanged(items, periods[1])];
  const Table = narrow ? NarrowTable : WideTable;
  return (
    <Table
      changed={changed}
      counted={perNamespace ? "Findings per image and namespace" : "Findings per image"}
      hint={perNamespace ? "The findings of an image count once in each namespace" : undefined}
    />
  );
}

interface TableProps {
  changed: Changed[];
  /** What the findings are counted by, and what that means. */
  counted: string;
  hint: string | undefined;
}

const onceHint = "Each vulnerability counts once, whatever has it";

/** A row for each period. */
function WideTable({ changed, counted, hint }: TableProps) {
  return (
    <div tabIndex={0} role="region" aria-label="Changes since, table" className="overflow-x-auto">
      <table className="tabular mt-2 w-full min-w-104 table-fixed text-[13px]">
        <thead className="text-xs text-muted">
          <tr>
            <td className="w-24" />
            <th scope="colgroup" colSpan={urgent.length + 1} className={heading} title={hint}>
              {counted}
            </th>
            <th scope="colgroup" colSpan={2} className={cn(heading, "pl-3")} title={onceHint}>
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
          {changed.map(({ name, since, vulnerabilities }, index) => (
            <tr key={index} className="border-t border-line">
              <th scope="row" className="py-1.5 text-left font-medium" title={since && formatDay(since.day)}>
                {name}
              </th>
              <Differences since={since} />
              <Count of={vulnerabilities} which="opened" className="pl-3" />
              <Count of={vulnerabilities} which="closed" className="pl-1" />
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** A column for each period. */
function NarrowTable({ changed, counted, hint }: TableProps) {
  const row = "border-t border-line";
  const head = "py-1.5 text-left font-normal";
  return (
    <table className="tabular mt-2 w-full table-fixed text-[13px]">
      <thead className="text-xs text-muted">
        <tr>
          <td />
          {changed.map(({ name, since }, index) => (
            <th key={index} scope="col" className={heading} title={since && formatDay(since.day)}>
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        <Heading title={hint}>{counted}</Heading>
        <tr className={row}>
          <th scope="row" className={head}>
            All
          </th>
          {changed.map(({ since }, index) =>
            since ? (
              <Difference key={index} value={since.total} />
            ) : (
              <td
                key={index}
                rowSpan={urgent.length + 1}
                className="py-1.5 pl-2 text-right align-top text-muted"
              >
                No data that old
              </td>
            ),
          )}
        </tr>
        {urgent.map(({ key, name }) => (
          <tr key={key} className={row}>
            <th scope="row" className={head}>
              {name}
            </th>
            {changed.map(({ since }, index) => since && <Difference key={index} value={since.more[key]} />)}
          </tr>
        ))}
      </tbody>
      <tbody>
        <Heading title={onceHint}>Vulnerabilities</Heading>
        {(["opened", "closed"] as const).map((which) => (
          <tr key={which} className={row}>
            <th scope="row" className={head}>
              {which === "opened" ? "Opened" : "Closed"}
            </th>
            {changed.map(({ vulnerabilities }, index) => (
              <Count key={index} of={vulnerabilities} which={which} className="px-1" />
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Heading({ title, children }: { title: string | undefined; children: ReactNode }) {
  return (
    <tr className="border-t border-line">
      <th
        scope="rowgroup"
        colSpan={periods.length + 1}
        title={title}
        className="pt-2.5 pb-1 text-left text-xs font-normal text-muted"
      >
        {children}
      </th>
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

/** How many vulnerabilities were opened and closed; undefined as long as that is not known. */
interface Vulnerabilities {
  opened?: SeverityCounts;
  closed?: SeverityCounts;
  failed: boolean;
}

function useVulnerabilities(days: number): Vulnerabilities {
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
  return { ...(data && knew(data) && { opened: data.opened, closed: data.closed }), failed: error !== null };
}

function Count({
  of,
  which,
  className,
}: {
  of: Vulnerabilities;
  which: "opened" | "closed";
  className: string;
}) {
  const { [which]: counts, failed } = of;
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
