import { span, union, type Span } from "@/features/vulnerabilities/timeline";
import type { Finding, FindingPage } from "@/gen/model";
import { findingKey } from "./finding";

/** When an image had a vulnerability in a package. */
export interface HistoryRow {
  finding: Finding;
  /** Empty if it is not known since when. */
  had: Span[];
  /** Until when the image had it, if it is not known since when and it is closed. */
  until?: number;
  open: boolean;
  /** When the finding was opened or closed last, -Infinity if that is not known. */
  changed: number;
}

const time = (text: string | undefined) => {
  const parsed = Date.parse(text ?? "");
  return Number.isNaN(parsed) ? undefined : parsed;
};

/** A finding that came back is the same one. */
const sameKey = (finding: Finding) => findingKey({ ...finding, fixedAt: undefined });

/** One row per vulnerability and package, what changed last first. */
export function historyRows(findings: Finding[]): HistoryRow[] {
  const groups = new Map<string, Finding[]>();
  for (const finding of findings) {
    const key = sameKey(finding);
    groups.set(key, [...(groups.get(key) ?? []), finding]);
  }
  return [...groups.values()]
    .flatMap((group): HistoryRow[] => {
      const open = group.find(({ fixedAt }) => fixedAt === undefined);
      const finding = open ?? group[0];
      if (finding === undefined) return [];
      const had = union(group.flatMap(({ firstSeen, fixedAt }) => span(firstSeen, fixedAt)));
      const changes = group.flatMap(({ firstSeen, fixedAt }) => time(fixedAt) ?? time(firstSeen) ?? []);
      const closed = had.length === 0 && !open ? Math.max(...changes) : -Infinity;
      return [
        {
          finding,
          had,
          ...(Number.isFinite(closed) && { until: closed }),
          open: open !== undefined,
          changed: Math.max(-Infinity, ...changes),
        },
      ];
    })
    .sort((a, b) => (a.changed === b.changed ? 0 : b.changed - a.changed));
}

/** The rows of the first pages of open and of closed findings, and whether there are more. */
export const history = (pages: FindingPage[]) => ({
  rows: historyRows(pages.flatMap(({ items }) => items)),
  complete: pages.every(({ nextPageToken }) => nextPageToken === undefined),
});
