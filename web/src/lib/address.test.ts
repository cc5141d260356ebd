import { expect, it } from "vitest";
import { orAbsent, share, view, text } from "./address";

it.each([
  ["0.5", 0.5],
  ["1", 1],
  ["0", undefined],
  ["1.01", undefined],
  ["-1", undefined],
  ["x", undefined],
  ["", undefined],
  ["Infinity", undefined],
])("reads %s as a share", (value, expected) => {
  expect(share("epss").read(new URLSearchParams({ epss: value }))).toBe(expected);
});

it("leaves out of a request what is off", () => {
  expect([orAbsent(""), orAbsent(false), orAbsent([])]).toEqual([undefined, undefined, undefined]);
  expect([orAbsent("a"), orAbsent(true), orAbsent(["a"])]).toEqual(["a", true, ["a"]]);
});

it("does not count a view as a filter", () => {
  expect(text("q", 9).narrows).toBe(true);
  expect(view(text("q", 9)).narrows).toBe(false);
});
