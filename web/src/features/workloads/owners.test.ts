import { expect, it } from "vitest";
import { workloadsOfOwnerPath } from "@/lib/paths";
import { sumOwners } from "../../../mock/sums";
import { toOwnersRequest, toRequest, workloadFilters } from "./filters";

const filtersOf = (path: string) => workloadFilters.read(new URL(path, "http://ui").searchParams);

it.each(["Payments", "a & b", "?owner=x#y", "true"])("leads to the workloads of %s", (owner) => {
  expect(toRequest(filtersOf(workloadsOfOwnerPath(owner)))).toEqual({ owner, sort: "-severity" });
});

it("leads to the workloads without an owner", () => {
  expect(toRequest(filtersOf(workloadsOfOwnerPath(undefined)))).toEqual({ noOwner: true, sort: "-severity" });
});

it("does not ask for an owner and none at the same time", () => {
  expect(toRequest(filtersOf("/workloads?owner=a&noOwner=true"))).toEqual({ owner: "a", sort: "-severity" });
});

it("counts the group as no filter, and asks for owners by name and namespace alone", () => {
  const filters = filtersOf("/workloads?group=owners&q=pay&namespace=web&sort=name&kev=true");
  expect(toOwnersRequest(filters)).toEqual({ text: "pay", namespace: "web", due: true, sort: "name" });
  expect(workloadFilters.isFiltered(filtersOf("/workloads?group=owners"))).toBe(false);
});

it("sums up what has no owner first", () => {
  const counts = { critical: 1, high: 0, medium: 0, low: 0, negligible: 0, unknown: 0, kev: 0, fixable: 0 };
  const row = { images: [], imageCount: 1, scanned: 1, containers: 1, counts };
  const workload = { namespace: "n", kind: "Pod", name: "a" };
  expect(
    sumOwners([
      { workload: { ...workload, owner: "x" }, ...row },
      { workload, ...row },
      { workload: { ...workload, owner: "x" }, ...row },
    ]).map(({ owner, workloads, counts: { critical } }) => [owner, workloads, critical]),
  ).toEqual([
    [undefined, 1, 1],
    ["x", 2, 2],
  ]);
});
