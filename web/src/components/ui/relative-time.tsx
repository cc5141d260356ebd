import { useNow } from "@/lib/clock";
import { formatDateTime, formatRelative } from "@/lib/format";

export function RelativeTime({
  iso,
  none = "never",
  className,
}: {
  iso: string | undefined;
  /** What stands there without a time. */
  none?: string;
  className?: string;
}) {
  const now = useNow();
  if (!iso || Number.isNaN(Date.parse(iso))) return <span className={className}>{none}</span>;
  return (
    <time dateTime={iso} title={formatDateTime(iso)} className={className}>
      {formatRelative(iso, now)}
    </time>
  );
}
