import { baseOf } from "./bases.ts";
import {
  Origin,
  type Counts,
  type DatabaseBuild,
  type Decision,
  type Distribution,
  type FailureReason,
  type Finding,
  type Image,
  type ImageState,
  type Severity,
} from "../src/gen/model/index.ts";
import * as clock from "./clock.ts";

/** A small generator of pseudo-random numbers: the same seed gives the same cluster. */
export function generator(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let value = Math.imul(state ^ (state >>> 15), state | 1);
    value ^= value + Math.imul(value ^ (value >>> 7), value | 61);
    return ((value ^ (value >>> 14)) >>> 0) / 4294967296;
  };
}

const repositories: [string, string][] = [
  ["docker.io/library/alpine", "alpine 3.20.3"],
  ["docker.io/library/nginx", "debian 12"],
  ["docker.io/library/postgres", "debian 12"],
  ["docker.io/library/redis", "alpine 3.21.0"],
  ["docker.io/library/python", "debian 12"],
  ["docker.io/library/node", "debian 11"],
  ["docker.io/grafana/grafana", "alpine 3.20.3"],
  ["docker.io/bitnami/kafka", "debian 12"],
  ["docker.io/rancher/local-path-provisioner", "alpine 3.19.1"],
  ["quay.io/prometheus/prometheus", ""],
  ["quay.io/prometheus/alertmanager", ""],
  ["quay.io/argoproj/argocd", "ubuntu 24.04"],
  ["quay.io/jetstack/cert-manager-controller", "debian 12"],
  ["registry.k8s.io/coredns/coredns", ""],
  ["registry.k8s.io/kube-proxy", "debian 12"],
  ["registry.k8s.io/ingress-nginx/controller", "alpine 3.20.3"],
  ["ghcr.io/fluxcd/source-controller", "alpine 3.20.3"],
  ["ghcr.io/external-secrets/external-secrets", "debian 12"],
  ["registry.example.com/payments/checkout-api", "debian 11"],
  ["registry.example.com/payments/ledger", "rhel 9.4"],
  ["registry.example.com/platform/observability/trace-collector", "wolfi 20230201"],
  ["registry.example.com/web/storefront", "ubuntu 22.04"],
];

const failures: [FailureReason, string][] = [
  [
    "ImagePullDenied",
    'GET https://registry.example.com/v2/payments/ledger/manifests/sha256: "UNAUTHORIZED: authentication required"',
  ],
  ["RegistryRateLimited", "TOOMANYREQUESTS: You have reached your pull rate limit."],
  ["OutOfMemory", "The container was killed when it used more than 1Gi of memory."],
  ["Unschedulable", "0/3 nodes are available: 3 Insufficient memory."],
];

/** The ends of life that a database knows, by distribution and the beginning of the version. */
const endsOfLife: [string, string, string, string?][] = [
  ["alpine", "3.19", "2025-11-01"],
  ["alpine", "3.20", "2026-04-01"],
  ["debian", "11", "2024-08-14"],
  ["debian", "12", "2099-06-10"],
  ["ubuntu", "22.04", "2099-04-01"],
  ["rhel", "9", "2099-05-31", "2027-05-31"],
];

function makeDistribution(text: string, now: number): Distribution {
  const [name = "", version = ""] = text.split(" ");
  const known = endsOfLife.find(([id, start]) => id === name && version.startsWith(start));
  if (!known) return { name, version };
  const [, , endOfLife, endOfSupport] = known;
  return { name, version, endOfSupport, endOfLife, endOfLifeReached: Date.parse(endOfLife) <= now };
}

const hex = (random: () => number, length: number) =>
  Array.from({ length }, () => Math.floor(random() * 16).toString(16)).join("");

export const noCounts = (): Counts => ({
  critical: 0,
  high: 0,
  medium: 0,
  low: 0,
  negligible: 0,
  unknown: 0,
  kev: 0,
  fixable: 0,
});

export function makeCounts(random: () => number): Counts {
  if (random() < 0.12) return noCounts();
  const scale = random() ** 2;
  const upTo = (most: number) => Math.floor(random() * most * scale);
  const counts = {
    ...noCounts(),
    critical: upTo(14),
    high: upTo(60),
    medium: upTo(180),
    low: upTo(90),
    negligible: upTo(160),
    unknown: upTo(8),
  };
  const total = counts.critical + counts.high + counts.medium + counts.low;
  return {
    ...counts,
    kev: random() < 0.15 ? Math.min(counts.high, 1 + upTo(4)) : 0,
    fixable: Math.floor(total * random()),
  };
}

function stateOf(random: () => number, index: number): ImageState {
  const roll = random();
  if (index < 3 || roll < 0.9) return "Scanned";
  if (roll < 0.94) return "Failed";
  if (roll < 0.97) return "Pending";
  return roll < 0.985 ? "Cataloged" : "Reported";
}

export function makeImages(count: number, database: DatabaseBuild, now = clock.now()): Image[] {
  const random = generator(7);
  const ago = (hours: number) => new Date(now - hours * 3_600_000).toISOString();
  return Array.from({ length: count }, (_, index) => {
    const [repository, distro] = repositories[index % repositories.length] ?? ["example", ""];
    const suffix = index < repositories.length ? "" : `-${Math.floor(index / repositories.length)}`;
    const state = stateOf(random, index);
    const done = state === "Scanned";
    const cataloged = done || state === "Cataloged";
    const [reason, message] = failures[Math.floor(random() * failures.length)] ?? ["CatalogFailed", ""];
    const seen = 1 + random() * 700;
    return {
      imageId: `${repository}${suffix}@sha256:${hex(random, 64)}`,
      platform: random() < 0.85 ? "linux/amd64" : "linux/arm64",
      state,
      ...(state === "Failed" && { reason, message, nextAttempt: ago(-random() * 2) }),
      attempts: state === "Failed" ? 1 + Math.floor(random() * 5) : 0,
      ...(cataloged &&
        distro && { distro, distribution: makeDistribution(distro, now), base: baseOf(distro) }),
      ...(cataloged && index % 3 === 0 && { created: ago(24 * (20 + ((index * 37) % 900))) }),
      size: cataloged ? Math.floor(4e6 + random() ** 3 * 9e8) : 0,
      packages: cataloged ? 14 + Math.floor(random() ** 2 * 900) : 0,
      counts: done || state === "Reported" ? makeCounts(random) : noCounts(),
      ...(done && { database }),
      firstSeen: ago(seen),
      ...(cataloged && {
        catalogedAt: ago(seen * 0.9),
        cataloger: "syft v1.49.0",
        source: index % 3 === 0 ? ("Registry" as const) : ("ImageVolume" as const),
        ...(index % 3 === 2 && {
          base: undefined,
          layersUnknown:
            "the registry requires credentials, which scans of image volumes do not have; with spec.job.source: Registry in the Scanner, scans pull the image with its pull secrets: get manifests/sha256:1 of ghcr.io/team/app without credentials: the registry responded with 401 Unauthorized",
        }),
        ...(index % 9 === 4 && { partial: true, unreadable: 12 }),
      }),
      ...(done && { matchedAt: ago(random() * 20) }),
    };
  });
}

export const packages: [string, string, string, string][] = [
  ["openssl", "3.0.11-1~deb12u2", "deb", "/var/lib/dpkg/status.d/openssl"],
  ["libc6", "2.36-9+deb12u4", "deb", "/var/lib/dpkg/status"],
  ["zlib1g", "1:1.2.13.dfsg-1", "deb", "/var/lib/dpkg/status"],
  ["curl", "7.88.1-10+deb12u5", "deb", "/var/lib/dpkg/status"],
  ["stdlib", "go1.22.4", "go-module", "/usr/bin/controller"],
  ["golang.org/x/net", "v0.24.0", "go-module", "/usr/bin/controller"],
  ["lodash", "4.17.20", "npm", "/app/node_modules/lodash/package.json"],
  ["requests", "2.28.1", "python", "/usr/lib/python3/dist-packages/requests-2.28.1.dist-info/METADATA"],
  ["log4j-core", "2.14.1", "java-archive", "/opt/app/lib/app.jar:log4j-core-2.14.1.jar"],
  ["busybox", "1.36.1-r29", "apk", "/lib/apk/db/installed"],
];

const descriptions = [
  "A heap-based buffer over-read was found in the way certificates with very long names are checked. A server that presents such a certificate can crash the client, or make it disclose memory.",
  "An attacker who can pass crafted headers may cause excessive memory growth and so make the service unavailable.",
  "A prototype pollution lets an attacker change the properties of all objects of the process. Applications that merge untrusted documents are affected.",
  "JNDI features used in configuration, log messages and parameters do not protect against endpoints that an attacker controls. Who can control log messages can execute code from LDAP servers.",
];

const order: [keyof Counts, Severity, number][] = [
  ["critical", "Critical", 9.8],
  ["high", "High", 8.1],
  ["medium", "Medium", 5.9],
  ["low", "Low", 3.3],
  ["negligible", "Negligible", 0],
  ["unknown", "Unknown", 0],
];

export function makeFindings(image: Image): Finding[] {
  const random = generator(
    Array.from(image.imageId).reduce((sum, char) => (sum * 31 + char.charCodeAt(0)) | 0, 1),
  );
  let kev = image.counts.kev;
  let fixable = image.counts.fixable;
  return order.flatMap(([key, severity, score]) =>
    Array.from({ length: image.counts[key] }, (_, index) => {
      const [name, version, type, path] = packages[Math.floor(random() * packages.length)] ?? [
        "openssl",
        "3",
        "deb",
        "/",
      ];
      const year = 2019 + Math.floor(random() * 7);
      const id =
        random() < 0.85
          ? `CVE-${year}-${1000 + Math.floor(random() * 50_000)}`
          : `GHSA-${hex(random, 4)}-${hex(random, 4)}-${hex(random, 4)}`;
      const exploited = (severity === "High" || severity === "Critical") && kev > 0 && kev-- > 0;
      const fixed = fixable > 0 && fixable-- > 0;
      const probability = exploited ? 0.5 + random() / 2.1 : random() ** 6 * 0.4;
      return {
        ...(image.base && { origin: type === "deb" ? Origin.base : Origin.image }),
        package: {
          id: `${name} ${version} ${index}`,
          name,
          version,
          type,
          purl: `pkg:${type === "go-module" ? "golang" : type}/${name}@${version}?n=${index}`,
          licenses: ["Apache-2.0"],
        },
        vulnerability: {
          id,
          namespace: type === "deb" ? "debian:distro:debian:12" : "github:language:go",
          severity,
          risk: Math.min(100, score * 10 * (exploited ? 1 : probability)),
          description: descriptions[Math.floor(random() * descriptions.length)],
          dataSource: id.startsWith("CVE")
            ? `https://nvd.nist.gov/vuln/detail/${id}`
            : `https://github.com/advisories/${id}`,
          urls: ["https://www.example.org/advisory", "https://lists.example.org/oss-security/1"],
          aliases: id.startsWith("GHSA") ? [`CVE-${year}-1234`] : [],
          cwes: ["CWE-125", "CWE-400"],
          cvss:
            score > 0
              ? [
                  {
                    version: "3.1",
                    vector: "CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H",
                    score,
                    source: "nvd@nist.gov",
                    type: "Primary",
                  },
                ]
              : [],
          epss: {
            cve: id,
            score: probability,
            percentile: Math.min(0.999, probability + 0.4),
            date: "2026-08-01",
          },
          ...(exploited && {
            kev: [
              {
                cve: id,
                vendorProject: "Apache",
                product: "Log4j2",
                dateAdded: "2021-12-10",
                dueDate: "2021-12-24",
                requiredAction: "Apply updates per vendor instructions.",
                knownRansomwareUse: "Known",
              },
            ],
          }),
        },
        fix: fixed
          ? { state: "fixed", versions: [`${version}.fixed1`] }
          : { state: severity === "Negligible" ? "wont-fix" : "not-fixed" },
        details: [
          type === "npm"
            ? {
                type: "cpe-match",
                matcher: "stock-matcher",
                searchedBy: { namespace: "nvd:cpe", cpes: ["cpe:2.3:a:lodash:lodash:4.17.20:*:*:*:*:*:*:*"] },
                found: { versionConstraint: "< 4.17.21 (unknown)", vulnerabilityID: id },
              }
            : {
                type: index % 3 === 0 ? "exact-indirect-match" : "exact-direct-match",
                matcher: type === "deb" ? "dpkg-matcher" : "go-module-matcher",
                searchedBy: { distro: { type: "debian", version: "12" }, package: { name, version } },
                found: { versionConstraint: `< ${version}.fixed1 (deb)`, vulnerabilityID: id },
              },
        ],
        locations: [{ path, layer: `sha256:${hex(random, 64)}` }],
        firstSeen: image.firstSeen,
      } satisfies Finding;
    }),
  );
}

/** What an exception says of findings. */
export const suppression = {
  suppressed: true,
  decisions: [
    {
      status: "NotAffected",
      suppresses: true,
      justification: "vulnerable_code_not_in_execute_path",
      comment: "The parser is not reachable: the ingress drops such requests.",
      since: "2026-10-01T08:00:00Z",
      expiresAt: "2030-01-31T00:00:00Z",
      object: { kind: "ClusterVulnerabilityException", name: "parser-not-reachable" },
    },
    {
      status: "UnderInvestigation",
      suppresses: false,
      since: "2026-11-20T08:00:00Z",
      object: { kind: "ClusterVulnerabilityException", name: "ask-the-vendor" },
    },
  ] satisfies Decision[],
};

/** Findings of an image that exceptions suppress. */
export const makeSuppressed = (image: Image): Finding[] =>
  makeFindings(image)
    .slice(0, 2)
    .map((finding, index) => ({
      ...finding,
      vulnerability: { ...finding.vulnerability, id: `CVE-2020-900${index}` },
      ...suppression,
    }));
