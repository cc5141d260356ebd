/** What a message of the feed is about. */
export type Kind = "processed" | "changed" | "deleted" | "other";

export interface Message {
  kind: Kind;
  text: string;
  /** The time of the operator, for the messages that have one. */
  at?: string;
}

const maxTextLength = 2048;

/** Reads a message: a JSON object with timestamp and message, or plain text, which is never refused. */
export function parseMessage(data: unknown): Message | undefined {
  if (typeof data !== "string" || data === "") return undefined;
  return parseChange(data) ?? { kind: kindOf(data), text: data.slice(0, maxTextLength) };
}

function parseChange(data: string): Message | undefined {
  if (!data.startsWith("{")) return undefined;
  try {
    const { timestamp, message } = JSON.parse(data) as { timestamp?: unknown; message?: unknown };
    if (typeof message !== "string") return undefined;
    return {
      kind: "changed",
      text: message.slice(0, maxTextLength),
      ...(typeof timestamp === "string" && !Number.isNaN(Date.parse(timestamp)) && { at: timestamp }),
    };
  } catch {
    return undefined;
  }
}

function kindOf(text: string): Kind {
  if (text.startsWith("Successfully processed deployment: ")) return "processed";
  return /^Deployment \S+ (has been )?deleted$/.test(text) ? "deleted" : "other";
}
