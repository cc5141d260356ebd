import type { Affected, AffectedPage, Workload, WorkloadExposures } from "@/gen/model";

/** A time from and to, in milliseconds; the end is absent while it goes on. */
export interface Span {
  from: number;
  to?: number;
}

/** When an image had a vulnerability in any package, and when containers ran it while it had. */
export interface TimelineRow {
  imageId: string;
  platform: string;
  packages: string[];
  /** Empty if it is not known since when. */
  had: Span[];
  /** That of some findings it is not known since when, and until when the image had these; the end is absent while one is open. */
  unknown?: { to?: number };
  /** When containers ran it with the vulnerability, empty if none did. */
  exposed: Span[];
  workloads: Workload[];
  workloadCount: number;
  /** Decisions suppress all findings that are open. */
  suppressed: boolean;
}

const end = ({ to }: Span) => to ?? Infinity;

/** Joins spans that overlap or touch, the earliest first. */
export function union(spans: Span[]): Span[] {
  const joined: Span[] = [];
  for (const span of [...spans].sort((a, b) => a.from - b.from)) {
    const last = joined.at(-1);
    if (last === undefined || span.from > end(last)) joined.push({ ...span });
    else if (end(span) > end(last)) joined[joined.length - 1] = { from: last.from, ...endsAt(end(span)) };
  }
  return joined;
}

const endsAt = (time: number) => (time === Infinity ? {} : { to: time });

function time(text: string | undefined): number | undefined {
  const parsed = Date.parse(text ?? "");
  return Number.isNaN(parsed) ? undefined : parsed;
}

/** The span between two times, none if it is not known since when. */
export function span(from: string | undefined, to: string | undefined): Span[] {
  const start = time(from);
  return start === undefined ? [] : [{ from: start, ...endsAt(Math.max(start, time(to) ?? Infinity)) }];
}

/** When a workload ran images with the vulnerability, as far as that is listed. */
export const exposureSpans = ({ exposures }: WorkloadExposures) =>
  exposures.flatMap(({ since, until }) => span(since, until));

const compare = (a: string, b: string) => Number(a > b) - Number(a < b);

type OfImage = Pick<Affected, "imageId" | "platform">;

/** The order of the API. */
const byImage = (a: OfImage, b: OfImage) => compare(a.imageId, b.imageId) || compare(a.platform, b.platform);

/** The first one first, and those last of which it is not known since when. */
const byStart = (a: TimelineRow, b: TimelineRow) =>
  (a.had[0]?.from ?? Infinity) - (b.had[0]?.from ?? Infinity) || byImage(a, b);

/** One row per image, the first one that had the vulnerability first. */
export function timelineRows(affected: Affected[]): TimelineRow[] {
  const images = new Map<string, Affected[]>();
  for (const row of affected) {
    const key = `${row.imageId} ${row.platform}`;
    images.set(key, [...(images.get(key) ?? []), row]);
  }
  return [...images.values()]
    .flatMap((rows): TimelineRow[] => {
      const [first] = rows;
      if (first === undefined) return [];
      const without = rows.filter(({ firstSeen, fixedAt }) => span(firstSeen, fixedAt).length === 0);
      const most = rows.reduce((a, b) => (b.workloadCount > a.workloadCount ? b : a));
      const open = rows.filter(({ fixedAt }) => !fixedAt);
      return [
        {
          imageId: first.imageId,
          platform: first.platform,
          packages: [...new Set(rows.map(({ package: pkg }) => pkg.name))],
          had: union(rows.flatMap(({ firstSeen, fixedAt }) => span(firstSeen, fixedAt))),
          ...(without.length > 0 && {
            unknown: endsAt(Math.max(...without.map(({ fixedAt }) => time(fixedAt) ?? Infinity))),
          }),
          exposed: union(rows.flatMap(({ exposedSince, exposedUntil }) => span(exposedSince, exposedUntil))),
          workloads: most.workloads,
          workloadCount: most.workloadCount,
          suppressed: open.length > 0 && open.every(({ suppressed }) => suppressed),
        },
      ];
    })
    .sort(byStart);
}

/**
 * At most so many rows of the first pages of open and of closed findings, which are ordered by image. Where a page is not the last one, they are those of the
 * first images of which all findings are there, and how many there are in total is not known.
 */
export function timeline(pages: AffectedPage[], most: number): { rows: TimelineRow[]; total?: number } {
  const ends = pages.flatMap(({ items, nextPageToken }) => (nextPageToken ? items.slice(-1) : []));
  const affected = pages.flatMap(({ items }) => items);
  if (ends.length === 0) {
    const rows = timelineRows(affected);
    return { rows: rows.slice(0, most), total: rows.length };
  }
  const rows = timelineRows(affected.filter((row) => ends.every((end) => byImage(row, end) < 0)));
  return { rows: rows.sort(byImage).slice(0, most).sort(byStart) };
}

/** Where a span lies between two times, in percent, at least wide enough to be seen. */
export function position({ from, to }: Span, start: number, now: number) {
  const length = Math.max(now - start, 1);
  const left = Math.min(99, Math.max(0, ((from - start) / length) * 100));
  return {
    left,
    width: Math.max(1, Math.min(100 - left, (((to ?? now) - Math.max(from, start)) / length) * 100)),
  };
}
