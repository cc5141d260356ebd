import { expect, test } from "vitest";
import type { Finding, FindingPage } from "@/gen/model";
import { history, historyRows } from "./history";

const day = (n: number) => `2026-03-${String(n).padStart(2, "0")}T00:00:00Z`;
const at = (n: number) => Date.parse(day(n));

const finding = (id: string, from?: number, to?: number, pkg = "zlib"): Finding =>
  ({
    vulnerability: { id, namespace: "nvd", severity: "High" },
    package: { id: pkg, name: pkg, version: "1", type: "deb" },
    fix: { state: "unknown" },
    details: [],
    locations: [],
    ...(from && { firstSeen: day(from) }),
    ...(to && { fixedAt: day(to) }),
  }) as unknown as Finding;

const ids = (rows: { finding: Finding }[]) => rows.map(({ finding: { vulnerability } }) => vulnerability.id);

test("what changed last comes first, whether it was opened or closed", () => {
  const rows = historyRows([finding("old", 1), finding("new", 9), finding("closed", 2, 5)]);
  expect(ids(rows)).toEqual(["new", "closed", "old"]);
  expect(rows.map(({ open }) => open)).toEqual([true, false, true]);
  expect(rows[1]?.had).toEqual([{ from: at(2), to: at(5) }]);
});

test("a finding that came back is one row with a gap", () => {
  const rows = historyRows([
    finding("a", 8),
    finding("a", 1, 3),
    finding("a", 4, 5),
    finding("a", 1, 3, "other"),
  ]);
  expect(rows).toHaveLength(2);
  expect(rows[0]).toMatchObject({ open: true, changed: at(8) });
  expect(rows[0]?.had).toEqual([{ from: at(1), to: at(3) }, { from: at(4), to: at(5) }, { from: at(8) }]);
});

test("findings of which it is not known since when are there too", () => {
  const rows = historyRows([finding("unknown"), finding("until", undefined, 4), finding("known", 2)]);
  expect(ids(rows)).toEqual(["until", "known", "unknown"]);
  expect(rows[0]).toMatchObject({ had: [], until: at(4), open: false });
  expect(rows[2]).toMatchObject({ had: [], open: true });
  expect(rows[2]?.until).toBeUndefined();
});

test("tells when there is more than is shown", () => {
  const page = (items: Finding[], more = {}): FindingPage => ({ items, total: items.length, ...more });
  const items = [finding("a", 1), finding("b", 2)];
  const all = history([page(items), page([finding("c", 1, 3)])]);
  expect(all.complete).toBe(true);
  expect(ids(all.rows)).toEqual(["c", "b", "a"]);
  expect(history([page(items, { nextPageToken: "x" }), page([])]).complete).toBe(false);
});
