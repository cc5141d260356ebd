import { expect, test } from "vitest";
import { accountOf, defaults, mistakes, settingsOf, uiOf } from "./settings";

test("the defaults are valid, and stand for what is empty", () => {
  expect(settingsOf(undefined)).toEqual(defaults);
  expect(
    settingsOf({
      namespace: " ",
      service: "",
      address: 7,
      serviceAccount: " viewer ",
    }),
  ).toEqual({
    ...defaults,
    serviceAccount: "viewer",
  });
  expect(mistakes(defaults)).toEqual({});
});

test.each([
  ["namespace", "a/../b"],
  ["namespace", "a?b"],
  ["service", "https:web"],
  ["service", "A"],
  ["serviceAccount", "a/b/c"],
  ["serviceAccount", "a/"],
  ["serviceAccount", "../b"],
  ["serviceAccount", "a/.."],
  ["serviceAccount", "%2e"],
  ["address", "javascript:alert(1)"],
  ["address", "scanner.example.com"],
] as const)("%s %s is refused", (field, value) => {
  expect(Object.keys(mistakes({ ...defaults, [field]: value }))).toEqual([field]);
});

test.each([
  ["https://scanner.example.com", "https://scanner.example.com"],
  ["https://example.com/scanner//", "https://example.com/scanner"],
  ["http://localhost:8000/?a=b#c", "http://localhost:8000"],
  ["data:text/html,a", undefined],
  ["", undefined],
])("the UI at %j", (address, want) => expect(uiOf({ ...defaults, address })).toBe(want));

test("an account without a namespace is in that of the workload", () => {
  expect(accountOf({ ...defaults, serviceAccount: "viewer" }, "shop")).toEqual(["shop", "viewer"]);
  expect(accountOf({ ...defaults, serviceAccount: "teams/viewer" }, "shop")).toEqual(["teams", "viewer"]);
});
