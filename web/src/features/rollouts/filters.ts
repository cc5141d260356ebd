import type { FollowDeploymentsParams, ListRolloutsParams } from "@/gen/model";
import { address, choice, day, orAbsent, text } from "@/lib/address";
import { endOf, startOf } from "@/lib/day";

export const tabs = { history: "history", live: "live" } as const;

export interface RolloutFilters {
  tab: keyof typeof tabs;
  namespace: string;
  /** The name of a workload; of a Deployment where Deployments are followed. */
  workload: string;
  owner: string;
  imageId: string;
  /** The first and the last day of UTC; empty for all. */
  since: string;
  until: string;
}

export const rolloutFilters = address<RolloutFilters>({
  tab: choice("tab", tabs, tabs.history),
  namespace: text("namespace", 253),
  workload: text("workload", 253),
  owner: text("owner", 253),
  imageId: text("image", 512),
  since: day("since"),
  until: day("until"),
});

export const toRequest = (filters: RolloutFilters): ListRolloutsParams => ({
  namespace: orAbsent(filters.namespace),
  workload: orAbsent(filters.workload),
  owner: orAbsent(filters.owner),
  imageId: orAbsent(filters.imageId),
  since: filters.since ? startOf(filters.since) : undefined,
  until: filters.until ? endOf(filters.until) : undefined,
});

export const toScope = ({ namespace, workload }: RolloutFilters): FollowDeploymentsParams => ({
  namespace: orAbsent(namespace),
  deployment: orAbsent(workload),
});
