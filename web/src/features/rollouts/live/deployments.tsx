import { Pause, Play, TextCursorInput } from "lucide-react";
import { useState } from "react";
import { NamespaceFilter } from "@/components/filter-fields";
import { Button } from "@/components/ui/button";
import { FilterBar } from "@/components/ui/filter-bar";
import { StatePanel } from "@/components/ui/state";
import { TextFilter } from "@/components/ui/text-filter";
import type { FollowDeploymentsParams } from "@/gen/model";
import { formatNumber, plural } from "@/lib/format";
import { toScope, type RolloutFilters } from "../filters";
import { maxLines } from "./feed";
import { Lines } from "./lines";
import { isDeploymentName, isNamespaceName } from "./name";
import { FeedStatus, Situation } from "./situation";
import { useFeed } from "./use-feed";

interface Props {
  filters: RolloutFilters;
  update: (change: Partial<RolloutFilters>) => void;
}

/** What happens to Deployments while one looks. */
export function Deployments({ filters, update }: Props) {
  const { namespace, deployment } = toScope(filters);
  const wrong =
    namespace !== undefined && !isNamespaceName(namespace)
      ? "namespace"
      : deployment !== undefined && !isDeploymentName(deployment)
        ? "Deployment"
        : undefined;
  return (
    <>
      <FilterBar
        label="Live Deployments"
        count=""
        filtered={namespace !== undefined || deployment !== undefined}
        onClear={() => update({ namespace: "", workload: "" })}
      >
        <NamespaceFilter value={filters.namespace} onChange={(value) => update({ namespace: value })} />
        <TextFilter
          label="Deployment"
          placeholder="Deployment"
          value={filters.workload}
          maxLength={253}
          onChange={(workload) => update({ workload })}
          className="w-44"
        />
      </FilterBar>
      <h2 className="sr-only">Live Deployments</h2>
      {wrong ? (
        <div className="mt-3 rounded-xl border border-line bg-surface shadow-card">
          <StatePanel icon={TextCursorInput} title={`Invalid ${wrong} name`}>
            <p>Names consist of lowercase letters, digits and hyphens. The filter matches the full name.</p>
          </StatePanel>
        </div>
      ) : (
        <Feed key={JSON.stringify([namespace, deployment])} namespace={namespace} deployment={deployment} />
      )}
    </>
  );
}

/** The messages of one scope. A pause holds what is shown; messages come in all the same. */
function Feed(scope: FollowDeploymentsParams) {
  const feed = useFeed(scope);
  const [held, setHeld] = useState<Pick<typeof feed, "lines" | "received">>();
  const { lines, received } = held ?? feed;
  const missed = feed.received - received;
  return (
    <div className="mt-3 rounded-xl border border-line bg-surface shadow-card">
      <div className="sticky top-(--bar) z-10 flex flex-wrap items-center gap-x-4 gap-y-2 rounded-t-xl border-b border-line bg-surface px-4 py-2">
        <FeedStatus status={feed.status} />
        <p className="tabular text-[13px] text-muted">
          {received > maxLines
            ? `the newest ${formatNumber(maxLines)} of ${plural(received, "message")}`
            : plural(received, "message")}
          {missed > 0 && `, ${formatNumber(missed)} more since the pause`}
        </p>
        {lines.length > 0 && (
          <Button
            size="sm"
            className="ml-auto"
            aria-pressed={held !== undefined}
            onClick={() => setHeld(held ? undefined : { lines: feed.lines, received: feed.received })}
          >
            {held ? <Play aria-hidden /> : <Pause aria-hidden />}
            {held ? "Resume" : "Pause"}
          </Button>
        )}
      </div>
      <Situation feed={feed} />
      {lines.length > 0 && <Lines lines={lines} />}
    </div>
  );
}
