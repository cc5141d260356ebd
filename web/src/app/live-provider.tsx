import { useQueryClient, type QueryClient } from "@tanstack/react-query";
import { createContext, useContext, useEffect, useMemo, useSyncExternalStore, type ReactNode } from "react";
import { invalidateDatabases } from "@/features/database/queries";
import { hasLongList, invalidateImage, presencesKey, refreshRows } from "@/features/images/queries";
import { getGetOverviewQueryKey } from "@/gen/images/images";
import { EventKind } from "@/gen/model";
import { getGetSessionQueryKey, getListEventsUrl } from "@/gen/operator/operator";
import { getListPoliciesQueryKey } from "@/gen/policies/policies";
import { getGetTrendsQueryKey } from "@/gen/workloads/workloads";
import { Coalescer, type Batch } from "@/lib/coalesce";
import { parseEvent } from "@/lib/events";
import { invalidateLists, refreshInterval } from "@/lib/lists";
import { LiveConnection, parseMessage, socketURL, type LiveStatus } from "@/lib/live";

const decisionKinds: EventKind[] = [EventKind.decisionchanged, EventKind.decisionexpired];

const offlinePoll = 30_000;
const onlinePoll = 60_000;

interface Live {
  status: LiveStatus;
  reconnect: () => void;
}

const LiveContext = createContext<Live>({ status: "connecting", reconnect: () => undefined });

export const useLive = () => useContext(LiveContext);

/** Brings what is loaded up to date. REST stays the truth: messages only say what to ask for again. */
class Refresher {
  #client: QueryClient;
  #lists: Coalescer;
  #nextLists = 0;

  constructor(client: QueryClient) {
    this.#client = client;
    this.#lists = new Coalescer(this.#refreshLists);
  }

  start = () => this.#lists.start();
  stop = () => this.#lists.stop();

  apply = async ({ names, overflow }: Batch) => {
    const client = this.#client;
    this.#lists.add("lists", Math.max(0, this.#nextLists - performance.now()));
    await Promise.allSettled([
      client.invalidateQueries({ queryKey: getGetOverviewQueryKey() }),
      invalidateDatabases(client),
      ...names.map((name) => invalidateImage(client, name)),
      // Rows that are loaded change at once, though the list as a whole may have to wait.
      overflow || !hasLongList(client) ? undefined : refreshRows(client, names),
    ]);
  };

  /** What changes without a message that names an image: with time, with pods that come and go. */
  totals = () => {
    this.#lists.add("lists", Math.max(0, this.#nextLists - performance.now()));
    void this.#client.invalidateQueries({ queryKey: getGetOverviewQueryKey() });
    void this.#client.invalidateQueries({ queryKey: getGetTrendsQueryKey() });
    void this.#client.invalidateQueries({ queryKey: getListPoliciesQueryKey() });
    void this.#client.invalidateQueries({ queryKey: presencesKey });
    void invalidateDatabases(this.#client);
  };

  all = () => void this.#client.invalidateQueries();

  session = () => void this.#client.invalidateQueries({ queryKey: getGetSessionQueryKey() });

  #refreshLists = async () => {
    this.#nextLists = performance.now() + refreshInterval(this.#client);
    await invalidateLists(this.#client);
  };
}

export function LiveProvider({ children }: { children: ReactNode }) {
  const client = useQueryClient();
  const { connection, coalescer, refresher, all, decisions } = useMemo(() => {
    const refresher = new Refresher(client);
    const coalescer = new Coalescer(refresher.apply);
    const connection = new LiveConnection({
      url: socketURL("/subscribe"),
      parse: parseMessage,
      onMessage: (imageId) => coalescer.add(imageId),
      onOnline: refresher.all,
      onOffline: refresher.session,
    });
    // What exceptions change in lists is in no message about images.
    const all = new Coalescer(() => client.invalidateQueries());
    const decisions = new LiveConnection({
      url: socketURL(getListEventsUrl({ kind: decisionKinds })),
      parse: parseEvent(decisionKinds),
      onMessage: () => all.add("decisions", refreshInterval(client)),
      onOnline: () => undefined,
      onOffline: () => undefined,
    });
    return { connection, coalescer, refresher, all, decisions };
  }, [client]);

  useEffect(() => {
    coalescer.start();
    refresher.start();
    all.start();
    connection.open();
    decisions.open();
    return () => {
      connection.close();
      decisions.close();
      all.stop();
      coalescer.stop();
      refresher.stop();
    };
  }, [connection, coalescer, refresher, all, decisions]);

  const status = useSyncExternalStore(connection.subscribe, connection.getStatus);

  useEffect(() => {
    const visible = () => document.visibilityState === "visible";
    const refetch = () => {
      if (!visible()) return;
      if (status === "online") refresher.totals();
      else refresher.all();
    };
    const timer = window.setInterval(refetch, status === "online" ? onlinePoll : offlinePoll);
    return () => window.clearInterval(timer);
  }, [status, client, refresher]);

  const value = useMemo(() => ({ status, reconnect: connection.reconnectNow }), [status, connection]);
  return <LiveContext value={value}>{children}</LiveContext>;
}
