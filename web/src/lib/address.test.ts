import { act, renderHook } from "@testing-library/react";
import { MemoryRouter } from "react-router";
import { expect, it } from "vitest";
import { address, names, orAbsent, share, notNarrowing, text, useAddress } from "./address";

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

it.each([
  ["b,a", ["a", "b"]],
  ["a,x,a,<img>", ["a"]],
  ["x,y", undefined],
  ["", undefined],
  [`${"x,".repeat(100)}a`, undefined],
])("reads %s as names", (value, expected) => {
  const field = names<string>("columns", ["a", "b", "c"]);
  expect(field.read(new URLSearchParams({ columns: value }))).toEqual(expected);
  const written = new URLSearchParams();
  field.write(written, expected);
  expect(written.get("columns")).toBe(expected?.join(",") ?? null);
});

it("leaves out of a request what is off", () => {
  expect([orAbsent(""), orAbsent(false), orAbsent([])]).toEqual([undefined, undefined, undefined]);
  expect([orAbsent("a"), orAbsent(true), orAbsent(["a"])]).toEqual(["a", true, ["a"]]);
});

it("does not count a field that selects what is shown as a filter", () => {
  expect(text("q", 9).narrows).toBe(true);
  expect(notNarrowing(text("q", 9)).narrows).toBe(false);
});

it("keeps both of two changes that come before either is shown", () => {
  const fields = address({ text: text("q", 99), version: text("version", 99) });
  const { result } = renderHook(() => useAddress(fields), { wrapper: MemoryRouter });
  act(() => {
    result.current.update({ text: "log4j-core" });
    result.current.update({ version: "<2.17" });
  });
  expect(result.current.filters).toEqual({ text: "log4j-core", version: "<2.17" });
});
