import type { Distro } from "@/gen/model";
import { cn } from "@/lib/cn";
import { formatDay } from "@/lib/format";
import { visible } from "@/lib/text";

/** A distribution as it is said, such as debian 12; empty without one. */
export const distroName = (distro: Distro | undefined) =>
  visible([distro?.name, distro?.version].filter(Boolean).join(" "));

/** The mark of a distribution that has reached its end of life; nothing for others. */
export function EndOfLifeMark({ distro, className }: { distro: Distro | undefined; className?: string }) {
  if (!distro?.endOfLifeReached) return null;
  return (
    <span
      title={`${distroName(distro)} has had no security updates since ${formatDay(distro.endOfLife ?? "")}`}
      className={cn("whitespace-nowrap font-medium text-warn", className)}
    >
      End of life
    </span>
  );
}
