import type { Severity, SeverityCounts as Counts } from "@/gen/model";
import { cn } from "@/lib/cn";
import { formatCompact } from "@/lib/format";
import { describeCounts, severities, severityBar, severityClass, severityKey } from "@/lib/severity";
import { ShareBar } from "./share-bar";

export function SeverityBadge({ severity, className }: { severity: Severity; className?: string }) {
  return (
    <span
      className={cn(
        "inline-flex h-5.5 items-center rounded px-1.5 text-xs font-semibold",
        severityClass[severityKey(severity)],
        className,
      )}
    >
      {severity}
    </span>
  );
}

/** One column per severity, so that the eye can run down a list. */
export function SeverityCounts({
  counts,
  quiet = false,
  className,
}: {
  counts: Counts;
  /** Without colour, beside others that matter more. */
  quiet?: boolean;
  className?: string;
}) {
  return (
    <span className={cn("grid grid-cols-6 gap-1", className)}>
      <span className="sr-only">{describeCounts(counts)}</span>
      {severities.map(({ key, name, letter }) => (
        <span
          key={key}
          aria-hidden
          title={`${counts[key]} ${name}`}
          className={cn(
            "tabular flex h-6 items-center justify-center gap-1 rounded text-xs",
            counts[key] > 0 && !quiet ? cn("font-semibold", severityClass[key]) : "text-muted",
            counts[key] > 0 && quiet && "border border-line-strong",
          )}
        >
          {counts[key] > 0 ? (
            <>
              <span className="text-[10px] font-medium">{letter}</span>
              {formatCompact(counts[key])}
            </>
          ) : (
            "·"
          )}
        </span>
      ))}
    </span>
  );
}

/** The shares of the severities as one bar. */
export function SeverityBar({ counts, className }: { counts: Counts; className?: string }) {
  return (
    <ShareBar
      parts={severities.map(({ key, name }) => ({ name, count: counts[key], bar: severityBar[key] }))}
      label={describeCounts(counts)}
      className={className}
    />
  );
}

export function KevMark({ className }: { className?: string }) {
  return (
    <span
      title="Known to be exploited (CISA KEV)"
      className={cn(
        "inline-flex h-5 items-center rounded border border-danger/60 px-1 text-[11px] font-semibold tracking-wide text-danger",
        className,
      )}
    >
      KEV<span className="sr-only">: known to be exploited</span>
    </span>
  );
}
