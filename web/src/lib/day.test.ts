import { expect, it } from "vitest";
import { dayOf, endOf, parseDay, startOf } from "./day";

it.each([
  ["2024-02-29", "2024-02-29"],
  ["2026-02-29", ""],
  ["2026-1-1", ""],
  ["2026-13-01", ""],
  ["yesterday", ""],
  [null, ""],
])("%s as a day", (value, expected) => expect(parseDay(value)).toBe(expected));

it("counts days of UTC", () => {
  expect(dayOf(Date.parse("2026-03-01T23:59:59-01:00"))).toBe("2026-03-02");
});

it.each([
  ["2026-01-31", "2026-02-01T00:00:00Z"],
  ["2028-02-28", "2028-02-29T00:00:00Z"],
  ["2026-12-31", "2027-01-01T00:00:00Z"],
])("%s ends at %s", (day, end) => {
  expect(startOf(day)).toBe(`${day}T00:00:00Z`);
  expect(endOf(day)).toBe(end);
});
