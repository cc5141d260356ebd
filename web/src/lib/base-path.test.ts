import { expect, it } from "vitest";
import { movedTo, readBasePath } from "./base-path";

it.each([
  ['<meta name="base-path" content="/scanner/">', "/scanner/"],
  ['<meta name="base-path" content="/">', "/"],
  ['<meta name="base-path" content="./">', "/"],
  ["", "/"],
])("%s means %s", (head, want) => {
  expect(readBasePath(new DOMParser().parseFromString(head, "text/html"))).toBe(want);
});

it.each([
  ["/", "", "/scanner/"],
  ["/images/a%2Fb", "?q=x", "/scanner/images/a%2Fb?q=x"],
  ["/scanner/images", "?q=x", undefined],
  ["/scanner/", "", undefined],
])("a page at %s%s is at %s", (pathname, search, want) => {
  expect(movedTo({ pathname, search }, "/scanner/")).toBe(want);
});
