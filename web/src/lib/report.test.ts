import { describe, expect, it } from "vitest";
import { reportPath } from "./report";

describe("reportPath", () => {
  it.each([
    [{}, "/api/v1/reports/cluster?since=7d&format=html"],
    [{ namespace: "shop" }, "/api/v1/reports/namespaces/shop?since=7d&format=html"],
    [{ owner: "team a/b", namespace: "shop" }, "/api/v1/reports/owners/team%20a%2Fb?since=7d&format=html"],
    [{ owner: "", namespace: "" }, "/api/v1/reports/cluster?since=7d&format=html"],
  ])("%j", (scope, want) => {
    expect(reportPath(scope, "7d")).toBe(want);
  });
});
