import { useList } from "@/components/ui/use-list";
import type {
  Affected,
  ListAffectedParams,
  ListVulnerabilitiesParams,
  VulnerabilitySummary,
} from "@/gen/model";
import { listAffected, listVulnerabilities } from "@/gen/vulnerabilities/vulnerabilities";
import { sumsKey } from "@/lib/lists";
import type { Time } from "./filters";

export const vulnerabilityKey = ({ id }: VulnerabilitySummary) => id;

export const useVulnerabilities = (params: ListVulnerabilitiesParams) =>
  useList({
    queryKey: [...sumsKey, "vulnerabilities", params],
    load: (page, init) => listVulnerabilities({ ...params, ...page }, init),
    rowKey: vulnerabilityKey,
  });

/** Tells apart what has one vulnerability. */
export const affectedKey = ({ imageId, platform, package: pkg, vulnerabilityId, ...row }: Affected) =>
  JSON.stringify([imageId, platform, pkg.id, vulnerabilityId, row.namespace, row.fixedAt ?? ""]);

/** Rows of another time are never shown as those of this one. */
export const useAffected = (id: string, time: Time, params: ListAffectedParams) =>
  useList<Affected, Awaited<ReturnType<typeof listAffected>>>({
    queryKey: [...sumsKey, "affected", id, time, params],
    load: (page, init) => listAffected(id, { ...params, ...page }, init),
    rowKey: affectedKey,
  });
