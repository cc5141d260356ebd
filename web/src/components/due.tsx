import { RelativeTime } from "@/components/ui/relative-time";
import type { Deadline } from "@/gen/model";
import { cn } from "@/lib/cn";
import { formatNumber } from "@/lib/format";
import { visible } from "@/lib/text";

/** Until when a finding is due, and by which policy. */
export function Due({ of: due, className }: { of: Deadline | undefined; className?: string }) {
  if (!due) return <span className={cn("text-muted", className)}>–</span>;
  return (
    <span
      className={cn(due.overdue && "font-medium text-danger", className)}
      title={`Policy ${visible(due.policy)}`}
    >
      <RelativeTime iso={due.at} />
      {due.overdue && <span className="sr-only">, overdue</span>}
    </span>
  );
}

/** How many findings are overdue; nothing if there are none. */
export function OverdueCount({ of: count = 0 }: { of: number | undefined }) {
  if (count === 0) return null;
  return <span className="tabular block text-xs font-medium text-danger">{formatNumber(count)} overdue</span>;
}
