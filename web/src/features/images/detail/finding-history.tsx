import { useQuery } from "@tanstack/react-query";
import { CalendarSearch } from "lucide-react";
import { useMemo } from "react";
import { Link } from "react-router";
import { SeverityFilter } from "@/components/filter-fields";
import { KevMark, SeverityBadge } from "@/components/severity";
import { FilterBar } from "@/components/ui/filter-bar";
import { ListPanel } from "@/components/ui/list-panel";
import { SearchInput } from "@/components/ui/search-input";
import { NothingFound, StatePanel } from "@/components/ui/state";
import type { List } from "@/components/ui/use-list";
import type { Column } from "@/components/ui/virtual-table";
import { SuppressedMark } from "@/features/exceptions/decisions";
import { SpanBar } from "@/features/vulnerabilities/span-bar";
import { dayText, spanText } from "@/features/vulnerabilities/span-text";
import { listFindings } from "@/gen/images/images";
import type { ListFindingsParams } from "@/gen/model";
import { useAddress } from "@/lib/address";
import { useNow } from "@/lib/clock";
import { formatNumber, plural } from "@/lib/format";
import { vulnerabilityPath } from "@/lib/paths";
import { visible } from "@/lib/text";
import { findingsKey } from "../queries";
import { historyFilters, toHistoryRequest } from "./filters";
import { findingKey } from "./finding";
import { history, type HistoryRow } from "./history";

/** How many findings are asked for, open and closed ones each. */
const asked = 500;

const rowKey = ({ finding }: HistoryRow) => findingKey({ ...finding, fixedAt: undefined });

/** Open and closed findings, also those that decisions suppress; those of the previous filters stay until there are others. */
const useHistory = (imageId: string, params: ListFindingsParams) =>
  useQuery({
    queryKey: [...findingsKey(imageId), "history", params],
    queryFn: ({ signal }) =>
      Promise.all([
        listFindings(imageId, { ...params, suppressed: true, pageSize: asked }, { signal }),
        listFindings(imageId, { ...params, closed: true, pageSize: asked }, { signal }),
      ]),
    placeholderData: (previous, before) => (before?.queryKey[1] === imageId ? previous : undefined),
  });

function whenText({ had, until, open }: HistoryRow): string {
  if (had.length > 0) return had.map(spanText).join(", ");
  if (until !== undefined) return `until ${dayText(until)}`;
  return open ? "not known since when" : "not known when";
}

const Name = ({ row: { finding } }: { row: HistoryRow }) => (
  <span className="flex min-w-0 items-center gap-2 text-sm">
    <Link
      to={vulnerabilityPath(finding.vulnerability.id)}
      data-row-focus
      className="untrusted relative min-w-0 truncate font-medium text-accent underline-offset-2 hover:underline"
    >
      {visible(finding.vulnerability.id)}
    </Link>
    {(finding.vulnerability.kev?.length ?? 0) > 0 && <KevMark />}
    <SuppressedMark of={finding} />
  </span>
);

const packageText = ({ finding: { package: pkg } }: HistoryRow) => visible(`${pkg.name} ${pkg.version}`);

const State = ({ row }: { row: HistoryRow }) =>
  row.open ? <span className="font-medium">Open</span> : <span className="text-muted">Closed</span>;

const Bar = ({ row, start, now }: { row: HistoryRow; start: number; now: number }) => (
  <SpanBar layers={[{ spans: row.had, className: "inset-y-1 bg-warn/60" }]} start={start} now={now} />
);

const columns = (start: number, now: number): Column<HistoryRow>[] => [
  {
    id: "vulnerability",
    header: "Vulnerability",
    meta: { width: [12, 15] },
    cell: ({ row: { original: row } }) => <Name row={row} />,
  },
  {
    id: "severity",
    header: "Severity",
    meta: { width: [6, 6] },
    cell: ({ row: { original: row } }) => <SeverityBadge severity={row.finding.vulnerability.severity} />,
  },
  {
    id: "package",
    header: "Package",
    meta: { width: [9, 16], className: "text-[13px] [[role=columnheader]&]:text-xs" },
    cell: ({ row: { original: row } }) => (
      <span className="untrusted block truncate" title={packageText(row)}>
        {packageText(row)}
      </span>
    ),
  },
  {
    id: "state",
    header: "State",
    meta: { width: [4, 5], className: "text-[13px] [[role=columnheader]&]:text-xs" },
    cell: ({ row: { original: row } }) => <State row={row} />,
  },
  {
    id: "bar",
    header: () => (
      <span className="tabular">
        {dayText(start)} to {dayText(now)}
      </span>
    ),
    meta: { width: [12, "1fr"] },
    cell: ({ row: { original: row } }) => <Bar row={row} start={start} now={now} />,
  },
  {
    id: "when",
    header: "Had it",
    meta: { width: [12, 16], className: "text-[13px] [[role=columnheader]&]:text-xs" },
    cell: ({ row: { original: row } }) => (
      <span className="tabular block truncate" title={whenText(row)}>
        {whenText(row)}
      </span>
    ),
  },
];

const Card = ({ row, start, now }: { row: HistoryRow; start: number; now: number }) => (
  <div className="px-4 py-3">
    <div className="flex items-center justify-between gap-2">
      <Name row={row} />
      <SeverityBadge severity={row.finding.vulnerability.severity} />
    </div>
    <p className="untrusted mt-1 truncate text-[13px] text-muted">{packageText(row)}</p>
    <div className="mt-2">
      <Bar row={row} start={start} now={now} />
    </div>
    <p className="tabular mt-1.5 truncate text-[13px]">
      <State row={row} />
      {`, ${whenText(row)}`}
    </p>
  </div>
);

/** Which findings the image had from when to when, what changed last first. */
export function FindingHistory({ imageId }: { imageId: string }) {
  const { filters, update } = useAddress(historyFilters);
  const query = useHistory(imageId, toHistoryRequest(filters));
  const { data, error } = query;
  const now = useNow();
  const { rows, complete } = useMemo(() => history(data ?? []), [data]);
  const start = Math.min(now, ...rows.flatMap(({ had }) => had.slice(0, 1).map(({ from }) => from)));
  const tableColumns = useMemo(() => columns(start, now), [start, now]);
  const list: List<HistoryRow> = {
    rows,
    rowKey,
    page: data && { total: rows.length },
    error,
    busy: query.isPending || query.isPlaceholderData,
    stale: query.isPlaceholderData,
    hasMore: false,
    loadMore: () => undefined,
    reload: () => void query.refetch(),
  };
  const filtered = historyFilters.isFiltered(filters);
  const clear = () => update(historyFilters.none);
  return (
    <section aria-label="Finding history">
      <FilterBar
        label="Finding history"
        count={data ? plural(rows.length, "finding") : ""}
        filtered={filtered}
        onClear={clear}
      >
        <SearchInput
          label="Search the history"
          placeholder="Vulnerability or package"
          value={filters.text}
          maxLength={256}
          onChange={(text) => update({ text })}
          className="w-full sm:w-72"
        />
        <SeverityFilter value={filters.severity} onChange={(severity) => update({ severity })} />
      </FilterBar>
      <h2 className="sr-only">Finding history</h2>
      <ListPanel
        label="Finding history"
        list={list}
        columns={tableColumns}
        rowHeight={44}
        cardHeight={134}
        renderCard={(row) => <Card row={row} start={start} now={now} />}
        empty={
          filtered ? (
            <NothingFound title="No finding matches" onClear={clear} />
          ) : (
            <StatePanel icon={CalendarSearch} title="No history">
              <p>The image has and had no findings in the recorded history.</p>
            </StatePanel>
          )
        }
      />
      {data && !complete && (
        <p className="mt-3 text-center text-[13px] text-muted">
          {`These are the findings with the highest risk, up to ${formatNumber(asked)} open and ${formatNumber(asked)} closed ones. Search, or select a severity, to see others.`}
        </p>
      )}
    </section>
  );
}
