import { ArrowDown, ArrowUp, ChevronsUpDown } from "lucide-react";
import { cn } from "@/lib/cn";
import type { ColumnMeta } from "./virtual-table";

interface Props {
  children: string;
  sorted: "ascending" | "descending" | "none";
  onSort: () => void;
}

export function SortHeader({ children, sorted, onSort }: Props) {
  const Icon = sorted === "none" ? ChevronsUpDown : sorted === "ascending" ? ArrowUp : ArrowDown;
  return (
    <button
      type="button"
      onClick={onSort}
      className={cn(
        "-mx-1 inline-flex h-7 items-center gap-1 rounded px-1 hover:text-ink",
        sorted !== "none" && "text-ink",
      )}
    >
      {children}
      <Icon className="size-3.5" aria-hidden />
    </button>
  );
}

/** Header and meta of a column by which the server can sort. */
export function sortable<Sort extends string>(
  name: string,
  by: Sort,
  direction: "ascending" | "descending",
  sort: Sort,
  setSort: (sort: Sort) => void,
  meta: ColumnMeta = {},
) {
  const sorted = sort === by ? direction : ("none" as const);
  return {
    meta: { ...meta, sorted },
    header: () => (
      <SortHeader sorted={sorted} onSort={() => setSort(by)}>
        {name}
      </SortHeader>
    ),
  };
}
