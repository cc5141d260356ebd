import type { WorkloadExposures, WorkloadSummary } from "../src/gen/model/index.ts";
import * as clock from "./clock.ts";

const day = 86_400_000;

/** When workloads ran images with a vulnerability: the first one twice, and every third one no longer. */
export function makeExposures(workloads: WorkloadSummary[]): WorkloadExposures[] {
  const at = (days: number) => new Date(clock.now() - days * day).toISOString();
  return workloads.slice(0, 12).map(({ workload, images, imageCount }, index) => {
    const since = Math.max(60 - index, 2);
    const ended = {
      since: at(since),
      until: at(since - 1),
      end: (["Image", "Database", "Workload"] as const)[Math.floor(index / 3) % 3],
    };
    const exposures =
      index === 0 ? [ended, { since: at(20) }] : index % 3 === 0 ? [ended] : [{ since: at(since) }];
    return {
      workload,
      since: at(since),
      exposures,
      exposureCount: exposures.length,
      images,
      imageCount,
      packages: ["log4j-core", "openssl"].slice(0, 1 + (index % 2)),
      packageCount: 1 + (index % 2),
      ...(index === 1 && { suppressed: true }),
    };
  });
}
