import type { Severity, SeverityCounts } from "@/gen/model";

export type SeverityKey = "critical" | "high" | "medium" | "low" | "negligible" | "unknown";

export const severities: { key: SeverityKey; name: Severity; letter: string }[] = [
  { key: "critical", name: "Critical", letter: "C" },
  { key: "high", name: "High", letter: "H" },
  { key: "medium", name: "Medium", letter: "M" },
  { key: "low", name: "Low", letter: "L" },
  { key: "negligible", name: "Negligible", letter: "N" },
  { key: "unknown", name: "Unknown", letter: "U" },
];

/** Severities are told apart by letter, lightness and form, not by hue alone. */
export const severityClass: Record<SeverityKey, string> = {
  critical: "bg-critical text-on-critical",
  high: "bg-high text-on-high",
  medium: "bg-medium text-on-medium",
  low: "bg-low text-on-low",
  negligible: "bg-negligible text-on-negligible",
  unknown: "border border-dashed border-muted/70 text-muted",
};

export const severityBar: Record<SeverityKey, string> = {
  critical: "bg-critical",
  high: "bg-high",
  medium: "bg-medium",
  low: "bg-low-bar",
  negligible: "bg-negligible-bar",
  unknown: "bg-unknown-bar",
};

/** The same for what is drawn. */
export const severityFill: Record<SeverityKey, string> = {
  critical: "fill-critical",
  high: "fill-high",
  medium: "fill-medium",
  low: "fill-low-bar",
  negligible: "fill-negligible-bar",
  unknown: "fill-unknown-bar",
};

export function severityKey(severity: Severity): SeverityKey {
  return severities.find((entry) => entry.name === severity)?.key ?? "unknown";
}

export const totalFindings = (counts: SeverityCounts) =>
  severities.reduce((sum, { key }) => sum + counts[key], 0);

export const sumCounts = (all: SeverityCounts[]): SeverityCounts =>
  all.reduce(
    (sum, counts) => ({
      critical: sum.critical + counts.critical,
      high: sum.high + counts.high,
      medium: sum.medium + counts.medium,
      low: sum.low + counts.low,
      negligible: sum.negligible + counts.negligible,
      unknown: sum.unknown + counts.unknown,
    }),
    { critical: 0, high: 0, medium: 0, low: 0, negligible: 0, unknown: 0 },
  );

/** For screen readers and titles: "3 critical, 12 high"; "no findings" when there are none. */
export function describeCounts(counts: SeverityCounts): string {
  const parts = severities.filter(({ key }) => counts[key] > 0).map(({ key }) => `${counts[key]} ${key}`);
  return parts.length > 0 ? parts.join(", ") : "no findings";
}
