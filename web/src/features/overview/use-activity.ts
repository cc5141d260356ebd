import { useEffect, useState } from "react";
import { useLimits } from "@/features/session/namespaces";
import { getListEventsUrl, listEvents } from "@/gen/operator/operator";
import { LiveConnection, socketURL } from "@/lib/live";
import { ApiError } from "@/lib/problem";
import { activityKinds, addActivity, describeEvent, parseActivity, type Activity } from "./activity-event";

const shown = 8;
/** How often the list changes at most, in milliseconds. */
const interval = 1000;
/** How many events a request goes back, and how many requests look for those that are shown first. */
const recent = 1000;
const requests = 5;

/** Reads the newest lines, the latest last. */
async function readRecent(signal: AbortSignal): Promise<Activity[]> {
  let { last: since } = await listEvents({ limit: 1 }, { signal });
  let lines: Activity[] = [];
  const read = async () => {
    const { items } = await listEvents({ since, kind: activityKinds, limit: recent }, { signal });
    lines = items.flatMap((event) => describeEvent(event) ?? []).concat(lines);
  };
  for (let request = 0; request < requests && lines.length < shown && since > 0; request++) {
    since = Math.max(0, since - recent);
    try {
      await read();
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 410)) throw error;
      since = 0; // Earlier events are gone: read what is left.
      await read();
    }
  }
  return lines;
}

type Reading = { state: "reading" | "read" } | { state: "failed"; error: unknown };

/** The newest events, the latest first. Users who see some namespaces get those since the page was opened. */
export function useActivity() {
  const [lines, setLines] = useState<Activity[]>([]);
  const [past, setPast] = useState<Reading>({ state: "reading" });
  const [attempt, setAttempt] = useState(0);
  const limited = useLimits() !== undefined;
  useEffect(() => {
    const stop = new AbortController();
    let waiting: Activity[] = [];
    let timer: number | undefined;
    const show = () => {
      timer = undefined;
      const added = waiting;
      waiting = [];
      setLines((before) => addActivity(before, added, shown));
    };
    const add = (added: Activity[]) => {
      waiting = [...waiting, ...added].slice(-recent);
      timer ??= window.setTimeout(show, interval);
    };
    const read = async () => {
      try {
        const added = await readRecent(stop.signal);
        if (stop.signal.aborted) return;
        setLines((before) => addActivity(before, added, shown));
        setPast({ state: "read" });
      } catch (error) {
        if (!stop.signal.aborted) setPast({ state: "failed", error });
      }
    };
    const connection = new LiveConnection<Activity>({
      url: socketURL(getListEventsUrl({ kind: activityKinds })),
      parse: parseActivity,
      onMessage: (line) => add([line]),
      // What came before the connection stood was not told.
      onOnline: () => {
        if (!limited) void read();
      },
      onOffline: () => undefined,
    });
    // The past is read even while no connection stands.
    if (!limited) void read();
    connection.open();
    return () => {
      stop.abort();
      window.clearTimeout(timer);
      connection.close();
    };
  }, [limited, attempt]);
  const retry = () => {
    setPast({ state: "reading" });
    setAttempt((before) => before + 1);
  };
  return {
    lines,
    limited,
    reading: !limited && past.state === "reading",
    error: past.state === "failed" ? past.error : undefined,
    retry,
  };
}
