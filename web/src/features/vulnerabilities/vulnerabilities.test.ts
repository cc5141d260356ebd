import { describe, expect, it } from "vitest";
import type { Affected, Vulnerability } from "@/gen/model";
import { affectedFilters, toAffectedRequest, toRequest, vulnerabilityFilters } from "./filters";
import { affectedKey } from "./queries";
import { worst } from "./worst";

describe("filters", () => {
  it("of the list are kept in the address", () => {
    const search =
      "q=log4j&severity=High&fixable=true&kev=true&overdue=true&epss=0.1&namespace=web&suppressed=true&sort=-epss";
    const filters = vulnerabilityFilters.read(new URLSearchParams(search));
    expect(vulnerabilityFilters.write(filters).toString()).toBe(search);
    expect(toRequest(filters)).toEqual({
      text: "log4j",
      severity: "High",
      fixable: true,
      kev: true,
      overdue: true,
      epss: 0.1,
      namespace: "web",
      suppressed: true,
      sort: "-epss",
    });
  });

  it.each([
    ["", {}],
    ["time=closed", { closed: true }],
    ["time=day&on=2026-01-31", { on: "2026-01-31" }],
    // A day that is left from another tab asks for nothing.
    ["on=2026-01-31", {}],
    ["time=closed&on=2026-01-31", { closed: true }],
    ["time=day", { on: "2026-03-01" }],
    ["time=day&on=2026-02-30&namespace=web", { on: "2026-03-01", namespace: "web" }],
  ])("%s asks for what is affected", (search, expected) => {
    expect(toAffectedRequest(affectedFilters.read(new URLSearchParams(search)), "2026-03-01")).toEqual(
      expected,
    );
  });
});

it("takes the worst of all records", () => {
  const record = (part: Partial<Vulnerability>): Vulnerability => ({
    id: "CVE-1",
    namespace: "nvd:cpe",
    severity: "Unknown",
    risk: 0,
    ...part,
  });
  expect(worst([])).toEqual({ severity: "Unknown", epss: 0, risk: 0, kev: false });
  expect(
    worst([
      record({ severity: "Medium", risk: 7, kev: [{}] }),
      record({ severity: "Critical", epss: { score: 0.5, percentile: 0.9 }, kev: [] }),
    ]),
  ).toEqual({ severity: "Critical", epss: 0.5, risk: 7, kev: true });
});

it("tells what is affected apart by package, also of one name and version", () => {
  const row: Affected = {
    imageId: "shop",
    platform: "linux/amd64",
    package: { id: "one", name: "stdlib", version: "1.22.1", type: "go-module" },
    vulnerabilityId: "CVE-1",
    namespace: "github:language:go",
    severity: "High",
    fix: { state: "fixed", versions: ["1.22.2"] },
    running: true,
    workloads: [],
    workloadCount: 0,
  };
  expect(affectedKey({ ...row, package: { ...row.package, id: "other" } })).not.toBe(affectedKey(row));
});
