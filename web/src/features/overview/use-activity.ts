import { useEffect, useState } from "react";
import { useLimits } from "@/features/session/namespaces";
import { getListEventsUrl, listEvents } from "@/gen/operator/operator";
import { LiveConnection, socketURL } from "@/lib/live";
import { ApiError } from "@/lib/problem";
import {
  activityKinds,
  addActivity,
  describeEvent,
  parseMessage,
  type Activity,
  type Message,
  type Position,
} from "./activity-event";

const shown = 8;
/** How often the list changes at most, in milliseconds. */
const interval = 1000;
/** How many events a request goes back, and how many requests look for those that are shown first. */
const recent = 1000;
const requests = 5;
/** After a longer interruption, in milliseconds, the newest events are read again in place of all that came meanwhile. */
const longest = 10 * 60_000;

interface Past {
  /** The latest last. */
  lines: Activity[];
  position: Position;
}

/** Reads the newest lines. */
async function readRecent(signal: AbortSignal): Promise<Past> {
  const { last, sequence, logId } = await listEvents({ limit: 1 }, { signal });
  let since = last;
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
  return { lines, position: { since: sequence, ...(logId && { logId }) } };
}

type Reading = { state: "reading" | "read" } | { state: "failed"; error: unknown };

/**
 * The newest events, the latest first. Users who see some namespaces get those since the page was opened, or since events
 * were missed.
 */
export function useActivity() {
  const [lines, setLines] = useState<Activity[]>([]);
  const [past, setPast] = useState<Reading>({ state: "reading" });
  const [attempt, setAttempt] = useState(0);
  const [missed, setMissed] = useState(false);
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
    // Up to where events were received: a new connection asks for those that came meanwhile.
    let position: Position = {};
    let complete = limited;
    let lost = Infinity;
    const miss = () => {
      position = {};
      if (limited) setMissed(true);
      else complete = false;
    };
    const read = async () => {
      try {
        const past = await readRecent(stop.signal);
        if (stop.signal.aborted) return;
        complete = true;
        if (position.since === undefined) position = past.position;
        setLines((before) => addActivity(before, past.lines, shown));
        setPast({ state: "read" });
      } catch (error) {
        if (!stop.signal.aborted) setPast({ state: "failed", error });
      }
    };
    const connection = new LiveConnection<Message>({
      url: () => {
        if (performance.now() - lost > longest) miss();
        return socketURL(getListEventsUrl({ kind: activityKinds, ...position }));
      },
      parse: parseMessage,
      onMessage: (message) => {
        if (message.reset) miss();
        if (!message.hello || position.since === undefined) position = message.position;
        if (message.line) add([message.line]);
        if (message.reset && !complete) void read();
      },
      onOnline: () => {
        lost = Infinity;
        if (!complete) void read();
      },
      onOffline: () => {
        lost = Math.min(lost, performance.now());
      },
    });
    // What happens after the past was read is told by the connection, which begins there.
    void (limited ? Promise.resolve() : read()).then(() => {
      if (!stop.signal.aborted) connection.open();
    });
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
    missed,
    reading: !limited && past.state === "reading",
    error: past.state === "failed" ? past.error : undefined,
    retry,
  };
}
