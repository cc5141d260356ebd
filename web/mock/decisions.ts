import type { DecisionPage, DecisionRecord } from "../src/gen/model/index.ts";
import type { MockExceptions } from "./exceptions.ts";
import { hostileTexts } from "./hostile.ts";
import * as clock from "./clock.ts";

const day = 86_400_000;

/** Decisions that have ended, or that objects of others state. */
export function makeDecisions(count: number, hostile: boolean): DecisionRecord[] {
  return Array.from({ length: count }, (_, index) => {
    const text = hostileTexts[index % hostileTexts.length] ?? "";
    const ended = index % 4 === 3;
    const since = new Date(clock.now() - (index + 2) * day).toISOString();
    return {
      id: count - index,
      source: "kubernetes",
      object: { kind: "ClusterVulnerabilityException", name: hostile ? text : `accepted-${index}` },
      state: ended ? "ended" : "standing",
      status: index % 3 === 0 ? "NotAffected" : "AcceptedRisk",
      suppresses: index % 5 !== 4,
      match: {
        vulnerabilities: [hostile ? text : `CVE-2024-${1000 + index}`],
        packages: [hostile ? text : "pkg:deb/debian/openssl"],
      },
      comment: hostile ? text : "Accepted until the next release.",
      author: hostile ? text : "jane@example.com",
      since,
      ...(index % 2 === 0 && { expiresAt: new Date(clock.now() + (index + 5) * day).toISOString() }),
      ...(ended
        ? {
            until: new Date(clock.now() - day).toISOString(),
            endedBy: "Deleted",
            deletedBy: "jane@example.com",
          }
        : { matchedFindings: index * 3, suppressedFindings: index * 3 }),
      ...(index % 6 === 0 && {
        previous: {
          id: 100_000 + index,
          status: "UnderInvestigation",
          suppresses: false,
          match: {},
          since: new Date(clock.now() - (index + 30) * day).toISOString(),
          until: since,
          endedBy: "Changed",
        },
      }),
    } satisfies DecisionRecord;
  });
}

/** A page of the decisions, those of exceptions that were saved here first. */
export function pageOfDecisions(
  all: DecisionRecord[],
  exceptions: MockExceptions,
  params: URLSearchParams,
): DecisionPage {
  const saved = [...exceptions.items.values()].map(
    ({ kind, namespace, name, spec, author, createdAt }, index): DecisionRecord => ({
      id: 1_000_000 + index,
      source: "kubernetes",
      object: { kind, ...(namespace && { namespace }), name },
      state: "standing",
      status: spec.status,
      suppresses: spec.mode !== "DryRun",
      match: {
        ...(spec.match.vulnerabilities && { vulnerabilities: spec.match.vulnerabilities }),
        ...(spec.match.packages && { packages: spec.match.packages }),
        ...(spec.match.images && { images: spec.match.images }),
      },
      ...(spec.comment && { comment: spec.comment }),
      ...(spec.expiresAt && { expiresAt: spec.expiresAt }),
      ...(author && { author }),
      since: createdAt,
      matchedFindings: 12,
      suppressedFindings: 12,
    }),
  );
  const state = params.get("state") ?? "standing";
  const statuses = params.getAll("status");
  const vulnerability = (params.get("vulnerability") ?? "").toLowerCase();
  const rows = [...saved, ...all].filter(
    (row) =>
      (state === "all" || row.state === state) &&
      (statuses.length === 0 || statuses.includes(row.status)) &&
      (!params.get("name") || row.object.name === params.get("name")) &&
      (!vulnerability || (row.match.vulnerabilities ?? []).some((id) => id.toLowerCase() === vulnerability)),
  );
  const from = Number(params.get("pageToken") ?? 0);
  const end = from + Number(params.get("pageSize") ?? 100);
  return {
    items: rows.slice(from, end),
    total: rows.length,
    ...(end < rows.length && { nextPageToken: String(end) }),
  };
}
