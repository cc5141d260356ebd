import { expect, it } from "vitest";
import { findingFilters } from "../detail/filters";
import { imageFilters, toRequest } from "./filters";

const kept = (search: string) =>
  imageFilters.write(imageFilters.read(new URLSearchParams(search))).toString();

it.each([
  "",
  "q=a%2Fb&state=Pending&state=Failed&severity=High&sort=imageId",
  "fixable=true&kev=true&namespace=web&kind=Deployment&workload=shop",
  "endOfLifeWithin=0&olderThan=365&sort=created",
  "overdue=true",
  "columns=image%2Cfindings%2Cowners&sort=imageId",
])("keeps %s", (search) => {
  expect([...new URLSearchParams(kept(search))].sort()).toEqual([...new URLSearchParams(search)].sort());
});

it("ignores what it does not understand", () => {
  const filters = imageFilters.read(
    new URLSearchParams(
      "state=Bogus&severity=x&sort=drop&q=&kev=1&endOfLifeWithin=-1&olderThan=0&columns=<img>,bogus&base=sha256:x",
    ),
  );
  expect(imageFilters.isFiltered(filters)).toBe(false);
  expect(imageFilters.write(filters).toString()).toBe("");
  expect(toRequest(filters)).toEqual({ sort: "-severity" });
});

it("bounds the search", () => {
  expect(imageFilters.read(new URLSearchParams({ q: "x".repeat(9000) })).text).toHaveLength(512);
});

it("takes filters away, and neither the order nor the platform", () => {
  const filters = findingFilters.read(new URLSearchParams("platform=linux%2Farm64&q=ssl&sort=package"));
  const cleared = { ...filters, ...findingFilters.none };
  expect(findingFilters.isFiltered(filters)).toBe(true);
  expect(findingFilters.isFiltered(cleared)).toBe(false);
  expect(findingFilters.write(cleared).toString()).toBe("platform=linux%2Farm64&sort=package");
});

it("keeps the filters of findings", () => {
  const search =
    "tab=presences&platform=linux%2Farm64&q=ssl&severity=Low&fixable=true&kev=true&closed=true&overdue=true&sort=package";
  const written = (from: string) =>
    findingFilters.write(findingFilters.read(new URLSearchParams(from))).toString();
  expect(written(search)).toBe(search);
  expect(written("sort=x&kev=1&tab=findings")).toBe("");
});
