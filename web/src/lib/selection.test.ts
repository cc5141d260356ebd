import { expect, it } from "vitest";
import { allToggled, toggled, type Selected } from "./selection";

const rows = ["a", "b", "c", "d", "e"];
const change = { rows, rowKey: (row: string) => row, max: 4 };
const of = (...keys: string[]): Selected<string> => new Map(keys.map((key) => [key, key]));
const keysOf = (selected: Selected<string>) => [...selected.keys()].join("");

it("selects a row and takes it out", () => {
  expect(keysOf(toggled(of("a"), "c", change))).toBe("ac");
  expect(keysOf(toggled(of("a", "c"), "a", change))).toBe("c");
});

it.each([
  ["down", of("b"), "d", "b", "bcd"],
  ["up", of("d"), "b", "d", "dcb"],
  ["over rows that are selected", of("b", "c"), "d", "b", "bcd"],
  ["and takes a range out", of("a", "b", "c", "d"), "d", "b", "a"],
  ["from the same row", of(), "b", "b", "b"],
  ["from a row that has gone from the list", of("x"), "d", "x", "xd"],
  ["to as many rows as can be selected, from where it began", of("e"), "a", "e", "edcb"],
])("selects a range %s", (_, selected, row, from, want) => {
  expect(keysOf(toggled(selected, row, change, from))).toBe(want);
});

it("adds no row beyond the bound, and can still take one out", () => {
  const full = of("a", "b", "c", "d");
  expect(keysOf(toggled(full, "e", change))).toBe("abcd");
  expect(keysOf(toggled(full, "b", change))).toBe("acd");
});

it("selects all rows that are loaded, as many as can be, then takes them out", () => {
  const all = allToggled(of("d"), change);
  expect(keysOf(all)).toBe("dabc");
  expect(keysOf(allToggled(all, change))).toBe("");
  // Rows that are not in the list stay.
  expect(keysOf(allToggled(of("x", "a", "b"), { ...change, rows: ["a", "b"] }))).toBe("x");
  expect(keysOf(allToggled(of(), { ...change, rows: [] }))).toBe("");
});
