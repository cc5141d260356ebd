import { expect, test } from "vitest";
import type { Affected } from "@/gen/model";
import { position, timelineRows, union } from "./timeline";

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
  package: { name, version: "1", type: "deb" },
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
  ]);
  expect(rows.map(({ imageId }) => imageId)).toEqual(["early", "late"]);
  expect(rows[0]).toMatchObject({
    packages: ["a", "b"],
    had: [{ from: at(2), to: at(5) }, { from: at(8) }],
    exposed: { from: at(3) },
    workloadCount: 3,
    suppressed: true,
  });
  expect(rows[0]?.exposed?.to).toBeUndefined();
  expect(rows[1]).toMatchObject({ had: [{ from: at(10) }], suppressed: false });
  expect(rows[1]?.exposed).toBeUndefined();
});

test("positions stay within the track", () => {
  expect(position({ from: 0, to: 50 }, 0, 100)).toEqual({ left: 0, width: 50 });
  expect(position({ from: 25 }, 0, 100)).toEqual({ left: 25, width: 75 });
  expect(position({ from: 100 }, 0, 100)).toEqual({ left: 99, width: 1 });
  expect(position({ from: 7, to: 7 }, 7, 7)).toEqual({ left: 0, width: 1 });
});
