import { expect, it } from "vitest";
import { lacksName, packageFilters, toRequest } from "./filters";

const ask = (search: string) => {
  const filters = packageFilters.read(new URLSearchParams(search));
  return { lacksName: lacksName(filters), request: toRequest(filters) };
};

it.each([
  ["", false, { sort: "-severity" }],
  ["q=log4j", false, { text: "log4j", sort: "-severity" }],
  ["q=log4j-core&version=%3C2.17", false, { name: "log4j-core", version: "<2.17", sort: "-severity" }],
  // Versions of different packages cannot be compared: the operator would refuse.
  ["version=%3C2.17", true, { sort: "-severity" }],
  ["type=deb&vulnerable=true&sort=name", false, { type: "deb", vulnerable: true, sort: "name" }],
  ["overdue=true", false, { overdue: true, sort: "-severity" }],
  ["owner=Team+Shop", false, { owner: "Team Shop", sort: "-severity" }],
])("%s", (search, lacks, request) => {
  expect(ask(search)).toEqual({ lacksName: lacks, request });
});
