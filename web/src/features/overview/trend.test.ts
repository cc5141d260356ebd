import { expect, it } from "vitest";
import type { TrendDay } from "@/gen/model";
import { layoutTrend, sumChanges } from "./trend-layout";

const none = { critical: 0, high: 0, medium: 0, low: 0, negligible: 0, unknown: 0 };
const day = (day: string, counts: Partial<TrendDay["counts"]>): TrendDay => ({
  day,
  images: 1,
  scanned: 1,
  counts: { ...none, kev: 0, fixable: 0, ...counts },
  opened: { ...none, high: 2, unknown: 1 },
  closed: { ...none, low: 5 },
  databases: 0,
  rollouts: 0,
});

it("stacks severities from the foot, most severe first, and leaves gaps", () => {
  const { bars, most } = layoutTrend({
    from: "2026-02-27",
    to: "2026-03-02",
    items: [day("2026-02-27", { critical: 1, low: 3 }), day("2026-03-01", { high: 8, kev: 99 })],
  });
  expect(most).toBe(8);
  expect(bars.map(({ x, width }) => [x, width])).toEqual([
    [0, 0.25],
    [0.5, 0.25],
  ]);
  expect(bars[0]?.parts).toEqual([
    { key: "critical", y: 0.875, height: 0.125 },
    { key: "low", y: 0.5, height: 0.375 },
  ]);
  expect(bars[1]?.parts).toEqual([{ key: "high", y: 0, height: 1 }]);
});

it("draws nothing of no findings, and of days that are none of its own", () => {
  const { bars, most } = layoutTrend({
    from: "2026-01-01",
    to: "2026-01-02",
    items: [day("2026-01-01", {}), day("2026-01-03", {}), day("2025-12-31", {}), day("nonsense", {})],
  });
  expect([most, bars.length, bars[0]?.parts]).toEqual([0, 1, []]);
});

it("sums up what databases changed", () => {
  expect(sumChanges([day("2026-01-01", {}), day("2026-01-02", {})])).toEqual({ opened: 6, closed: 10 });
});
