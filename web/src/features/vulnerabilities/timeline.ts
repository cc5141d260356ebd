import type { Affected, Workload } from "@/gen/model";

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
  had: Span[];
  /** Since when and until when containers ran it with the vulnerability, absent if none did. */
  exposed?: Span;
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

function span(from: string | undefined, to: string | undefined): Span[] {
  const start = Date.parse(from ?? "");
  const stop = Date.parse(to ?? "");
  if (Number.isNaN(start)) return [];
  return [{ from: start, ...(Number.isNaN(stop) ? {} : { to: Math.max(start, stop) }) }];
}

/** One row per image of which it is known since when it had the vulnerability, the first one first. */
export function timelineRows(affected: Affected[]): TimelineRow[] {
  const images = new Map<string, Affected[]>();
  for (const row of affected) {
    const key = `${row.imageId} ${row.platform}`;
    images.set(key, [...(images.get(key) ?? []), row]);
  }
  return [...images.values()]
    .flatMap((rows): TimelineRow[] => {
      const had = union(rows.flatMap(({ firstSeen, fixedAt }) => span(firstSeen, fixedAt)));
      const [first] = rows;
      if (first === undefined || had.length === 0) return [];
      const exposed = rows.flatMap(({ exposedSince, exposedUntil }) => span(exposedSince, exposedUntil));
      const until = Math.max(...exposed.map(end));
      const most = rows.reduce((a, b) => (b.workloadCount > a.workloadCount ? b : a));
      const open = rows.filter(({ fixedAt }) => !fixedAt);
      return [
        {
          imageId: first.imageId,
          platform: first.platform,
          packages: [...new Set(rows.map(({ package: pkg }) => pkg.name))],
          had,
          ...(exposed.length > 0 && {
            exposed: { from: Math.min(...exposed.map(({ from }) => from)), ...endsAt(until) },
          }),
          workloads: most.workloads,
          workloadCount: most.workloadCount,
          suppressed: open.length > 0 && open.every(({ suppressed }) => suppressed),
        },
      ];
    })
    .sort((a, b) => (a.had[0]?.from ?? 0) - (b.had[0]?.from ?? 0) || (a.imageId < b.imageId ? -1 : 1));
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
