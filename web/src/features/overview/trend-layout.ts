import type { TrendDay, Trends } from "@/gen/model";
import { severities, totalFindings, type SeverityKey } from "@/lib/severity";

const msPerDay = 86_400_000;

export interface Bar {
  item: TrendDay;
  /** Position and width as shares of the whole width. */
  x: number;
  width: number;
  /** From the most severe at the foot upwards, as shares of the whole height measured from the top. */
  parts: { key: SeverityKey; y: number; height: number }[];
}

const dayNumber = (day: string) => Math.floor(Date.parse(`${day.slice(0, 10)}T00:00:00Z`) / msPerDay);

/** Where the bars of a trend stand. Days of which nothing is known leave a gap. */
export function layoutTrend({ from, to, items }: Trends): { bars: Bar[]; most: number } {
  const first = dayNumber(from);
  const days = dayNumber(to) - first + 1;
  const most = Math.max(0, ...items.map(({ counts }) => totalFindings(counts)));
  const bars = items.flatMap((item) => {
    const index = dayNumber(item.day) - first;
    if (!(index >= 0 && index < days)) return [];
    let top = 1;
    const parts = severities.flatMap(({ key }) => {
      const height = most === 0 ? 0 : item.counts[key] / most;
      top -= height;
      return height > 0 ? [{ key, y: Math.max(0, top), height }] : [];
    });
    return [{ item, x: index / days, width: 1 / days, parts }];
  });
  return { bars, most };
}

/** What new databases opened and closed over all days. */
export const sumChanges = (items: TrendDay[]) => ({
  opened: items.reduce((total, { opened }) => total + totalFindings(opened), 0),
  closed: items.reduce((total, { closed }) => total + totalFindings(closed), 0),
});
