import { noCounts, packages } from "./data.ts";
import { hostileTexts } from "./hostile.ts";
import type { FixItem, FixItemPackage, FixPreview, Image, PreviewedAction } from "../src/gen/model/index.ts";
import type { Sums } from "./sums.ts";
import * as clock from "./clock.ts";

const packageOf = (index: number, risk: number, fix: boolean): FixItemPackage => {
  const [name = "openssl", version = "3.0.11"] = packages[index % packages.length] ?? [];
  return {
    id: `${name} ${version} ${index}`,
    name,
    version,
    type: fix ? "npm" : "deb",
    ...(fix && {
      fixVersion: `${version}.1`,
      vulnerabilities: ["CVE-2021-44228", `CVE-2024-${1000 + index}`],
    }),
    counts: { ...noCounts(), high: 1 + (index % 3), low: index % 5, kev: index % 11 === 0 ? 1 : 0 },
    risk,
  };
};

type Where = Pick<FixItem, "imageId" | "platform" | "workloads" | "workloadCount">;

const newerTagOf = (where: Where, index: number, risk: number, pkg: FixItemPackage): FixItem => ({
  ...where,
  action: "newerTag",
  summary: "Move from the tag 1.27.1-alpine to 1.27.5-alpine",
  counts: { ...noCounts(), critical: 1, high: 3, medium: 9, kev: 0 },
  overdue: 0,
  risk: 0.9 * risk,
  packages: [pkg],
  packageCount: 5,
  newerTag: {
    lookup: `lookup-${index}`,
    from: "registry.example.com/shop/web:1.27.1-alpine",
    to: "registry.example.com/shop/web:1.27.5-alpine",
    kind: "patch",
    digest: `sha256:${"7".repeat(64)}`,
    opened: { ...noCounts(), medium: 1 },
    openedFindings: [
      { vulnerabilityId: "CVE-2026-0002", package: "curl", severity: "Medium", kev: false, fixable: true },
    ],
  },
});

/** Rebuild on a newer tag of the base image, which is the first image. */
const newerBaseOf = (item: FixItem, base: Pick<FixItem, "imageId" | "platform"> | undefined): FixItem[] =>
  base && item.newerTag
    ? [
        {
          ...item,
          action: "newerBase",
          summary: "Rebuild on the base image debian:12.7 instead of 12.5",
          risk: 0.8 * item.risk,
          base,
          newerTag: {
            ...item.newerTag,
            from: "registry.example.com/library/debian:12.5",
            to: "registry.example.com/library/debian:12.7",
          },
        },
      ]
    : [];

/** What can be done about images, the highest risk first. */
export function makeFixes(images: Image[], sums: Sums): FixItem[] {
  const [first] = images;
  const base = first && { imageId: first.imageId, platform: first.platform };
  const items = images
    .filter(({ state }) => state === "Scanned")
    .flatMap(({ imageId, platform }, index): FixItem[] => {
      const workloads = sums.workloads
        .filter((row) => row.images.some((image) => image.imageId === imageId))
        .map(({ workload }) => workload);
      const where = { imageId, platform, workloads: workloads.slice(0, 20), workloadCount: workloads.length };
      const risk = 400 / (index + 1);
      const [update, other] = [packageOf(index, risk, true), packageOf(index + 1, risk / 2, false)];
      return [
        {
          ...where,
          action: "update",
          summary: `Update ${update.name} from ${update.version} to ${update.fixVersion ?? ""}`,
          counts: update.counts,
          overdue: index % 4,
          risk,
          packages: [update],
          packageCount: 1,
        },
        {
          ...where,
          action: index % 2 === 0 ? "rebuild" : "wait",
          summary:
            index % 2 === 0
              ? "Rebuild the image: its distribution has 12 fixed packages"
              : "Wait: there is no fix yet for 12 packages",
          counts: { ...noCounts(), critical: 1, medium: 14, kev: 0 },
          overdue: 0,
          risk: risk / 2,
          packages: [other],
          packageCount: 12,
        },
        ...(index % 3 === 1 ? [newerTagOf(where, index, risk, other)] : []),
        ...(index % 5 === 2 ? newerBaseOf(newerTagOf(where, index, risk, other), base) : []),
      ];
    });
  return items.sort((a, b) => Number(a.action === "wait") - Number(b.action === "wait") || b.risk - a.risk);
}

export function hostileFixes(): FixItem[] {
  return hostileTexts.map((text, index) => ({
    action: (["update", "rebuild", "newerTag", "wait", "newerBase"] as const)[index % 5] ?? "update",
    summary: text,
    imageId: text,
    platform: text,
    counts: { ...noCounts(), critical: 1e9, kev: 1 },
    overdue: 1e9,
    risk: 1e12,
    packages: [
      {
        id: text,
        name: text,
        version: text,
        type: text,
        fixVersion: text,
        counts: { ...noCounts(), high: -1 },
        risk: -1,
        vulnerabilities: [text],
      },
    ],
    packageCount: 1e9,
    workloads: [{ namespace: text, kind: text, name: text, owner: text }],
    workloadCount: 1e9,
    ...(index % 5 === 4 && { base: { imageId: text, platform: text } }),
    ...([2, 4].includes(index % 5) && {
      newerTag: {
        lookup: String(index),
        from: text,
        to: text,
        kind: "patch" as const,
        digest: text,
        opened: { ...noCounts(), high: 1e9 },
        openedFindings: [
          { vulnerabilityId: text, package: text, severity: "High" as const, kev: true, fixable: true },
        ],
      },
    }),
  }));
}

/** What an action does. A version that begins with "x" cannot be matched. */
export function makePreview(params: URLSearchParams, hostile: boolean): FixPreview {
  const version = params.get("fixVersion") ?? "3.0.12";
  const pkg = {
    id: params.get("packageId") ?? "openssl 3.0.11",
    name: params.get("packageName") ?? "openssl",
    version: params.get("packageVersion") ?? "3.0.11",
    type: params.get("packageType") ?? "deb",
  };
  const [text = ""] = hostileTexts;
  const opened = ["CVE-2025-1111", "CVE-2025-2222"].map((id) => ({
    vulnerabilityId: hostile ? text : id,
    package: pkg.name,
    severity: "Medium" as const,
    kev: false,
    fixable: false,
  }));
  const failed = version.startsWith("x");
  return {
    imageId: params.get("imageId") ?? "",
    platform: params.get("platform") ?? "linux/amd64",
    action: params.get("action") as PreviewedAction,
    databaseBuilt: new Date(clock.now() - 3 * 3600e3).toISOString(),
    packages: [
      {
        ...pkg,
        fixVersion: version,
        ...(failed && { failure: hostile ? text : "the version cannot be compared" }),
      },
    ],
    packageCount: hostile ? 1e9 : 1,
    closed: { ...noCounts(), ...(!failed && { high: 2, low: 1 }) },
    remaining: noCounts(),
    opened: { ...noCounts(), ...(!failed && { medium: opened.length }) },
    remainingFindings: [],
    openedFindings: failed ? [] : opened,
  };
}

/** The fixes that the parameters keep. */
export const filterFixes = (all: FixItem[], params: URLSearchParams) =>
  all.filter(
    ({ action, imageId, counts, overdue, workloads }) =>
      (!params.get("action") || action === params.get("action")) &&
      (!params.get("imageId") || imageId === params.get("imageId")) &&
      (params.get("kev") !== "true" || counts.kev > 0) &&
      (params.get("overdue") !== "true" || overdue > 0) &&
      (["namespace", "owner"] as const).every(
        (name) => !params.get(name) || workloads.some((workload) => workload[name] === params.get(name)),
      ) &&
      (!params.get("workload") || workloads.some(({ name }) => name === params.get("workload"))) &&
      (params.get("noOwner") !== "true" || workloads.some(({ owner }) => owner === undefined)),
  );
