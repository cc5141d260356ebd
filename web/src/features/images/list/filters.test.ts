import { expect, it } from "vitest";
import { readFindingFilters, writeFindingFilters } from "../detail/filters";
import { isFiltered, readFilters, toRequest, writeFilters } from "./filters";

it.each(["", "q=a%2Fb&state=Failed&state=Pending&severity=High&sort=imageId"])("keeps %s", (search) => {
  const written = writeFilters(readFilters(new URLSearchParams(search)));
  expect(readFilters(written)).toEqual(readFilters(new URLSearchParams(search)));
});

it("ignores what it does not understand", () => {
  const filters = readFilters(new URLSearchParams("state=Bogus&severity=x&sort=drop&q="));
  expect(filters).toEqual({ text: "", state: [], severity: undefined, sort: "-severity" });
  expect(isFiltered(filters)).toBe(false);
  expect(toRequest(filters)).toEqual({
    text: undefined,
    state: undefined,
    severity: undefined,
    sort: "-severity",
  });
});

it("bounds the search", () => {
  expect(readFilters(new URLSearchParams({ q: "x".repeat(9000) })).text).toHaveLength(512);
});

it("keeps the filters of findings", () => {
  const search = "platform=linux%2Farm64&q=ssl&severity=Low&fixable=true&kev=true&sort=package";
  expect(writeFindingFilters(readFindingFilters(new URLSearchParams(search))).toString()).toBe(search);
  expect(writeFindingFilters(readFindingFilters(new URLSearchParams("sort=x&kev=1"))).toString()).toBe("");
});
