import { expect, test } from "vitest";
import type { Affected, AffectedPage } from "@/gen/model";
import { position, timeline, timelineRows, union } from "./timeline";

const day = (n: number) => `2026-03-${String(n).padStart(2, "0")}T00:00:00Z`;
const at = (n: number) => Date.parse(day(n));

const affected = (
  imageId: string,
  name: string,
  from: number | undefined,
  to?: number,
  more: Partial<Affected> = {},
): Affected => ({
  imageId,
  platform: "linux/amd64",
  package: { id: "id", name, version: "1", type: "deb" },
  vulnerabilityId: "CVE-1",
  namespace: "n",
  severity: "High",
  fix: { state: "unknown" },
  running: !to,
  workloads: [],
  workloadCount: 0,
  ...(from && { firstSeen: day(from) }),
  ...(to && { fixedAt: day(to) }),
  ...more,
});

test("spans that overlap or touch are one", () => {
  expect(
    union([{ from: 5, to: 7 }, { from: 1, to: 3 }, { from: 3, to: 4 }, { from: 6 }, { from: 8, to: 9 }]),
  ).toEqual([{ from: 1, to: 4 }, { from: 5 }]);
  expect(union([])).toEqual([]);
});

test("one row per image, with gaps and exposure", () => {
  const rows = timelineRows([
    affected("late", "a", 10),
    affected("early", "a", 2, 4, { exposedSince: day(3), exposedUntil: day(4), workloadCount: 1 }),
    affected("early", "b", 3, 5),
    affected("early", "a", 8, undefined, { exposedSince: day(9), suppressed: true, workloadCount: 3 }),
    affected("unknown", "a", undefined),
    affected("gone", "a", undefined, 6),
    affected("gone", "b", undefined, 7),
    affected("late", "b", undefined, 3),
  ]);
  expect(rows.map(({ imageId }) => imageId)).toEqual(["early", "late", "gone", "unknown"]);
  expect(rows[0]).toMatchObject({
    packages: ["a", "b"],
    had: [{ from: at(2), to: at(5) }, { from: at(8) }],
    exposed: [{ from: at(3), to: at(4) }, { from: at(9) }],
    workloadCount: 3,
    suppressed: true,
  });
  expect(rows[0]?.unknown).toBeUndefined();
  expect(rows[1]).toMatchObject({
    had: [{ from: at(10) }],
    unknown: { to: at(3) },
    exposed: [],
    suppressed: false,
  });
  expect(rows[2]).toMatchObject({ had: [], unknown: { to: at(7) } });
  expect(rows[3]?.unknown).toEqual({});
});

const page = (items: Affected[], more: Partial<AffectedPage> = {}): AffectedPage => ({
  items,
  total: items.length,
  images: items.length,
  workloads: 0,
  ...more,
});

test("only images of which all findings are loaded are shown", () => {
  const arm = { platform: "linux/arm64" };
  const open = [
    affected("a", "x", 9),
    affected("b", "x", 8),
    affected("c", "x", 7),
    affected("c", "x", 6, undefined, arm),
  ];
  const ended = [
    affected("a", "y", 1, 2),
    affected("b", "y", 2, 3, arm),
    affected("d", "y", 3, 4),
    affected("e", "y", 4, 5),
  ];
  const cut = { nextPageToken: "next" };
  const shown = (pages: AffectedPage[], most = 100) => {
    const { rows, total } = timeline(pages, most);
    return [rows.map(({ imageId, platform }) => `${imageId} ${platform.slice(6)}`), total];
  };
  expect(shown([page(open), page(ended)])).toEqual([
    ["a amd64", "b arm64", "d amd64", "e amd64", "c arm64", "c amd64", "b amd64"],
    7,
  ]);
  expect(shown([page(open), page(ended)], 2)).toEqual([["a amd64", "b arm64"], 7]);
  // Of d and e, open findings may follow, and of c in the second platform more of them.
  expect(shown([page(open, cut), page(ended)])).toEqual([
    ["a amd64", "b arm64", "c amd64", "b amd64"],
    undefined,
  ]);
  expect(shown([page(open), page(ended.slice(0, 2), cut)])).toEqual([["a amd64", "b amd64"], undefined]);
  expect(shown([page(open.slice(0, 2), cut), page(ended, cut)])).toEqual([["a amd64"], undefined]);
  // Those that had it first may not be loaded: the first ones are those by ID.
  expect(shown([page(open, cut), page(ended)], 2)).toEqual([["a amd64", "b amd64"], undefined]);
  expect(shown([page(open.slice(0, 1), cut), page(ended)])).toEqual([[], undefined]);
});

test("positions stay within the track", () => {
  expect(position({ from: 0, to: 50 }, 0, 100)).toEqual({ left: 0, width: 50 });
  expect(position({ from: 25 }, 0, 100)).toEqual({ left: 25, width: 75 });
  expect(position({ from: 100 }, 0, 100)).toEqual({ left: 99, width: 1 });
  expect(position({ from: 7, to: 7 }, 7, 7)).toEqual({ left: 0, width: 1 });
});
