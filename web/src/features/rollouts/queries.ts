import { useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { useList } from "@/components/ui/use-list";
import type { ListRolloutsParams, Rollout } from "@/gen/model";
import { getListEventsUrl } from "@/gen/operator/operator";
import { listRollouts, useGetRollout } from "@/gen/workloads/workloads";
import { Coalescer } from "@/lib/coalesce";
import { listsKey, refreshInterval } from "@/lib/lists";
import { LiveConnection, socketURL } from "@/lib/live";
import { followedKinds, parseRolloutEvent } from "./event";

const rolloutsKey = [...listsKey, "rollouts"] as const;

const rolloutKey = ({ id }: Rollout) => String(id);

export const useRollouts = (params: ListRolloutsParams) =>
  useList({
    queryKey: [...rolloutsKey, params],
    load: (page, init) => listRollouts({ ...params, ...page }, init),
    rowKey: rolloutKey,
  });

/** One rollout; nothing is asked for what can be no ID of one. */
export function useRollout(id: number) {
  return useGetRollout(id, { query: { queryKey: [...rolloutsKey, "one", id], enabled: id > 0 } });
}

/** Fetches rollouts anew when an event says that there are others, or that one was evaluated. */
export function useRolloutEvents() {
  const client = useQueryClient();
  useEffect(() => {
    let next = 0;
    const coalescer = new Coalescer(() => {
      next = performance.now() + refreshInterval(client);
      return client.invalidateQueries({ queryKey: rolloutsKey });
    });
    const refresh = (why: string) => coalescer.add(why, Math.max(0, next - performance.now()));
    const connection = new LiveConnection({
      url: socketURL(getListEventsUrl({ kind: followedKinds })),
      parse: parseRolloutEvent,
      onMessage: refresh,
      // What came before the connection stood was not told.
      onOnline: () => refresh("online"),
      onOffline: () => undefined,
    });
    coalescer.start();
    connection.open();
    return () => {
      connection.close();
      coalescer.stop();
    };
  }, [client]);
}
