import { isRunning } from "./overview.ts";
import type { CoverageSummary, Image, Workload } from "../src/gen/model/index.ts";
import { sumCoverage, sumNamespaces, sumOwners, type Sums } from "./sums.ts";
import * as clock from "./clock.ts";

const severities = ["Critical", "High", "Medium", "Low", "Negligible", "Unknown"] as const;

/** A small part of what the operator understands: parts joined by commas, each an operator and dotted numbers. */
export function satisfies(version: string, constraint: string): boolean {
  const numbers = (text: string) => (text.match(/\d+/g) ?? []).map(Number);
  return constraint.split(",").every((part) => {
    if (part.endsWith("*")) return version.startsWith(part.slice(1, -1));
    const [, operator = "=", wanted = ""] = /^\s*(<=|>=|<|>|=)?\s*(.*)$/.exec(part) ?? [];
    const [a, b] = [numbers(version), numbers(wanted)];
    const index = b.findIndex((value, place) => value !== (a[place] ?? 0));
    const order = index < 0 ? 0 : (a[index] ?? 0) - (b[index] ?? 0);
    if (operator.startsWith("<")) return order < 0 || (operator === "<=" && order === 0);
    if (operator.startsWith(">")) return order > 0 || (operator === ">=" && order === 0);
    return order === 0;
  });
}

/** What a search finds for the complete name of a package and the beginning of a version; undefined if the text is not that. */
export function searchVersions({ packages }: Sums, text: string) {
  const [, name, packageVersion] = /^(.+)[ @]([^ @]+)$/.exec(text) ?? [];
  if (!name || !packageVersion) return undefined;
  const found = packages.filter(
    ({ package: pkg }) =>
      pkg.name.toLowerCase() === name.toLowerCase() && pkg.version.startsWith(packageVersion),
  );
  return { packages: found.slice(0, 5), packageVersion };
}

/** The rows of one kind that the parameters keep, and what its page holds beside them. */
export function filterSums(
  sums: Sums,
  kind: keyof Sums | "owners" | "namespaces",
  params: URLSearchParams,
): { rows: object[]; extra?: { summary: CoverageSummary } } {
  const text = (params.get("text") ?? "").toLowerCase();
  const namespace = params.get("namespace");
  const worst = severities.slice(0, severities.findIndex((name) => name === params.get("severity")) + 1);
  const wants = (name: string) => params.get(name) === "true";
  const bad = (counts: Record<string, number>) =>
    worst.length === 0 || worst.some((name) => (counts[name.toLowerCase()] ?? 0) > 0);
  const owner = params.get("owner");
  const within = (workload: Workload) =>
    (!namespace || workload.namespace === namespace) &&
    (!owner || workload.owner === owner) &&
    (!wants("noOwner") || workload.owner === undefined);
  switch (kind) {
    case "vulnerabilities": {
      const rows = sums.vulnerabilities.filter(
        ({ id, severity, kev, fixable, epss }) =>
          id.toLowerCase().includes(text) &&
          (worst.length === 0 || worst.some((name) => name === severity)) &&
          (!wants("kev") || kev) &&
          (!wants("fixable") || fixable) &&
          epss >= Number(params.get("epss") ?? 0) &&
          namespace !== "nowhere",
      );
      const sort = params.get("sort");
      if (sort === "-epss") rows.sort((a, b) => b.epss - a.epss);
      if (sort === "-severity")
        rows.sort((a, b) => severities.indexOf(a.severity) - severities.indexOf(b.severity));
      if (sort === "id") rows.sort((a, b) => (a.id < b.id ? -1 : 1));
      return { rows };
    }
    case "packages": {
      const [name, version] = [params.get("name"), params.get("version")];
      const rows = sums.packages.filter(
        ({ package: pkg, counts }) =>
          pkg.name.toLowerCase().includes(text) &&
          (!name || pkg.name === name) &&
          (!version || satisfies(pkg.version, version)) &&
          (!params.get("type") || pkg.type === params.get("type")) &&
          (!wants("vulnerable") || counts.critical + counts.high + counts.medium + counts.low > 0) &&
          bad({ ...counts }),
      );
      return {
        rows:
          params.get("sort") === "name"
            ? rows.sort((a, b) => (a.package.name < b.package.name ? -1 : 1))
            : rows,
      };
    }
    case "workloads":
      return {
        rows: sums.workloads
          .filter(
            ({ workload, counts }) =>
              workload.name.toLowerCase().includes(text) &&
              within(workload) &&
              bad({ ...counts }) &&
              (!wants("kev") || counts.kev > 0) &&
              (!wants("fixable") || counts.fixable > 0),
          )
          .sort((a, b) => (params.get("sort") === "-severity" ? b.counts.critical - a.counts.critical : 0)),
      };
    case "owners":
    case "namespaces": {
      const kept = sums.workloads.filter(({ workload }) => within(workload));
      const rows =
        kind === "owners"
          ? sumOwners(kept).filter((row) => text === "" || row.owner?.toLowerCase().includes(text))
          : sumNamespaces(kept).filter((row) => row.namespace.toLowerCase().includes(text));
      return {
        rows:
          params.get("sort") === "-severity"
            ? rows.sort((a, b) => b.counts.critical - a.counts.critical)
            : rows,
      };
    }
    case "coverage": {
      const kept = sums.coverage.filter(
        ({ workload, container, reference, imageId }) =>
          within(workload) &&
          [workload.name, container, reference, imageId].some((name) => name.toLowerCase().includes(text)),
      );
      const states = params.getAll("state");
      const reason = params.get("reason");
      return {
        rows: kept.filter(
          (row) => (states.length === 0 || states.includes(row.state)) && (!reason || row.reason === reason),
        ),
        extra: { summary: sumCoverage(kept) },
      };
    }
  }
}

const dayLength = 86_400_000;

/** Whether the distribution and the age of an image are as the parameters want them. */
export function agesMatch(
  { distribution, created }: Image,
  params: URLSearchParams,
  now = clock.now(),
): boolean {
  const [within, older] = [params.get("endOfLifeWithin"), params.get("olderThan")];
  return (
    (within === null || Date.parse(distribution?.endOfLife ?? "") <= now + Number(within) * dayLength) &&
    (older === null || Date.parse(created ?? "") <= now - Number(older) * dayLength)
  );
}

/** Oldest first; images of which that is not known come last. */
export const byCreation = (a: Image, b: Image) =>
  (a.created ?? "9").localeCompare(b.created ?? "9") || (a.imageId < b.imageId ? -1 : 1);

/** Whether a workload that the parameters name runs an image. */
export function runs({ imageId }: Image, sums: Sums, params: URLSearchParams): boolean {
  const wanted = (["namespace", "workload", "owner"] as const).filter((name) => params.get(name));
  return (
    wanted.length === 0 ||
    sums.workloads.some(
      ({ workload, images }) =>
        wanted.every((name) => params.get(name) === workload[name === "workload" ? "name" : name]) &&
        images.some((image) => image.imageId === imageId),
    )
  );
}

/** Whether an image is on the base image that is asked for, of the platform, and running. */
export const isChosen = (image: Image, params: URLSearchParams) =>
  (!params.get("base") || params.get("base") === image.base?.chainId) &&
  (!params.get("baseLayers") || Number(params.get("baseLayers")) === image.base?.layers) &&
  (!params.get("platform") || params.get("platform") === image.platform) &&
  (params.get("running") !== "true" || isRunning(image));
