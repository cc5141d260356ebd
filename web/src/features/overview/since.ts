import type { SeverityCounts, TrendDay } from "@/gen/model";
import { severities, totalFindings, type SeverityKey } from "@/lib/severity";

const msPerDay = 86_400_000;

export interface Since {
  /** The day that is compared with, as in the trend; exact says that it is so many days ago, and not earlier. */
  day: string;
  exact: boolean;
  /** How many findings there are more now, by severity; below 0 for fewer. */
  more: Record<SeverityKey, number>;
  total: number;
}

/**
 * What has changed since so many days before the last day of a trend, or since the last day before that has data; undefined
 * if no such day has.
 */
export function changeSince(items: TrendDay[], days: number): Since | undefined {
  const last = items.at(-1);
  if (!last) return undefined;
  const then = Date.parse(last.day) - days * msPerDay;
  const first = items.findLast(({ day }) => Date.parse(day) <= then);
  if (!first) return undefined;
  return {
    day: first.day,
    exact: Date.parse(first.day) === then,
    more: difference(last.counts, first.counts),
    total: totalFindings(last.counts) - totalFindings(first.counts),
  };
}

const difference = (now: SeverityCounts, then: SeverityCounts) =>
  Object.fromEntries(severities.map(({ key }) => [key, now[key] - then[key]])) as Record<SeverityKey, number>;

/** Such as +12, −3 or ±0. */
export const signed = (value: number, format: (value: number) => string) =>
  `${value > 0 ? "+" : value < 0 ? "−" : "±"}${format(Math.abs(value))}`;
