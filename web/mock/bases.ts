import type { BaseImage, BaseSummary, Image, ListedBase, WorkloadSummary } from "../src/gen/model/index.ts";
import { noCounts } from "./data.ts";

/** What images of a distribution were built on. Only the base images of Debian are known; they are listed. */
export function baseOf(distro: string): BaseImage {
  const digit = (distro.length % 16).toString(16);
  return {
    layers: 1 + (distro.length % 3),
    chainId: `sha256:${Array.from(distro, (char) => (char.charCodeAt(0) % 16).toString(16))
      .join("")
      .padEnd(64, digit)}`,
    source: distro.startsWith("debian") ? "listed" : "shared",
    ...(distro.startsWith("debian") && {
      imageId: `docker.io/library/debian@sha256:${digit.repeat(64)}`,
      platform: "linux/amd64",
    }),
    ...(distro.startsWith("alpine") && { statedName: `docker.io/library/${distro}` }),
  };
}

/** The list of base images. */
export const listedBases: ListedBase[] = [
  { pattern: "docker.io/library/debian", images: 3 },
  { pattern: "registry.example.com/base/*", images: 0 },
];

/** The workloads that run an image on a base image. */
export function workloadsOn(chainId: string, workloads: WorkloadSummary[], images: Image[]) {
  const on = new Set(images.filter(({ base }) => base?.chainId === chainId).map(({ imageId }) => imageId));
  return workloads.filter((row) => row.images.some(({ imageId }) => on.has(imageId)));
}

/** The base images of images, by the number of images on them. */
export function makeBases(
  images: Image[],
  params: URLSearchParams,
  workloads: WorkloadSummary[],
): BaseSummary[] {
  const bases = new Map<string, BaseSummary>();
  for (const { base, counts, matchedAt } of params.get("namespace") === "nowhere" ? [] : images) {
    if (!base?.chainId) continue;
    const { imageId, platform, statedName } = base;
    const sum = bases.get(base.chainId) ?? {
      ...(imageId && { imageId }),
      ...(platform && { platform }),
      ...(statedName && { statedName }),
      chainId: base.chainId,
      layers: base.layers ?? 1,
      source: base.source ?? "shared",
      ...(base.imageId && { imageCounts: { ...noCounts(), high: 3, medium: 12, low: 20 } }),
      images: 0,
      scanned: 0,
      workloads: 0,
      counts: noCounts(),
    };
    sum.images++;
    if (matchedAt) sum.scanned++;
    for (const key of Object.keys(counts) as (keyof typeof counts)[]) sum.counts[key] += counts[key];
    bases.set(base.chainId, sum);
  }
  for (const sum of bases.values()) sum.workloads = workloadsOn(sum.chainId, workloads, images).length;
  const bySeverity = params.get("sort") === "-severity";
  return [...bases.values()].sort((a, b) =>
    bySeverity ? b.counts.critical - a.counts.critical : b.images - a.images,
  );
}
