import { describe, expect, it } from "vitest";
import type { TrendDay } from "@/gen/model";
import { changeSince, signed } from "./since";

const none = { critical: 0, high: 0, medium: 0, low: 0, negligible: 0, unknown: 0 };

const day = (name: string, change: Partial<TrendDay> = {}): TrendDay => ({
  day: `2026-03-${name}`,
  images: 1,
  scanned: 1,
  counts: { ...none, kev: 0, fixable: 0 },
  opened: none,
  closed: none,
  databases: 0,
  rollouts: 0,
  ...change,
});

const counts = (critical: number, low: number) => ({ ...none, critical, low, kev: 0, fixable: 0 });

describe("changeSince", () => {
  const items = [
    day("01", { counts: counts(4, 4) }),
    day("03", { counts: counts(5, 1) }),
    day("04", { counts: counts(2, 3) }),
  ];

  it("compares with the day before", () => {
    expect(changeSince(items, 1)).toEqual({
      day: "2026-03-03",
      exact: true,
      more: { ...none, critical: -3, low: 2 },
      total: -1,
    });
  });

  it("compares with the last day that has data", () => {
    expect(changeSince(items, 2)).toMatchObject({
      day: "2026-03-01",
      exact: false,
      total: -3,
    });
  });

  it("says nothing where no day is that old", () => {
    expect(changeSince(items, 7)).toBeUndefined();
    expect(changeSince([], 1)).toBeUndefined();
  });
});

describe("signed", () => {
  it("has a sign", () => {
    expect([3, -3, 0].map((value) => signed(value, String))).toEqual(["+3", "−3", "±0"]);
  });
});
