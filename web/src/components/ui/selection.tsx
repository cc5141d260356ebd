import { useCallback, useState } from "react";
import { cn } from "@/lib/cn";

/** Rows of a list that are selected, at most a number of them. */
export function useSelection<Row>(rowKey: (row: Row) => string, max: number) {
  const [rows, setRows] = useState<ReadonlyMap<string, Row>>(new Map());
  const isSelected = useCallback((row: Row) => rows.has(rowKey(row)), [rows, rowKey]);
  const toggle = useCallback(
    (row: Row) =>
      setRows((current) => {
        const key = rowKey(row);
        const next = new Map(current);
        if (!next.delete(key) && next.size < max) next.set(key, row);
        return next;
      }),
    [rowKey, max],
  );
  const clear = useCallback(() => setRows(new Map()), []);
  return { selected: [...rows.values()], isSelected, toggle, clear, full: rows.size >= max };
}

/** Selects a row. It lies above what else a click in the row does. */
export function RowCheckbox({
  label,
  checked,
  onToggle,
  className,
}: {
  label: string;
  checked: boolean;
  onToggle: () => void;
  className?: string;
}) {
  return (
    <label className={cn("relative z-1 flex size-6 items-center justify-center", className)}>
      <span className="sr-only">{label}</span>
      <input type="checkbox" checked={checked} onChange={onToggle} className="size-4 accent-accent" />
    </label>
  );
}
