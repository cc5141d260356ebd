import type {
  Change,
  ChangeCounts,
  ChangeKind,
  ChangeReason,
  ChangeSide,
  Database,
  DatabaseBuild,
  Image,
  Severity,
} from "../src/gen/model/index.ts";
import { generator, packages } from "./data.ts";
import { hostileTexts } from "./hostile.ts";
import * as clock from "./clock.ts";

export const noChanges = (): ChangeCounts => ({
  opened: 0,
  closed: 0,
  changed: 0,
  images: 0,
  openedCritical: 0,
  newKev: 0,
});

const severities: Severity[] = ["Critical", "High", "Medium", "Low", "Negligible", "Unknown"];
const reasons: ChangeReason[][] = [["severity"], ["fix"], ["epss"], ["kev"], ["severity", "fix", "kev"]];
const workloads = ["checkout-api", "ledger", "storefront", "trace-collector", "coredns", "kube-proxy"];
const namespaces = ["payments", "web", "platform", "kube-system"];

/** What one build changed, worst first as the operator gives it. */
export function makeChanges(count: number, images: Image[], database: Database): Change[] {
  const random = generator(11 + database.generation);
  const pick = <T>(list: T[], fallback: T) => list[Math.floor(random() * list.length)] ?? fallback;
  const side = (severity: Severity): ChangeSide => {
    const fixed = random() < 0.6;
    return {
      severity,
      fixState: fixed ? "fixed" : "not-fixed",
      ...(fixed && { fixVersions: [`${1 + Math.floor(random() * 9)}.${Math.floor(random() * 40)}.1`] }),
      epss: random() ** 6 * 0.6,
      kev: random() < 0.02,
    };
  };
  const kindOf = (roll: number): ChangeKind => (roll < 0.5 ? "opened" : roll < 0.72 ? "closed" : "changed");
  return Array.from({ length: count }, (_, index): Change => {
    const severity = severities[Math.min(5, Math.floor((6 * index) / count))] ?? "Unknown";
    const kind = kindOf(random());
    const [name, version, type] = pick(packages, ["openssl", "3.0.11", "deb", ""]);
    const reached = Math.floor(random() ** 3 * 60);
    const first = Math.floor(random() * images.length);
    return {
      id: database.generation * 100_000 + index,
      generation: database.generation,
      build: database.id,
      previousBuild: database.previousBuild ?? "",
      at: database.currentSince ?? database.startedAt,
      kind,
      reasons: kind === "changed" ? pick(reasons, ["severity"]) : [],
      package: {
        id: `${name} ${version}`,
        name,
        version,
        type,
        purl: `pkg:${type}/${name}@${version}`,
        ...(type === "deb" && { distro: "debian:12" }),
      },
      vulnerabilityId: `CVE-${2019 + Math.floor(random() * 8)}-${1000 + index}`,
      namespace: type === "deb" ? "debian:distro:debian:12" : "github:language:go",
      ...(kind !== "opened" && { before: side(kind === "changed" ? pick(severities, "Low") : severity) }),
      ...(kind !== "closed" && { after: side(severity) }),
      images: reached,
      imageIds: images.slice(first, first + Math.min(20, reached)).map(({ imageId }) => imageId),
      workloads: Array.from({ length: Math.min(20, Math.ceil(reached / 3)) }, () => ({
        namespace: pick(namespaces, "default"),
        kind: random() < 0.8 ? "Deployment" : "DaemonSet",
        name: pick(workloads, "app"),
      })),
    };
  });
}

export function hostileChanges(): Change[] {
  return hostileTexts.map((text, index) => ({
    id: index,
    generation: 2,
    build: text,
    previousBuild: text,
    at: text,
    kind: (["opened", "closed", "changed"] as const)[index % 3] ?? "opened",
    reasons: ["kev", text as ChangeReason],
    package: { id: text, name: text, version: text, type: text, purl: text, distro: text },
    vulnerabilityId: text,
    namespace: text,
    before: { severity: text as Severity, fixState: "fixed", fixVersions: [text], epss: 2, kev: true },
    after: { severity: "High", fixState: "fixed", fixVersions: [text], epss: -1, kev: true },
    images: 1e9,
    imageIds: hostileTexts,
    workloads: [{ namespace: text, kind: text, name: text }],
  }));
}

const countChanges = (changes: Change[], images: number): ChangeCounts => ({
  opened: changes.filter(({ kind }) => kind === "opened").length,
  closed: changes.filter(({ kind }) => kind === "closed").length,
  changed: changes.filter(({ kind }) => kind === "changed").length,
  images,
  openedCritical: changes.filter(({ kind, after }) => kind === "opened" && after?.severity === "Critical")
    .length,
  newKev: changes.filter(({ before, after }) => after?.kev && !before?.kev).length,
});

export const buildId = (generation: number) => `xxh64:${generation.toString(16).padStart(2, "0").repeat(8)}`;

/** The generations up to the one in use, newest first, and what each of them changed. */
export function makeDatabases(build: DatabaseBuild, images: Image[], count: number, past: number) {
  const changes = new Map<number, Change[]>();
  const items = Array.from({ length: past + 1 }, (_, age): Database => {
    const generation = past + 1 - age;
    const since = new Date(Date.parse(build.built) + 7_200_000 - age * 86_400_000).toISOString();
    const database: Database = {
      ...build,
      id: age === 0 ? build.id : buildId(generation),
      built: new Date(Date.parse(build.built) - age * 86_400_000).toISOString(),
      images: age === 0 ? images.filter(({ state }) => state === "Scanned").length : 0,
      age: Math.floor((clock.now() - Date.parse(build.built)) / 1000) + age * 86_400,
      generation,
      state: age === 0 ? "Current" : "Past",
      engine: "grype v0.116.0",
      full: generation === 1,
      ...(generation > 1 && { previousBuild: buildId(generation - 1) }),
      startedAt: since,
      currentSince: since,
      queued: generation === 1 ? 2569 : 184,
      matched: generation === 1 ? 2569 : 184,
      changes: noChanges(),
    };
    if (generation === 1) return database;
    const made = makeChanges(age === 0 ? count : Math.ceil(count / (age + 2)), images, database);
    changes.set(generation, made);
    return { ...database, changes: countChanges(made, Math.min(images.length, 90)) };
  });
  return { items, changes };
}
