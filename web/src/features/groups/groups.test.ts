import { expect, it } from "vitest";
import { imageFilters, toRequest as toImages } from "@/features/images/list/filters";
import { toRequest as toVulnerabilities, vulnerabilityFilters } from "@/features/vulnerabilities/filters";
import { toRequest as toWorkloads, workloadFilters } from "@/features/workloads/filters";
import { workloadsOfOwnerPath } from "@/lib/paths";
import { sumNamespaces, sumOwners } from "../../../mock/sums";
import {
  chosenBy,
  groupFilters,
  groupPath,
  toNamespacesRequest,
  toOwnersRequest,
  type Listed,
} from "./filters";

const at = (path: string) => new URL(path, "http://ui").searchParams;
const filtersOf = (path: string) => groupFilters.read(at(path));
const requests: Record<Listed, (path: string) => object> = {
  images: (path) => toImages(imageFilters.read(at(path))),
  workloads: (path) => toWorkloads(workloadFilters.read(at(path))),
  vulnerabilities: (path) => toVulnerabilities(vulnerabilityFilters.read(at(path))),
};
const lists: Listed[] = ["images", "workloads", "vulnerabilities"];

it.each(["Payments", "a & b", "?owner=x#y", "true"])("leads to the workloads of %s", (owner) => {
  expect(requests.workloads(workloadsOfOwnerPath(owner))).toEqual({ owner, sort: "-severity" });
});

it.each(lists)("leads to the %s of a group as far as the filters of the groups go", (list) => {
  const { sort } = requests[list]("/") as { sort: string };
  for (const [by, name, filters, wanted] of [
    ["owners", "a & b", "", { owner: "a & b" }],
    ["owners", undefined, "", { noOwner: true }],
    ["owners", "a", "?namespace=web&owner=b", { owner: "a", namespace: "web" }],
    ["owners", undefined, "?namespace=web", { noOwner: true, namespace: "web" }],
    ["namespaces", "web", "", { namespace: "web" }],
    ["namespaces", "web", "?owner=a&noOwner=true&namespace=shop", { namespace: "web", owner: "a" }],
    ["namespaces", "web", "?noOwner=true", { namespace: "web", noOwner: true }],
  ] as const) {
    const chosen = chosenBy(by, name, filtersOf(`/${filters}`));
    expect(chosen).toEqual(wanted);
    const path = groupPath(list, chosen);
    expect(path).toMatch(new RegExp(`^/${list}\\?`));
    expect(requests[list](path)).toEqual({ ...wanted, sort });
  }
});

it("does not ask for an owner and none at the same time", () => {
  for (const list of lists)
    expect(requests[list](`/${list}?owner=a&noOwner=true`)).not.toHaveProperty("noOwner", true);
  expect(toNamespacesRequest(filtersOf("/?owner=a&noOwner=true"))).toMatchObject({ owner: "a" });
});

it("counts the group as no filter, and asks for groups by what they can be filtered by", () => {
  const filters = filtersOf("/images?group=owners&q=pay&namespace=web&owner=a&sort=name&kev=true");
  expect(toOwnersRequest(filters)).toEqual({ text: "pay", namespace: "web", due: true, sort: "name" });
  expect(toNamespacesRequest(filters)).toEqual({ text: "pay", owner: "a", due: true, sort: "name" });
  expect(groupFilters.isFiltered(filtersOf("/images?group=owners"))).toBe(false);
  // Orders that only the list has do not count.
  expect(toOwnersRequest(filtersOf("/images?sort=created"))).toEqual({ due: true, sort: "-severity" });
});

const counts = { critical: 1, high: 0, medium: 0, low: 0, negligible: 0, unknown: 0, kev: 0, fixable: 0 };
const row = { images: [], imageCount: 1, scanned: 1, containers: 1, counts };
const workload = { namespace: "n", kind: "Pod", name: "a" };
const workloads = [
  { workload: { ...workload, owner: "x" }, ...row },
  { workload, ...row },
  { workload: { ...workload, namespace: "m", owner: "x" }, ...row },
];

it("sums up what has no owner first", () => {
  expect(
    sumOwners(workloads).map(({ owner, workloads, counts: { critical } }) => [owner, workloads, critical]),
  ).toEqual([
    [undefined, 1, 1],
    ["x", 2, 2],
  ]);
});

it("sums up namespaces", () => {
  expect(sumNamespaces(workloads).map(({ namespace, workloads }) => [namespace, workloads])).toEqual([
    ["m", 1],
    ["n", 2],
  ]);
});
