import { LiveConnection, type LiveStatus } from "@/lib/live";
import type { ApiError } from "@/lib/problem";
import { parseMessage, type Message } from "./message";

/** Messages that are kept: older ones are forgotten. */
export const maxLines = 500;
const flushEvery = 100;

export interface Line extends Omit<Message, "kind"> {
  kind: Message["kind"] | "connected";
  /** Tells lines apart, and grows. */
  id: number;
  at: string;
}

export interface FeedState {
  /** Stopped: the operator says that trying again is of no use. */
  status: LiveStatus | "stopped";
  /** Why no connection stands, as far as the operator says. */
  problem: ApiError | undefined;
  /** The newest first. */
  lines: Line[];
  /** Messages that came in all, those that were forgotten included. */
  received: number;
}

export interface FeedOptions {
  url: string;
  /** Asks over HTTP why the WebSocket was refused, which a browser does not tell. */
  probe: () => Promise<ApiError | undefined>;
  connect?: (url: string) => WebSocket;
}

/** Answers after which trying again by itself is of no use. */
const final = [400, 401, 403, 404];

/** The newest messages about Deployments. It reconnects until it is closed, or the operator says that it has no feed. */
export class DeploymentFeed {
  #probe: FeedOptions["probe"];
  #connection: LiveConnection<Message>;
  #state: FeedState = { status: "connecting", problem: undefined, lines: [], received: 0 };
  #lines: Line[] = [];
  #received = 0;
  #nextId = 1;
  #flush: number | undefined;
  #listeners = new Set<() => void>();

  constructor({ probe, ...options }: FeedOptions) {
    this.#probe = probe;
    this.#connection = new LiveConnection<Message>({
      ...options,
      parse: parseMessage,
      onMessage: this.#add,
      onOnline: this.#online,
      onOffline: this.#offline,
    });
  }

  subscribe = (listener: () => void) => {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  };

  getState = () => this.#state;

  open = () => {
    this.#set({ status: "connecting", problem: undefined });
    this.#connection.open();
  };

  close = () => {
    this.#connection.close();
    window.clearTimeout(this.#flush);
    this.#flush = undefined;
  };

  /** Connects now, whatever the wait that is left. */
  retry = () => {
    if (this.#state.status === "stopped") this.open();
    else this.#connection.reconnectNow();
  };

  #add = (message: Message) => {
    this.#received++;
    this.#append({ ...message, at: message.at ?? new Date().toISOString(), id: this.#nextId++ });
  };

  #append(line: Line) {
    this.#lines.push(line);
    // Taken away in large pieces, so that each message costs little.
    if (this.#lines.length >= 2 * maxLines) this.#lines.splice(0, this.#lines.length - maxLines);
    this.#flush ??= window.setTimeout(() => {
      this.#flush = undefined;
      this.#set({});
    }, flushEvery);
  }

  #online = () => {
    const text =
      this.#nextId === 1
        ? "Connected: all existing Deployments are listed first"
        : "Reconnected: all existing Deployments are listed first";
    this.#append({ kind: "connected", text, at: new Date().toISOString(), id: this.#nextId++ });
    this.#set({ status: "online", problem: undefined });
  };

  #offline = (refused: boolean) => {
    this.#set({ status: "offline" });
    if (refused) void this.#ask();
  };

  async #ask() {
    const problem = await this.#probe();
    if (this.#state.status !== "offline") return;
    if (problem && final.includes(problem.status)) {
      this.#connection.close();
      this.#set({ status: "stopped", problem });
    } else this.#set({ problem });
  }

  #set(change: Pick<Partial<FeedState>, "status" | "problem">) {
    this.#state = {
      ...this.#state,
      ...change,
      lines: this.#lines.slice(-maxLines).reverse(),
      received: this.#received,
    };
    for (const listener of this.#listeners) listener();
  }
}
