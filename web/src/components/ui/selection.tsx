import { createContext, useCallback, useContext, useMemo, useRef, useState, type ReactNode } from "react";
import { cn } from "@/lib/cn";
import { isTyping, useHotkey } from "@/lib/keyboard";
import { allToggled, toggled, type Selected } from "@/lib/selection";
import type { Column } from "./virtual-table";

interface Options<Row> {
  /** The rows that are loaded, in the order of the list. */
  rows: readonly Row[];
  /** Tells rows apart; the same function at each call. */
  rowKey: (row: Row) => string;
  /** How many rows can be selected. */
  max: number;
}

/** Rows of a list that are selected. They stay so when they change, move, or are not in the list any more. */
export function useSelection<Row>({ rows, rowKey, max }: Options<Row>) {
  const [chosen, setChosen] = useState<Selected<Row>>(new Map());
  const last = useRef<string>(undefined);
  const isSelected = useCallback((row: Row) => chosen.has(rowKey(row)), [chosen, rowKey]);
  const toggle = useCallback(
    (row: Row, range = false) => {
      const from = range ? last.current : undefined;
      last.current = rowKey(row);
      setChosen((current) => toggled(current, row, { rows, rowKey, max }, from));
    },
    [rows, rowKey, max],
  );
  const toggleAll = useCallback(
    () => setChosen((current) => allToggled(current, { rows, rowKey, max })),
    [rows, rowKey, max],
  );
  const deselect = useCallback(
    (gone: (row: Row) => boolean) =>
      setChosen((current) => new Map([...current].filter(([, row]) => !gone(row)))),
    [],
  );
  const clear = useCallback(() => setChosen(new Map()), []);
  const { selected, listed } = useMemo(() => {
    const newest = new Map(chosen.size > 0 ? rows.map((row) => [rowKey(row), row]) : []);
    return {
      selected: [...chosen].map(([key, row]) => newest.get(key) ?? row),
      listed: [...chosen.keys()].filter((key) => newest.has(key)).length,
    };
  }, [chosen, rows, rowKey]);
  return {
    /** As they are now. */
    selected,
    /** How many of them are in the list. */
    listed,
    /** Whether all rows that are loaded are selected. */
    all: rows.length > 0 && listed === rows.length,
    full: selected.length >= max,
    rows,
    isSelected,
    toggle,
    toggleAll,
    deselect,
    clear,
  };
}

export type Selection<Row> = ReturnType<typeof useSelection<Row>>;

/** Only the boxes read it: cells of the table stay as they are while rows are selected. */
const SelectionContext = createContext<Selection<object> | undefined>(undefined);

/**
 * Lets the rows of a list be selected: by their boxes, with Shift for all rows from the last one, and with X or Space for the row that
 * has the focus.
 */
export function SelectionProvider<Row extends object>({
  selection,
  children,
}: {
  selection: Selection<Row>;
  children: ReactNode;
}) {
  const { rows, toggle } = selection;
  useHotkey((event) => {
    const { target } = event;
    if (!(target instanceof HTMLElement) || isTyping(target)) return;
    // Space presses buttons and boxes.
    const wanted = event.key === " " ? target.matches("a[data-row-focus]") : event.key.toLowerCase() === "x";
    // Tabs and their panels have an index, too.
    const element = target.closest<HTMLElement>(
      "[role=presentation][data-index], [role=listitem][data-index]",
    );
    const row = rows[Number(element?.dataset.index ?? -1)];
    if (!wanted || !row) return;
    event.preventDefault();
    toggle(row, event.shiftKey);
  });
  return (
    <SelectionContext value={selection as unknown as Selection<object>}>
      {children}
      {/* The bar with the actions lies over the end of the window, and not over the last row. */}
      {selection.selected.length > 0 && <div className="h-20" />}
    </SelectionContext>
  );
}

/** Selects a row. It lies above what else a click in the row does. */
export function RowCheckbox({
  label,
  checked,
  indeterminate = false,
  onToggle,
  className,
}: {
  label: string;
  checked: boolean;
  indeterminate?: boolean;
  onToggle: (range: boolean) => void;
  className?: string;
}) {
  return (
    <label className={cn("relative z-1 flex size-6 items-center justify-center select-none", className)}>
      <span className="sr-only">{label}</span>
      <input
        ref={(element) => {
          if (element) element.indeterminate = indeterminate;
        }}
        type="checkbox"
        data-row-select
        checked={checked}
        onChange={({ nativeEvent }) => onToggle(nativeEvent instanceof MouseEvent && nativeEvent.shiftKey)}
        className="size-4 accent-accent"
      />
    </label>
  );
}

/** The box of a row of the list around it. */
export function SelectRow({ row, label, className }: { row: object; label: string; className?: string }) {
  const selection = useContext(SelectionContext);
  if (!selection) return null;
  return (
    <RowCheckbox
      label={`Select ${label}`}
      checked={selection.isSelected(row)}
      onToggle={(range) => selection.toggle(row, range)}
      className={className}
    />
  );
}

function SelectAll() {
  const selection = useContext(SelectionContext);
  if (!selection) return null;
  const { all, listed, full } = selection;
  return (
    <RowCheckbox
      label="Select all loaded rows"
      checked={all || (full && listed > 0)}
      indeterminate={!all && listed > 0}
      onToggle={selection.toggleAll}
    />
  );
}

/** The column with the boxes. */
export const selectColumn = <Row extends object>(labelOf: (row: Row) => string): Column<Row> => ({
  id: "select",
  meta: { width: [1.5, 1.5] },
  header: () => <SelectAll />,
  cell: ({ row: { original: row } }) => <SelectRow row={row} label={labelOf(row)} />,
});
