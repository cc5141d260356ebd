import { EventKind, type Event, type ListEventsParams } from "@/gen/model";
import { plural } from "@/lib/format";
import { imagePath, parseImageId } from "@/lib/image-id";
import { visible } from "@/lib/text";

/** An event in one line. */
export interface Activity {
  at: string;
  text: string;
  /** Where more is known of it. */
  to: string;
  tone: "normal" | "bad";
}

/** What the activity shows. Single findings, and images that a database changes, are counted in the events about databases. */
export const activityKinds: EventKind[] = [
  EventKind.imagecataloged,
  EventKind.imagefailed,
  EventKind.imagereported,
  EventKind.imageintroduced,
  EventKind.databaseupdated,
  EventKind.databasestale,
  EventKind.rolloutevaluated,
  EventKind.coveragelost,
  EventKind.decisionchanged,
  EventKind.decisionexpired,
];

const maxLength = 256 * 1024;

type Fields = Record<string, unknown>;

const fields = (value: unknown): Fields =>
  typeof value === "object" && value !== null ? (value as Fields) : {};
const text = (value: unknown) => (typeof value === "string" ? value.slice(0, 512) : "");
const word = (value: unknown) => visible(text(value)).slice(0, 253);
const amount = (value: unknown) => (typeof value === "number" && Number.isFinite(value) ? value : 0);
const total = (counts: unknown) =>
  ["critical", "high", "medium", "low", "negligible", "unknown"].reduce(
    (sum, key) => sum + amount(fields(counts)[key]),
    0,
  );

/** Up to where the events were received: what asks for those that come after it. */
export type Position = Pick<ListEventsParams, "since" | "logId">;

export interface Message {
  /** A hello states where the log ends, which is not how far it was received if events are replayed. */
  hello: boolean;
  /** Events are missing. */
  reset: boolean;
  position: Position;
  line?: Activity;
}

const maxLogId = 128;

/** Reads a message of the events; undefined for one that says nothing. */
export function parseMessage(message: unknown): Message | undefined {
  if (typeof message !== "string" || message.length > maxLength) return undefined;
  try {
    const parsed: unknown = JSON.parse(message);
    const { type, sequence, logId } = fields(parsed);
    const known = ["hello", "event", "position", "reset"].some((name) => name === type);
    if (!known || !Number.isSafeInteger(sequence) || amount(sequence) < 0) return undefined;
    const line = describeEvent(parsed as Event);
    return {
      hello: type === "hello",
      reset: type === "reset",
      position: {
        since: amount(sequence),
        ...(typeof logId === "string" && logId !== "" && logId.length <= maxLogId && { logId }),
      },
      ...(line && { line }),
    };
  } catch {
    return undefined;
  }
}

/** Describes an event; undefined for one that is not shown. */
export function describeEvent(event: Event): Activity | undefined {
  const { type, at, kind } = fields(event) as Partial<Event>;
  if (type !== "event" || typeof at !== "string" || Number.isNaN(Date.parse(at))) return undefined;
  const data = fields(event.data);
  const name = word(parseImageId(text(event.imageId)).name);
  const toImage = imagePath(text(event.imageId), text(event.platform));
  const line = (words: string, to: string, tone: Activity["tone"] = "normal"): Activity => ({
    at,
    text: words,
    to,
    tone,
  });
  switch (kind) {
    case EventKind.imagecataloged:
      return line(`Cataloged ${name}: ${plural(amount(data.packages), "package")}`, toImage);
    case EventKind.imagefailed:
      return line(`Failed to scan ${name}: ${word(data.reason)}`, toImage, "bad");
    case EventKind.imagereported:
      return line(`Received a report about ${name}: ${plural(total(data.counts), "finding")}`, toImage);
    case EventKind.imageintroduced:
      return line(
        `${name} is new in ${word(data.namespace)}: ${plural(total(data.counts), "finding")}`,
        toImage,
        amount(data.kev) > 0 ? "bad" : "normal",
      );
    case EventKind.databaseupdated: {
      const changes = fields(data.changes);
      const changed =
        data.changes === undefined
          ? ""
          : `: ${amount(changes.opened)} opened, ${amount(changes.closed)} closed`;
      return line(`New vulnerability database${changed}`, "/database");
    }
    case EventKind.databasestale:
      return line("The vulnerability database is outdated", "/database", "bad");
    case EventKind.rolloutevaluated: {
      const workload = fields(data.workload);
      const opened = total(data.opened);
      return line(
        `Rollout of ${word(workload.namespace)}/${word(workload.name)}: ${opened} opened, ${total(data.closed)} closed`,
        `/rollouts/${amount(data.id)}`,
        opened > total(data.closed) ? "bad" : "normal",
      );
    }
    case EventKind.coveragelost:
      return line(
        `Coverage lost in ${word(data.namespace)}`,
        `/coverage?${new URLSearchParams({ namespace: word(data.namespace) }).toString()}`,
        "bad",
      );
    case EventKind.decisionchanged:
    case EventKind.decisionexpired: {
      const verb = kind === EventKind.decisionexpired ? "expired" : word(data.action) || "changed";
      const object = word(fields(data.object).name);
      return line(object ? `Decision ${object} ${verb}` : `Decisions ${verb}`, "/decisions");
    }
    default:
      return undefined;
  }
}

/** Tells lines apart. Sequence numbers of users who see some namespaces are those of a connection. */
export const activityKey = ({ at, text, to }: Activity) => `${at} ${to} ${text}`;

/** Adds lines to those that are shown, the latest first; one that came twice is shown once. */
export function addActivity(before: Activity[], added: Activity[], most: number): Activity[] {
  const lines = new Map(
    [...added]
      .reverse()
      .concat(before)
      .map((line) => [activityKey(line), line]),
  );
  return [...lines.values()].sort((a, b) => Date.parse(b.at) - Date.parse(a.at)).slice(0, most);
}
