import { useNow } from "@/lib/clock";
import { formatDateTime, formatRelative } from "@/lib/format";

export function RelativeTime({ iso, className }: { iso: string | undefined; className?: string }) {
  const now = useNow();
  if (!iso || Number.isNaN(Date.parse(iso))) return <span className={className}>never</span>;
  return (
    <time dateTime={iso} title={formatDateTime(iso)} className={className}>
      {formatRelative(iso, now)}
    </time>
  );
}
