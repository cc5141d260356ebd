import type { ReactNode } from "react";
import { cn } from "@/lib/cn";
import { Button } from "./button";

/** Search and filters over a list, how many rows they keep, and what can be done with those. */
export function FilterBar({
  label,
  count,
  filtered,
  onClear,
  actions,
  children,
}: {
  label: string;
  /** Such as "12 images"; empty while it is not known. */
  count: string;
  filtered: boolean;
  onClear: () => void;
  actions?: ReactNode;
  children: ReactNode;
}) {
  return (
    <div role="search" aria-label={label} className="flex flex-wrap items-center gap-2">
      {children}
      {filtered && (
        <Button variant="ghost" onClick={onClear}>
          Clear filters
        </Button>
      )}
      {/* It takes its space before it is known, so that what follows does not move to another line. */}
      <p
        role="status"
        className={cn("tabular ml-auto text-[13px] text-muted", count === "" && "lg:min-w-24")}
      >
        {count}
      </p>
      {actions}
    </div>
  );
}
