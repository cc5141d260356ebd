import type { Finding, Image, NewerTag, NewerTags, RolloutFinding, SeverityCounts } from "../src/gen/model";
import * as clock from "./clock.ts";

const digest = (digit: string) => `sha256:${digit.repeat(64)}`;

function countsOf(findings: RolloutFinding[]): SeverityCounts {
  const counts = { critical: 0, high: 0, medium: 0, low: 0, negligible: 0, unknown: 0 };
  for (const { severity } of findings) counts[severity.toLowerCase() as keyof SeverityCounts]++;
  return counts;
}

/** Newer tags of an image: one that closes most of its findings, one that opens something, and one that cannot be pulled. */
export function makeNewerTags(image: Image, findings: Finding[]): NewerTags {
  if (image.state !== "Scanned") return { items: [] };
  const all = findings.map(({ vulnerability, package: pkg, fix }): RolloutFinding => ({
    vulnerabilityId: vulnerability.id,
    package: pkg.name,
    severity: vulnerability.severity,
    kev: (vulnerability.kev?.length ?? 0) > 0,
    fixable: fix.state === "fixed",
  }));
  const compared = (
    tag: string,
    kind: NewerTag["kind"],
    keeps: number,
    opens: RolloutFinding[],
  ): NewerTag => ({
    tag,
    kind,
    digest: digest(String(keeps % 10)),
    state: "Compared",
    recommended: opens.length === 0,
    riskRemoved: (all.length - keeps) * 1.5 - opens.length,
    closed: countsOf(all.slice(keeps)),
    remaining: countsOf(all.slice(0, keeps)),
    opened: countsOf(opens),
    closedFindings: all.slice(keeps, keeps + 100),
    openedFindings: opens,
  });
  const opens: RolloutFinding[] = [
    { vulnerabilityId: "CVE-2026-0001", package: "curl", severity: "High", kev: false, fixable: true },
  ];
  const repository = image.imageId.split("@")[0] ?? image.imageId;
  const lookedUpAt = new Date(clock.now() - 3 * 3600_000).toISOString();
  return {
    items: [
      {
        repository,
        tag: "1.27.1-alpine",
        state: "LookedUp",
        lookedUpAt,
        listed: 812,
        tags: [
          compared("1.27.5-alpine", "patch", Math.floor(all.length / 4), []),
          compared("1.29.3-alpine", "minor", 0, opens),
          {
            tag: "2.0.0-alpine",
            kind: "major",
            state: "Failed",
            recommended: false,
            message: "the registry responded with 403 Forbidden",
          },
        ],
      },
      {
        repository,
        tag: "1.29.3",
        state: "Failed",
        lookedUpAt,
        listed: 100_000,
        incomplete: "the repository has more than 100000 tags",
        failureReason: "RegistryRateLimited",
        failureMessage: "the registry responded with 429 Too Many Requests",
        nextAttemptAt: new Date(clock.now() + 3600_000).toISOString(),
        reason: "Newest",
        message: "no tag of the same variant as 1.29.3 has a higher version",
        tags: [],
      },
    ],
  };
}
