import { ChevronRight } from "lucide-react";
import { useCallback, useState } from "react";
import { cn } from "@/lib/cn";
import { useHotkey } from "@/lib/keyboard";

/** Rows of a list that are open; Escape closes them all. */
export function useOpenRows<Row>(rowKey: (row: Row) => string) {
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const isOpen = useCallback((row: Row) => open.has(rowKey(row)), [open, rowKey]);
  const toggle = useCallback(
    (row: Row) =>
      setOpen((current) => {
        const key = rowKey(row);
        const next = new Set(current);
        if (!next.delete(key)) next.add(key);
        return next;
      }),
    [rowKey],
  );
  useHotkey((event) => {
    if (event.key !== "Escape" || open.size === 0) return;
    event.preventDefault();
    setOpen(new Set());
  });
  return { isOpen, toggle };
}

/** Opens and closes a row; a click anywhere in the row counts. */
export function RowToggle({
  label,
  open,
  onToggle,
  className,
}: {
  label: string;
  open: boolean;
  onToggle: () => void;
  className?: string;
}) {
  return (
    <button
      type="button"
      data-row-focus
      aria-expanded={open}
      aria-label={label}
      onClick={onToggle}
      className={cn(
        "flex size-6 shrink-0 items-center justify-center rounded text-muted outline-none after:absolute after:inset-0",
        className,
      )}
    >
      <ChevronRight className={cn("size-4 transition-transform", open && "rotate-90")} aria-hidden />
    </button>
  );
}
