import { useEffect, useMemo, useSyncExternalStore } from "react";
import { followDeployments, getFollowDeploymentsUrl } from "@/gen/workloads/workloads";
import type { FollowDeploymentsParams } from "@/gen/model";
import { socketURL } from "@/lib/live";
import { ApiError } from "@/lib/problem";
import { DeploymentFeed } from "./feed";

async function askWhy(scope: FollowDeploymentsParams): Promise<ApiError | undefined> {
  try {
    await followDeployments(scope);
    return undefined;
  } catch (error) {
    return error instanceof ApiError ? error : undefined;
  }
}

/** Follows Deployments for as long as the component is there; another scope begins anew. */
export function useFeed({ namespace, deployment }: FollowDeploymentsParams) {
  const feed = useMemo(() => {
    const scope = { namespace, deployment };
    return new DeploymentFeed({
      url: socketURL(getFollowDeploymentsUrl(scope)),
      probe: () => askWhy(scope),
    });
  }, [namespace, deployment]);
  useEffect(() => {
    feed.open();
    return feed.close;
  }, [feed]);
  return { ...useSyncExternalStore(feed.subscribe, feed.getState), retry: feed.retry };
}
