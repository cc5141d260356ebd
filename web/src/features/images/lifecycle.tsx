import type { Distribution } from "@/gen/model";
import { cn } from "@/lib/cn";
import { formatDay } from "@/lib/format";
import { visible } from "@/lib/text";

/** A distribution as it is said, such as debian 12; empty without one. */
export const distributionName = (distribution: Distribution | undefined) =>
  visible([distribution?.name, distribution?.version].filter(Boolean).join(" "));

/** The mark of a distribution that has reached its end of life; nothing for others. */
export function EndOfLifeMark({
  distribution,
  className,
}: {
  distribution: Distribution | undefined;
  className?: string;
}) {
  if (!distribution?.endOfLifeReached) return null;
  return (
    <span
      title={`${distributionName(distribution)} has had no security updates since ${formatDay(distribution.endOfLife ?? "")}`}
      className={cn("whitespace-nowrap font-medium text-warn", className)}
    >
      End of life
    </span>
  );
}
