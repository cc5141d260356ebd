import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link } from "react-router";
import { ImageName } from "@/components/image-name";
import { KevMark, SeverityBadge, SeverityCounts } from "@/components/severity";
import { LoadError } from "@/components/ui/load-error";
import { Skeleton } from "@/components/ui/skeleton";
import { listImages } from "@/gen/images/images";
import {
  ListImagesSort,
  ListVulnerabilitiesSort,
  ListWorkloadsSort,
  type Counts,
  type Severity,
} from "@/gen/model";
import { listVulnerabilities } from "@/gen/vulnerabilities/vulnerabilities";
import { listWorkloads } from "@/gen/workloads/workloads";
import { plural } from "@/lib/format";
import { imagePath } from "@/lib/image-id";
import { sumsKey } from "@/lib/lists";
import { imagesOfPath, vulnerabilityPath, workloadName } from "@/lib/paths";
import { visible } from "@/lib/text";
import { groupPath, type chosenBy, type Listed } from "./filters";

const shown = 10;

interface Row {
  to: string;
  name: ReactNode;
  severity?: Severity;
  /** Absent for what was not scanned yet. */
  counts?: Counts;
  kev: boolean;
}

interface Rows {
  rows: Row[];
  total: number;
}

type Load = (chosen: ReturnType<typeof chosenBy>, init: { signal: AbortSignal }) => Promise<Rows>;

const loads: Record<Listed, Load> = {
  images: async (chosen, init) => {
    const sort = ListImagesSort["-severity"];
    const { items, total } = await listImages({ ...chosen, sort, pageSize: shown }, init);
    return {
      total,
      rows: items.map(({ imageId, platform, counts, matchedAt }) => ({
        to: imagePath(imageId, platform),
        name: <ImageName imageId={imageId} />,
        counts: matchedAt === undefined ? undefined : counts,
        kev: counts.kev > 0,
      })),
    };
  },
  workloads: async (chosen, init) => {
    const sort = ListWorkloadsSort["-severity"];
    const { items, total } = await listWorkloads({ ...chosen, sort, pageSize: shown }, init);
    return {
      total,
      rows: items.map(({ workload, counts, scanned }) => ({
        to: imagesOfPath(workload),
        name: workloadName(workload),
        counts: scanned === 0 ? undefined : counts,
        kev: counts.kev > 0,
      })),
    };
  },
  vulnerabilities: async (chosen, init) => {
    const sort = ListVulnerabilitiesSort["-risk"];
    const { items, total } = await listVulnerabilities({ ...chosen, sort, pageSize: shown }, init);
    return {
      total,
      rows: items.map(({ id, severity, kev }) => ({
        to: vulnerabilityPath(id),
        name: visible(id),
        severity,
        kev,
      })),
    };
  },
};

const nouns: Record<Listed, [one: string, many: string]> = {
  images: ["image", "images"],
  workloads: ["workload", "workloads"],
  vulnerabilities: ["vulnerability", "vulnerabilities"],
};

/** The first rows of a group as the list has them, and the way to all of them. */
export function FirstRows({
  list,
  chosen,
  expected = shown,
}: {
  list: Listed;
  chosen: ReturnType<typeof chosenBy>;
  /** How many rows there are, as far as that is known. */
  expected?: number;
}) {
  const { data, error, refetch } = useQuery({
    queryKey: [...sumsKey, "first", list, chosen],
    queryFn: ({ signal }) => loads[list](chosen, { signal }),
  });
  return (
    <div className="border-t border-line bg-subtle/50 px-4 py-3 text-[13px] lg:pl-12">
      {error && <LoadError error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Loading rows={Math.min(expected, shown)} />}
      {data && (
        <>
          <ul>
            {data.rows.map((row, index) => (
              <li key={index} className="flex min-h-8 flex-wrap items-center gap-x-4 py-0.5 lg:flex-nowrap">
                <Link
                  to={row.to}
                  className="untrusted min-w-0 flex-1 basis-56 truncate leading-7 text-accent underline-offset-2 hover:underline"
                >
                  {row.name}
                </Link>
                <Findings row={row} />
              </li>
            ))}
          </ul>
          <p className="pt-2 leading-7">
            <Link
              to={groupPath(list, chosen)}
              className="tabular text-accent underline-offset-2 hover:underline"
            >
              List {data.total > 1 && "all "}
              {plural(data.total, ...nouns[list])}
            </Link>
          </p>
        </>
      )}
    </div>
  );
}

function Findings({ row: { severity, counts, kev } }: { row: Row }) {
  return (
    <span className="flex min-w-0 items-center gap-2 lg:w-96">
      {severity && <SeverityBadge severity={severity} />}
      {counts && (
        <span className="block w-75 min-w-0">
          <SeverityCounts counts={counts} />
        </span>
      )}
      {!severity && !counts && <span className="text-muted">Not scanned yet</span>}
      {kev && <KevMark />}
    </span>
  );
}

function Loading({ rows }: { rows: number }) {
  return (
    <div role="status">
      <span className="sr-only">Loading the rows of the group</span>
      {Array.from({ length: rows }, (_, index) => (
        <div key={index} className="flex h-8 items-center">
          <Skeleton className="h-3.5 w-72 max-w-full" />
        </div>
      ))}
      <div className="h-9" />
    </div>
  );
}
