import { RowToggle } from "@/components/ui/open-rows";
import { RelativeTime } from "@/components/ui/relative-time";
import type { Column } from "@/components/ui/virtual-table";
import { justificationOf, objectOf, statusOf } from "@/features/exceptions/decision";
import type { DecisionRecord } from "@/gen/model";
import { cn } from "@/lib/cn";
import { formatDateTime, formatNumber } from "@/lib/format";
import { visible } from "@/lib/text";

export const grid =
  "grid-cols-[1.5rem_8rem_minmax(9rem,1fr)_minmax(9rem,1.2fr)_5rem_7rem_7rem] xl:grid-cols-[1.5rem_9rem_minmax(10rem,1fr)_minmax(12rem,1.4fr)_minmax(8rem,12rem)_5rem_8rem_8rem]";

interface Options {
  isOpen: (row: DecisionRecord) => boolean;
  toggle: (row: DecisionRecord) => void;
}

export const toggleLabel = (row: DecisionRecord) => `Details of ${visible(objectOf(row))}`;

const endings = { Changed: "Changed", Deleted: "Deleted", Expired: "Expired" } as const;

/** What it matches, in one line. */
export function matchOf({
  match: { vulnerabilities = [], packages = [], images = [] },
}: DecisionRecord): string {
  const some = ([first, ...others]: string[]) => (others.length > 0 ? `${first} +${others.length}` : first);
  return visible([some(vulnerabilities), some(packages), some(images)].filter(Boolean).join(" in "));
}

function Status({ row, className }: { row: DecisionRecord; className?: string }) {
  return (
    <span
      className={cn("block truncate text-sm font-medium", row.state === "ended" && "text-muted", className)}
    >
      {statusOf(row)}
      {!row.suppresses && <span className="block text-xs font-normal text-muted">suppresses nothing</span>}
    </span>
  );
}

function Reason({ row }: { row: DecisionRecord }) {
  const text = row.comment ?? (row.justification ? justificationOf(row) : "–");
  return (
    <span className="untrusted block truncate text-[13px]" title={visible(text)}>
      {visible(text)}
    </span>
  );
}

/** When it ends, or how it ended. */
function End({ row: { state, endedBy, until, expiresAt } }: { row: DecisionRecord }) {
  if (state === "ended")
    return (
      <span className="block truncate text-[13px] text-muted">
        {endedBy ? `${endings[endedBy]} ` : "Ended "}
        <RelativeTime iso={until} none="" />
      </span>
    );
  return expiresAt ? (
    <time dateTime={expiresAt} title={formatDateTime(expiresAt)} className="block truncate text-[13px]">
      <RelativeTime iso={expiresAt} />
    </time>
  ) : (
    <span className="text-[13px] text-muted">No end</span>
  );
}

export function columns({ isOpen, toggle }: Options): Column<DecisionRecord>[] {
  return [
    {
      id: "toggle",
      header: () => <span className="sr-only">Details</span>,
      cell: ({ row: { original: row } }) => (
        <RowToggle label={toggleLabel(row)} open={isOpen(row)} onToggle={() => toggle(row)} />
      ),
    },
    { id: "status", header: "Decision", cell: ({ row: { original: row } }) => <Status row={row} /> },
    {
      id: "match",
      header: "Matches",
      cell: ({ row: { original: row } }) => (
        <span className="untrusted block truncate text-sm" title={matchOf(row)}>
          {matchOf(row)}
        </span>
      ),
    },
    { id: "reason", header: "Reason", cell: ({ row: { original: row } }) => <Reason row={row} /> },
    {
      id: "author",
      header: "Author",
      meta: { className: "hidden xl:block" },
      cell: ({ row: { original: row } }) => (
        <span className="untrusted block truncate text-[13px] text-muted" title={visible(row.author ?? "")}>
          {visible(row.author ?? "–")}
        </span>
      ),
    },
    {
      id: "findings",
      header: "Findings",
      meta: { className: "tabular text-right text-[13px] [[role=columnheader]&]:text-xs" },
      cell: ({ row: { original: row } }) =>
        row.matchedFindings === undefined ? (
          <span className="text-muted">–</span>
        ) : (
          formatNumber(row.matchedFindings)
        ),
    },
    { id: "end", header: "Ends", cell: ({ row: { original: row } }) => <End row={row} /> },
    {
      id: "since",
      header: "Since",
      cell: ({ row: { original: row } }) => (
        <RelativeTime iso={row.since} className="block truncate text-[13px] text-muted" />
      ),
    },
  ];
}

/** A decision on a narrow screen. */
export function DecisionCard({
  row,
  open,
  onToggle,
}: {
  row: DecisionRecord;
  open: boolean;
  onToggle: () => void;
}) {
  return (
    <div className="relative px-4 py-3 has-[[data-row-focus]:focus-visible]:bg-accent-soft/60">
      <div className="flex items-start gap-2">
        <Status row={row} className="min-w-0 flex-1" />
        <End row={row} />
        <RowToggle label={toggleLabel(row)} open={open} onToggle={onToggle} className="-mr-1" />
      </div>
      <p className="untrusted mt-1 truncate text-sm">{matchOf(row)}</p>
      <div className="mt-1 text-muted">
        <Reason row={row} />
      </div>
    </div>
  );
}
