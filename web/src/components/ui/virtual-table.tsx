import { tableFeatures, useTable, type ColumnDef, type Row } from "@tanstack/react-table";
import { memo, useCallback, useEffect, useRef, type ReactNode } from "react";
import { cn } from "@/lib/cn";
import { useVirtualRows } from "./use-virtual-rows";

export interface ColumnMeta {
  /** Classes of header and cells of the column. */
  className?: string;
  /** Set where the column can be sorted by. */
  sorted?: "ascending" | "descending" | "none";
  /** How wide the column is, at least and at most, in rem; at most a share of what is left over. */
  width?: readonly [min: number, max: number | `${number}fr`];
}

const features = tableFeatures<{ columnMeta: ColumnMeta }>({ columnMeta: {} });

export type Column<Data extends object> = ColumnDef<typeof features, Data>;

/**
 * What a column shows. Its functions are called and not used as components: as those, each new set of columns would build
 * the cells anew, and what has the focus in them would lose it.
 */
const content = <Context,>(part: ReactNode | ((context: Context) => ReactNode), context: Context) =>
  typeof part === "function" ? part(context) : part;

interface CellsProps<Data extends object> {
  row: Row<typeof features, Data>;
  /** Not read, but the cells change with them. */
  columns: Column<Data>[];
}

/** While the page scrolls, rows that stay are not rendered again. */
const Cells = memo(function Cells<Data extends object>({ row }: CellsProps<Data>) {
  return row.getAllCells().map((cell) => (
    <div key={cell.id} role="cell" className={cn("min-w-0", cell.column.columnDef.meta?.className)}>
      {content(cell.column.columnDef.cell, cell.getContext())}
    </div>
  ));
}) as <Data extends object>(props: CellsProps<Data>) => ReactNode;

interface Props<Data extends object> {
  label: string;
  columns: Column<Data>[];
  data: Data[];
  rowKey: (row: Data, index: number) => string;
  /** Rows that the server knows, loaded or not. */
  total: number;
  /** The grid columns that header and rows share, as classes or as a style. */
  grid?: string;
  gridTemplateColumns?: string;
  rowHeight: number;
  /** Narrow screens show cards in place of rows. */
  cards: boolean;
  cardHeight: number;
  renderCard: (row: Data) => ReactNode;
  /** What an open row shows beneath itself. */
  renderDetail?: (row: Data) => ReactNode;
  isOpen?: (row: Data) => boolean;
  hasMore: boolean;
  loadMore: () => void;
}

/**
 * A table of any length: only the rows in view are in the document. The page scrolls, not the table. Within a row the
 * element marked data-row-focus takes the focus when j, k or the arrow keys move over the rows.
 */
export function VirtualTable<Data extends object>(props: Props<Data>) {
  const { label, columns, data, rowKey, total, grid, gridTemplateColumns, cards, hasMore, loadMore } = props;
  const table = useTable({ features, columns, data, getRowId: rowKey });
  const { rows } = table.getRowModel();
  const container = useRef<HTMLDivElement>(null);
  const { items, height, offset, measure } = useVirtualRows({
    container,
    count: rows.length,
    rowHeight: cards ? props.cardHeight : props.rowHeight,
    keyOf: useCallback((index: number) => rows[index]?.id ?? String(index), [rows]),
  });

  // Rows that cannot open are all of one height: nothing has to be measured.
  const fixed = !cards && !props.renderDetail;
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (hasMore && last >= rows.length - 60) loadMore();
  }, [hasMore, last, rows.length, loadMore]);

  return (
    <div
      role={cards ? undefined : "table"}
      aria-label={cards ? undefined : label}
      aria-rowcount={cards ? undefined : total + 1}
    >
      {!cards && (
        <div role="rowgroup" className="sticky top-(--bar) z-10 rounded-t-xl border-b border-line bg-surface">
          {table.getHeaderGroups().map((group) => (
            <div
              key={group.id}
              role="row"
              aria-rowindex={1}
              className={cn("grid h-10 items-center gap-x-4 px-4 text-xs font-medium text-muted", grid)}
              style={{ gridTemplateColumns }}
            >
              {group.headers.map((header) => (
                <div
                  key={header.id}
                  role="columnheader"
                  aria-sort={header.column.columnDef.meta?.sorted}
                  className={cn("min-w-0", header.column.columnDef.meta?.className)}
                >
                  {content(header.column.columnDef.header, header.getContext())}
                </div>
              ))}
            </div>
          ))}
        </div>
      )}
      <div
        ref={container}
        role={cards ? "list" : "rowgroup"}
        aria-label={cards ? label : undefined}
        className="relative"
        style={{ height }}
      >
        {items.map((item) => {
          const row = rows[item.index];
          if (!row) return null;
          const open = props.isOpen?.(row.original) ?? false;
          return (
            <div
              key={item.key}
              ref={fixed ? undefined : measure}
              role={cards ? "listitem" : "presentation"}
              aria-setsize={cards ? total : undefined}
              aria-posinset={cards ? item.index + 1 : undefined}
              data-index={item.index}
              className="absolute inset-x-0 top-0 border-b border-line last:border-b-0"
              style={{ transform: `translateY(${item.start - offset}px)` }}
            >
              {cards ? (
                <>
                  {props.renderCard(row.original)}
                  {open && props.renderDetail?.(row.original)}
                </>
              ) : (
                <>
                  <div
                    role="row"
                    aria-rowindex={item.index + 2}
                    className={cn(
                      "group relative grid items-center gap-x-4 px-4 transition-colors hover:bg-subtle/70 has-[[data-row-focus]:focus-visible]:bg-accent-soft/60 has-[[data-row-select]:checked]:bg-accent-soft/60",
                      grid,
                    )}
                    // The border of the row is part of its height.
                    style={{ gridTemplateColumns, [fixed ? "height" : "minHeight"]: props.rowHeight - 1 }}
                  >
                    <Cells row={row} columns={columns} />
                  </div>
                  {open && (
                    <div role="row" className="block">
                      <div role="cell" aria-colspan={columns.length}>
                        {props.renderDetail?.(row.original)}
                      </div>
                    </div>
                  )}
                </>
              )}
            </div>
          );
        })}
      </div>
    </div>
  );
}
