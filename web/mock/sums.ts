import type {
  Affected,
  ContainerCoverage,
  CoverageSummary,
  Image,
  NamespaceSummary,
  OwnerSummary,
  PackageSummary,
  Presence,
  Severity,
  Trends,
  Vulnerability,
  VulnerabilitySummary,
  Workload,
  WorkloadSummary,
} from "../src/gen/model/index.ts";
import { generator, makeCounts, makeFindings, noCounts, packages } from "./data.ts";
import { hostileTexts } from "./hostile.ts";
import * as clock from "./clock.ts";

const hour = 3_600_000;
const day = 24 * hour;
const ago = (ms: number) => new Date(clock.now() - ms).toISOString();
const severities: Severity[] = ["Critical", "High", "Medium", "Low", "Negligible", "Unknown"];
const namespaces = ["payments", "web", "platform", "kube-system", "monitoring"];
const names = ["checkout-api", "ledger", "storefront", "trace-collector", "coredns", "kube-proxy", "worker"];
const kinds = ["Deployment", "Deployment", "Deployment", "StatefulSet", "DaemonSet", "CronJob"];

const at = <T>(list: readonly T[], index: number): T => {
  const item = list[index % list.length];
  if (item === undefined) throw new Error("the list is empty");
  return item;
};

const workload = (index: number): Workload => ({
  namespace: at(namespaces, index),
  kind: at(kinds, index),
  name: `${at(names, index)}${index < names.length ? "" : `-${index}`}`,
});

const owners: Partial<Record<string, string>> = {
  payments: "Payments",
  web: "Storefront and everything that customers see",
  platform: "platform-team@example.com",
  "kube-system": "platform-team@example.com",
};

/** A workload as it is where owners are configured. */
export function withOwner(workload: Workload): Workload {
  const owner = owners[workload.namespace];
  return owner === undefined ? workload : { ...workload, owner };
}

/** The workloads by owner; those without one first. */
export function sumOwners(workloads: WorkloadSummary[]): OwnerSummary[] {
  const sums = new Map<string, OwnerSummary>();
  for (const { workload, images, scanned, counts } of workloads) {
    const { owner } = workload;
    const sum = sums.get(owner ?? "") ?? {
      ...(owner !== undefined && { owner }),
      workloads: 0,
      images: 0,
      scanned: 0,
      counts: noCounts(),
    };
    sum.workloads++;
    sum.images += images.length;
    sum.scanned += scanned;
    for (const key of Object.keys(counts) as (keyof typeof counts)[]) sum.counts[key] += counts[key];
    sums.set(owner ?? "", sum);
  }
  return [...sums].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, sum]) => sum);
}

/** The workloads by namespace. */
export function sumNamespaces(workloads: WorkloadSummary[]): NamespaceSummary[] {
  const names = [...new Set(workloads.map(({ workload }) => workload.namespace))].sort();
  return names.flatMap((namespace) =>
    sumOwners(
      workloads
        .filter(({ workload }) => workload.namespace === namespace)
        .map((row) => ({ ...row, workload: { ...row.workload, owner: undefined } })),
    ).map((sum) => ({ ...sum, namespace })),
  );
}

/** What the operator sums up over all images. */
export interface Sums {
  vulnerabilities: VulnerabilitySummary[];
  packages: PackageSummary[];
  workloads: WorkloadSummary[];
  coverage: ContainerCoverage[];
}

export interface SumsOptions {
  /** Whether workloads have owners. */
  owners?: boolean;
  vulnerabilities?: number;
  packages?: number;
  workloads?: number;
  containers?: number;
}

export function makeSums(images: Image[], options: SumsOptions): Sums {
  if (images.length === 0) return { vulnerabilities: [], packages: [], workloads: [], coverage: [] };
  const own = <Row extends { workload: Workload }>(rows: Row[]) =>
    options.owners ? rows.map((row) => ({ ...row, workload: withOwner(row.workload) })) : rows;
  return {
    vulnerabilities: makeVulnerabilities(options.vulnerabilities ?? 150),
    packages: makePackages(options.packages ?? 180, images),
    workloads: own(makeWorkloads(options.workloads ?? 90, images)),
    coverage: own(makeCoverage(options.containers ?? 140, images)),
  };
}

function makeVulnerabilities(count: number): VulnerabilitySummary[] {
  const random = generator(21);
  return Array.from({ length: count }, (_, index) => {
    const severity = at(severities, Math.min(5, Math.floor((6 * index) / count)));
    const kev = severity === "Critical" && random() < 0.3;
    const epss = kev ? 0.5 + random() / 2.1 : random() ** 6 * 0.4;
    const images = 1 + Math.floor(random() ** 4 * 400);
    return {
      id: index === 0 ? "CVE-2021-44228" : `CVE-${2019 + (index % 8)}-${1000 + index}`,
      severity,
      epss,
      risk: Math.max(0, 95 - (95 * index) / count) * (kev ? 1 : 0.7),
      kev,
      fixable: random() < 0.6,
      images,
      workloads: Math.floor(images * random()),
      packages: 1 + Math.floor(random() * 4),
      firstSeen: ago(random() * 200 * day),
    };
  }).sort((a, b) => b.risk - a.risk);
}

function makePackages(count: number, images: Image[]): PackageSummary[] {
  const random = generator(22);
  return Array.from({ length: count }, (_, index) => {
    const [name, version, type] = at(packages, index);
    const round = Math.floor(index / packages.length);
    const reached = 1 + Math.floor(random() ** 3 * 60);
    return {
      package: {
        id: `${name} ${version} ${index}`,
        name,
        version: round === 0 ? version : version.replace(/\d+/g, (digits) => String(Number(digits) + round)),
        type,
        purl: `pkg:${type}/${name}@${version}?n=${index}`,
        licenses: ["Apache-2.0"],
      },
      counts: makeCounts(random),
      images: reached,
      imageIds: Array.from({ length: Math.min(20, reached) }, (_, step) => at(images, index + step).imageId),
      workloads: Math.floor(reached * random()),
    };
  });
}

function makeWorkloads(count: number, images: Image[]): WorkloadSummary[] {
  const random = generator(23);
  return Array.from({ length: count }, (_, index) => {
    const imageCount = 1 + Math.floor(random() ** 3 * 5);
    const scanned = random() < 0.9 ? imageCount : imageCount - 1;
    return {
      workload: workload(index),
      images: Array.from({ length: imageCount }, (_, step) => {
        const { imageId, platform } = at(images, index + step);
        return { imageId, platform };
      }),
      imageCount,
      scanned,
      containers: imageCount + Math.floor(random() * 6),
      counts: scanned > 0 ? makeCounts(random) : noCounts(),
      since: ago(random() * 90 * day),
    };
  });
}

const causes: Pick<ContainerCoverage, "state" | "reason" | "message">[] = [
  { state: "Pending", reason: "NotPulled" },
  { state: "Pending", reason: "NotCataloged" },
  { state: "Stale", reason: "NotMatched" },
  {
    state: "Partial",
    reason: "FilesUnreadable",
    message:
      "12 files or directories are unreadable: the scan could not read some files of the image, so that packages may be missing",
  },
  { state: "Skipped", reason: "IgnoreLabel" },
  {
    state: "Failed",
    reason: "RegistryRateLimited",
    message: "TOOMANYREQUESTS: You have reached your pull rate limit.",
  },
  {
    state: "Failed",
    reason: "ImagePullDenied",
    message:
      'GET https://registry.example.com/v2/payments/ledger/manifests/sha256: "UNAUTHORIZED: authentication required"',
  },
];

function makeCoverage(count: number, images: Image[]): ContainerCoverage[] {
  const random = generator(24);
  return Array.from({ length: count }, (_, index) => {
    const image = at(images, index);
    const cause = random() < 0.85 ? { state: "Scanned" as const } : at(causes, index);
    const pulled = cause.state !== "Pending" || random() < 0.5;
    return {
      workload: workload(index),
      container: index % 3 === 0 ? "sidecar" : "app",
      imageId: pulled ? image.imageId : "",
      platform: pulled ? image.platform : "",
      reference: `${image.imageId.split("@")[0] ?? ""}:1.${index % 10}`,
      pods: 1 + Math.floor(random() ** 3 * 12),
      ...cause,
      ...(cause.state === "Failed" && { nextAttempt: ago(-random() * 2 * hour) }),
      since: ago(random() * 9 * day),
    };
  });
}

export function sumCoverage(coverage: ContainerCoverage[]): CoverageSummary {
  const summary = { scanned: 0, partial: 0, stale: 0, pending: 0, failed: 0, skipped: 0 };
  for (const { state, pods } of coverage) summary[state.toLowerCase() as keyof typeof summary] += pods;
  const { scanned, partial, stale, pending, failed } = summary;
  const wanted = scanned + partial + stale + pending + failed;
  return { ...summary, ratio: wanted === 0 ? 1 : (scanned + stale) / wanted };
}

/** What databases say of a vulnerability: its own record and one of a distribution. */
export function makeRecords(summary: VulnerabilitySummary, images: Image[]): Vulnerability[] {
  const { id, severity, epss, risk, kev } = summary;
  const like = images.flatMap(makeFindings)[0]?.vulnerability;
  const shared: Vulnerability = {
    ...like,
    id,
    severity,
    risk,
    namespace: "nvd:cpe",
    dataSource: `https://nvd.nist.gov/vuln/detail/${id}`,
    aliases: ["GHSA-jfh8-c2jp-5v3q"],
    epss: { score: epss, percentile: Math.min(0.999, epss + 0.4), date: "2026-08-01" },
    kev: kev ? [{ vendorProject: "Apache", product: "Log4j2", dateAdded: "2021-12-10" }] : [],
  };
  return [shared, { ...shared, id, namespace: "debian:distro:debian:12", severity: "Medium", kev: [] }];
}

export function makeAffected(summary: VulnerabilitySummary, images: Image[], closed: boolean): Affected[] {
  const random = generator(summary.id.length + summary.images);
  const count = closed ? Math.ceil(summary.images / 3) : summary.images;
  return Array.from({ length: count }, (_, index) => {
    const image = at(images, index);
    const [name, version, type] = at(packages, summary.id.length + Math.floor(index / images.length));
    const since = random() * 90 * day;
    // What is closed was there before what is open.
    const seen = closed ? since + 120 * day : since;
    const until = since + 100 * day;
    const running = random() < 0.7;
    return {
      imageId: image.imageId,
      platform: image.platform,
      package: { id: `${name} ${version}`, name, version, type },
      vulnerabilityId: summary.id,
      namespace: "nvd:cpe",
      severity: summary.severity,
      fix: summary.fixable ? { state: "fixed", versions: ["2.17.1"] } : { state: "not-fixed" },
      firstSeen: ago(seen),
      ...(closed && { fixedAt: ago(until) }),
      running: running && !closed,
      ...(running && { exposedSince: ago(closed ? until + 10 * day : seen * 0.9) }),
      ...(running && closed && { exposedUntil: ago(until) }),
      workloads: running ? [workload(index), workload(index + 1)].slice(0, 1 + (index % 2)) : [],
      workloadCount: running ? 1 + (index % 2) : 0,
    };
  });
}

export function makePresences(image: Image, stopped: boolean): Presence[] {
  return Array.from({ length: 6 }, (_, index) => ({
    imageId: image.imageId,
    platform: image.platform,
    ...(index % 2 === 0 && { cluster: "production-eu" }),
    workload: workload(index),
    container: "app",
    since: ago((3 + index * 9) * day),
    ...((stopped || index > 1) && { until: ago((1 + index * 4) * day) }),
  }));
}

export function makeTrends(days: number): Trends {
  const random = generator(25);
  const dayOf = (age: number) => ago(age * day).slice(0, 10);
  const some = (most: number) => ({
    critical: Math.floor(random() * most * 0.1),
    high: Math.floor(random() * most * 0.3),
    medium: Math.floor(random() * most),
    low: Math.floor(random() * most * 0.5),
    negligible: Math.floor(random() * most * 0.6),
    unknown: Math.floor(random() * 3),
  });
  const base = {
    ...noCounts(),
    critical: 380,
    high: 1900,
    medium: 5200,
    low: 2600,
    negligible: 4100,
    unknown: 160,
  };
  return {
    from: dayOf(29),
    to: dayOf(0),
    items: Array.from({ length: days }, (_, index) => {
      const grown = 1 + 0.004 * index + 0.02 * random();
      const counts = Object.fromEntries(
        Object.entries(base).map(([key, value]) => [key, Math.round(value * grown)]),
      ) as unknown as typeof base;
      return {
        day: dayOf(days - 1 - index),
        images: 110 + index,
        scanned: 108 + index,
        counts,
        opened: some(80),
        closed: some(60),
        databases: index % 3 === 0 ? 1 : 0,
        rollouts: index % 4 === 1 ? 1 + (index % 5) : 0,
      };
    }),
  };
}

/** Sums in which every text is hostile. */
export function hostileSums(): Sums {
  const hostile = hostileTexts.map((text) => ({ namespace: text, kind: text, name: text, owner: text }));
  const images = hostileTexts.map((imageId) => ({ imageId, platform: imageId }));
  return {
    vulnerabilities: hostileTexts.map((id) => ({
      id,
      severity: "High",
      epss: 7,
      risk: -1,
      kev: true,
      fixable: true,
      images: 3,
      workloads: 1e9,
      packages: 1,
      firstSeen: id,
    })),
    packages: hostileTexts.map((text) => ({
      package: { id: text, name: text, version: text, type: text, purl: text, licenses: [text] },
      counts: noCounts(),
      images: 1e9,
      imageIds: hostileTexts,
      workloads: 1e9,
    })),
    workloads: hostile.map((entry) => ({
      workload: entry,
      images,
      imageCount: 1e9,
      scanned: 1,
      containers: 1e9,
      counts: noCounts(),
      since: entry.name,
    })),
    coverage: hostile.map((entry) => ({
      workload: entry,
      container: entry.name,
      imageId: entry.name,
      platform: entry.name,
      reference: entry.name,
      pods: 1,
      state: "Failed",
      reason: entry.name,
      message: entry.name,
      nextAttempt: entry.name,
      since: entry.name,
    })),
  };
}
