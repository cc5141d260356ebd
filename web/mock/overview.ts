import { noCounts } from "./data.ts";
import type {
  ChangeCounts,
  Counts,
  CoverageSummary,
  DatabaseBuild,
  Image,
  Overview,
  OverviewChanges,
} from "../src/gen/model/index.ts";
import * as clock from "./clock.ts";

/** Whether something runs an image. */
export const isRunning = ({ state }: Image) => state !== "Reported";

export function makeOverview(
  images: Image[],
  database: DatabaseBuild | undefined,
  changes: ChangeCounts | undefined,
  databaseStale: boolean,
  coverage: CoverageSummary,
): Overview {
  const counts = noCounts();
  const runningCounts = noCounts();
  const byState = { pending: 0, failed: 0, cataloged: 0, scanned: 0, reported: 0 };
  for (const image of images) {
    for (const key of Object.keys(counts) as (keyof Counts)[]) {
      counts[key] += image.counts[key];
      if (isRunning(image)) runningCounts[key] += image.counts[key];
    }
    byState[image.state.toLowerCase() as keyof typeof byState]++;
  }
  return {
    images: byState,
    counts,
    runningCounts,
    packages: Math.round(images.length * 21.4),
    coverage,
    database,
    changes,
    databaseStale,
  };
}

/** What was opened and closed since yesterday, or since an earlier time. */
export function makeOverviewChanges(since: string | null): OverviewChanges {
  const many = since === "1d" ? 1 : 5;
  return {
    since: new Date(clock.now() - many * 86_400_000).toISOString(),
    knownSince: new Date(clock.now() - 40 * 86_400_000).toISOString(),
    opened: { ...noCounts(), critical: many, high: 2 * many, medium: 4 * many },
    closed: { ...noCounts(), high: many, low: many },
  };
}
