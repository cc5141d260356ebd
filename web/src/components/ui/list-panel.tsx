import type { ReactNode } from "react";
import { formatNumber } from "@/lib/format";
import { useMediaQuery } from "@/lib/use-media-query";
import { LoadError } from "./load-error";
import { Skeleton } from "./skeleton";
import { ErrorPanel } from "./state";
import { useTemplate } from "./template";
import type { List } from "./use-list";
import { VirtualTable, type Column } from "./virtual-table";

interface Props<Row extends object> {
  /** What is listed, such as "Images". */
  label: string;
  list: List<Row>;
  columns: Column<Row>[];
  /** Classes with the grid columns; without them, the columns state their widths. */
  grid?: string;
  rowHeight: number;
  cardHeight: number;
  renderCard: (row: Row) => ReactNode;
  renderDetail?: (row: Row) => ReactNode;
  isOpen?: (row: Row) => boolean;
  /** What stands there when there is no row. */
  empty: ReactNode;
}

/** The rows of a list, or what there is in place of them: a skeleton, an error, or a word that there are none. */
export function ListPanel<Row extends object>({ list, empty, ...table }: Props<Row>) {
  const cards = useMediaQuery("(max-width: 1023px)");
  const template = useTemplate(table.grid === undefined ? table.columns : []);
  const { rows, page, error } = list;
  return (
    <>
      {error && page && <LoadError error={error} onRetry={list.reload} />}
      <div aria-busy={list.busy} className="mt-3 rounded-xl border border-line bg-surface shadow-card">
        {page === undefined ? (
          error ? (
            <ErrorPanel error={error} onRetry={list.reload} />
          ) : (
            <SkeletonRows label={table.label} height={table.rowHeight} />
          )
        ) : rows.length === 0 ? (
          empty
        ) : (
          <div className={list.stale ? "opacity-60 transition-opacity" : undefined}>
            <VirtualTable
              {...table}
              gridTemplateColumns={template}
              data={rows}
              rowKey={list.rowKey}
              total={page.total}
              cards={cards}
              hasMore={list.hasMore}
              loadMore={list.loadMore}
            />
          </div>
        )}
      </div>
      {page && rows.length > 0 && rows.length < page.total && (
        <p className="tabular mt-3 text-center text-[13px] text-muted">
          {formatNumber(rows.length)} of {formatNumber(page.total)} loaded
        </p>
      )}
    </>
  );
}

function SkeletonRows({ label, height }: { label: string; height: number }) {
  return (
    <div role="status" className="divide-y divide-line">
      <span className="sr-only">Loading: {label}</span>
      {Array.from({ length: 10 }, (_, index) => (
        <div key={index} className="flex items-center gap-6 px-4" style={{ height }}>
          <div className="flex-1 space-y-2">
            <Skeleton className="h-3.5 w-48 max-w-full" />
            {height > 48 && <Skeleton className="h-2.5 w-32 max-w-full" />}
          </div>
          <Skeleton className="h-5 w-20" />
          <Skeleton className="hidden h-3.5 w-64 lg:block" />
          <Skeleton className="hidden h-3.5 w-24 sm:block" />
        </div>
      ))}
    </div>
  );
}
