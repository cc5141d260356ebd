import { cn } from "@/lib/cn";

/** How far something has come; without a total only that it is under way. */
export function Progress({
  label,
  done,
  total,
  className,
}: {
  label: string;
  done: number;
  total: number | undefined;
  className?: string;
}) {
  const share = total && total > 0 ? Math.min(1, Math.max(0, done / total)) : undefined;
  return (
    <div
      role="progressbar"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={share === undefined ? undefined : Math.floor(100 * share)}
      className={cn("h-2 overflow-hidden rounded-full bg-subtle", className)}
    >
      <div
        className={cn(
          "h-full rounded-full bg-accent transition-[width] duration-500",
          share === undefined && "w-full animate-pulse opacity-50",
        )}
        style={share === undefined ? undefined : { width: `${100 * share}%` }}
      />
    </div>
  );
}
