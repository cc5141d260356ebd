import { useQueryClient } from "@tanstack/react-query";
import { createContext, useContext, useEffect, useMemo, useSyncExternalStore, type ReactNode } from "react";
import { EventKind } from "@/gen/model";
import { getListEventsUrl } from "@/gen/operator/operator";
import { Coalescer } from "@/lib/coalesce";
import { parseEvent } from "@/lib/events";
import { invalidateAll, refreshInterval } from "@/lib/lists";
import { LiveConnection, parseMessage, socketURL, type LiveStatus } from "@/lib/live";
import { Refresher } from "./refresher";

const decisionKinds: EventKind[] = [EventKind.decisionchanged, EventKind.decisionexpired];

const offlinePoll = 30_000;
const onlinePoll = 60_000;

interface Live {
  status: LiveStatus;
  reconnect: () => void;
}

const LiveContext = createContext<Live>({ status: "connecting", reconnect: () => undefined });

export const useLive = () => useContext(LiveContext);

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
    const all = new Coalescer(
      () => invalidateAll(client),
      () => refreshInterval(client),
    );
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
