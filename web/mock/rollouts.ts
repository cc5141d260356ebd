import { generator, makeCounts, noCounts, packages } from "./data.ts";
import { hostileTexts } from "./hostile.ts";
import type {
  Comparison,
  Image,
  RolloutDetail,
  RolloutFinding,
  RolloutSide,
  RolloutEvaluation,
  Severity,
  SeverityCounts,
} from "../src/gen/model/index.ts";
import * as clock from "./clock.ts";

const severities: Severity[] = ["Critical", "High", "Medium", "Low", "Negligible", "Unknown"];
const names = ["checkout-api", "ledger", "storefront", "trace-collector", "coredns", "worker"];
const namespaces = ["payments", "web", "platform", "kube-system"];
const hour = 3_600_000;
const maxFindings = 100;

/** How long ago, in milliseconds, a rollout was: the first is the latest. */
export const ageOf = (index: number) => (index + 1) * hour;

const sideOf = (image: Image): RolloutSide => ({
  imageId: image.imageId,
  platform: image.platform,
  state: image.state,
  ...(image.matchedAt !== undefined && { counts: image.counts }),
});

function countsOf(random: () => number, most: number): SeverityCounts {
  const counts = random() < 0.3 ? noCounts() : makeCounts(random);
  const upTo = (count: number) => Math.min(count, most);
  return {
    critical: upTo(counts.critical),
    high: upTo(counts.high),
    medium: upTo(counts.medium),
    low: upTo(counts.low),
    negligible: upTo(counts.negligible),
    unknown: upTo(counts.unknown),
  };
}

/** The worst findings that counts tell of, one page of them at most. */
function findingsOf(counts: SeverityCounts): RolloutFinding[] {
  const all = severities.flatMap((severity) =>
    Array.from(
      { length: counts[severity.toLowerCase() as Lowercase<Severity>] },
      (_, index): RolloutFinding => ({
        vulnerabilityId: `CVE-${2020 + (index % 7)}-${1000 + 31 * index}`,
        package: packages[index % packages.length]?.[0] ?? "openssl",
        severity,
        kev: severity === "Critical" && index === 0,
        fixable: index % 3 !== 2,
      }),
    ),
  );
  return all.slice(0, maxFindings);
}

function evaluationOf(index: number, at: string, to: Image, random: () => number): RolloutEvaluation {
  if (index % 9 === 1) {
    const reasons = ["NotCataloged", "NotMatched", "RegistryRateLimited", "NotKnown"];
    const reason = reasons[Math.floor(index / 9) % reasons.length] ?? "NotKnown";
    const message = reason.startsWith("Registry") ? { message: "TOOMANYREQUESTS: pull rate limit" } : {};
    return {
      state: "waiting",
      waitingFor: [{ imageId: to.imageId, platform: to.platform, reason, ...message }],
    };
  }
  if (index % 13 === 3) return { state: "timedOut", at };
  return { state: "evaluated", at, opened: countsOf(random, 90), closed: countsOf(random, 120) };
}

/** Rollouts, the latest first. */
export function makeRollouts(count: number, images: Image[]): RolloutDetail[] {
  const random = generator(31);
  if (images.length === 0) return [];
  return Array.from({ length: count }, (_, index) => {
    const from = images[(7 * index) % images.length];
    const to = images[(7 * index + 22) % images.length];
    if (!from || !to) throw new Error("no image");
    const at = new Date(clock.now() - ageOf(index)).toISOString();
    const evaluation = evaluationOf(index, at, to, random);
    return {
      id: count - index,
      at,
      ...(index % 5 === 0 && { cluster: "production-eu" }),
      workload: {
        namespace: namespaces[index % namespaces.length] ?? "web",
        kind: index % 4 === 0 ? "StatefulSet" : "Deployment",
        name: names[index % names.length] ?? "app",
      },
      container: index % 3 === 0 ? "sidecar" : "app",
      from: sideOf(from),
      to: sideOf(to),
      evaluation,
      opened: evaluation.opened ? findingsOf(evaluation.opened) : [],
      closed: evaluation.closed ? findingsOf(evaluation.closed) : [],
    };
  });
}

/** What the second image opens and closes. */
export function compareImages(from: Image, to: Image): Comparison {
  const sides = { from: sideOf(from), to: sideOf(to) };
  const unscanned = [from, to].find(({ matchedAt }) => matchedAt === undefined);
  if (unscanned) {
    const { imageId, platform } = unscanned;
    const waitingFor = [{ imageId, platform, reason: "NotCataloged" }];
    return { ...sides, evaluation: { state: "waiting", waitingFor }, opened: [], closed: [] };
  }
  const differences = (a: Image, b: Image) => {
    const counts = noCounts();
    for (const name of ["critical", "high", "medium", "low", "negligible", "unknown"] as const)
      counts[name] = Math.max(0, b.counts[name] - a.counts[name]);
    return counts;
  };
  const [opened, closed] = [differences(from, to), differences(to, from)];
  const evaluation: RolloutEvaluation = { state: "evaluated", opened, closed };
  return { ...sides, evaluation, opened: findingsOf(opened), closed: findingsOf(closed) };
}

export function hostileRollouts(): RolloutDetail[] {
  return hostileTexts.map((text, index) => {
    const side: RolloutSide = { imageId: text, platform: text, counts: { ...noCounts(), high: 7 } };
    const finding: RolloutFinding = {
      vulnerabilityId: text,
      package: text,
      severity: text as Severity,
      kev: true,
      fixable: true,
    };
    const evaluation: RolloutEvaluation =
      index % 2 === 0
        ? {
            state: "evaluated",
            at: text,
            opened: { ...noCounts(), critical: 1e9 },
            closed: { ...noCounts(), low: -1 },
          }
        : {
            state: "waiting",
            waitingFor: [{ imageId: text, platform: text, reason: text, message: text }],
          };
    return {
      id: index + 1,
      at: text,
      cluster: text,
      workload: { namespace: text, kind: text, name: text, owner: text },
      container: text,
      from: side,
      to: side,
      evaluation,
      opened: [finding],
      closed: [finding],
    };
  });
}
