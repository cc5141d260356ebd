import type { EventKind } from "@/gen/model";

const maxEventLength = 256 * 1024;

/** Reads what a message of the events says: one of these kinds of events, or reset when events are missing. */
export const parseEvent =
  (kinds: readonly EventKind[]) =>
  (data: unknown): string | undefined => {
    if (typeof data !== "string" || data.length > maxEventLength) return undefined;
    try {
      const message: unknown = JSON.parse(data);
      if (typeof message !== "object" || message === null) return undefined;
      const { type, kind } = message as { type?: unknown; kind?: unknown };
      if (type === "reset") return type;
      return type === "event" ? kinds.find((followed) => followed === kind) : undefined;
    } catch {
      return undefined;
    }
  };
