import { EventKind } from "@/gen/model";

export const followedKinds: EventKind[] = [EventKind.rolloutchanged, EventKind.rolloutevaluated];

const maxEventLength = 256 * 1024;

/** What a message of the events says of rollouts: the kind of the event, or reset when events are missing. */
export function parseRolloutEvent(data: unknown): string | undefined {
  if (typeof data !== "string" || data.length > maxEventLength) return undefined;
  try {
    const message: unknown = JSON.parse(data);
    if (typeof message !== "object" || message === null) return undefined;
    const { type, kind } = message as { type?: unknown; kind?: unknown };
    if (type === "reset") return type;
    return type === "event" ? followedKinds.find((followed) => followed === kind) : undefined;
  } catch {
    return undefined;
  }
}
