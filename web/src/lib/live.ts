import { below } from "./base-path";

export type LiveStatus = "connecting" | "online" | "offline";

export interface LiveOptions<Message> {
  /** Asked for each time a connection is made. */
  url: string | (() => string);
  /** Reads what a message holds; undefined for one to pass over. */
  parse: (data: unknown) => Message | undefined;
  onMessage: (message: Message) => void;
  /** Called whenever a connection stands; everything may have changed meanwhile. */
  onOnline: () => void;
  /** Called when a connection is lost, or was refused before it stood. */
  onOffline: (refused: boolean) => void;
  random?: () => number;
  connect?: (url: string) => WebSocket;
}

const minDelay = 1000;
const maxDelay = 30_000;
/** A connection that stood this long counts as good: the next loss starts with short waits again. */
const steadyAfter = 5000;
const maxMessageLength = 4096;

/** How long to wait before attempt n (from 0): between 1 s and 30 s, with jitter. */
export function backoff(attempt: number, random: () => number): number {
  const ceiling = Math.min(maxDelay, minDelay * 2 ** Math.min(attempt + 1, 10));
  return Math.round(minDelay + random() * (ceiling - minDelay));
}

/** The address of a WebSocket of the operator that serves this page. */
export const socketURL = (path: string) =>
  `${window.location.protocol === "https:" ? "wss" : "ws"}://${window.location.host}${below(path)}`;

/** A WebSocket that reconnects until it is closed. */
export class LiveConnection<Message = string> {
  #options: Required<LiveOptions<Message>>;
  #socket: WebSocket | undefined;
  #status: LiveStatus = "connecting";
  #listeners = new Set<() => void>();
  #attempt = 0;
  #retry: number | undefined;
  #steady: number | undefined;
  #closed = true;

  constructor(options: LiveOptions<Message>) {
    this.#options = { random: Math.random, connect: (url) => new WebSocket(url), ...options };
  }

  get status(): LiveStatus {
    return this.#status;
  }

  subscribe = (listener: () => void) => {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  };

  getStatus = () => this.#status;

  open = () => {
    if (!this.#closed) return;
    this.#closed = false;
    window.addEventListener("online", this.reconnectNow);
    window.addEventListener("offline", this.#onNetworkLost);
    document.addEventListener("visibilitychange", this.#onVisible);
    this.#setStatus("connecting");
    this.#dial();
  };

  close = () => {
    this.#closed = true;
    window.removeEventListener("online", this.reconnectNow);
    window.removeEventListener("offline", this.#onNetworkLost);
    document.removeEventListener("visibilitychange", this.#onVisible);
    this.#drop();
  };

  reconnectNow = () => {
    if (this.#closed || this.#socket) return;
    window.clearTimeout(this.#retry);
    this.#dial();
  };

  #onVisible = () => {
    if (document.visibilityState === "visible") this.reconnectNow();
  };

  #onNetworkLost = () => {
    if (this.#socket) this.#lost();
  };

  #dial() {
    this.#retry = undefined;
    let socket: WebSocket;
    try {
      const { url, connect } = this.#options;
      socket = connect(typeof url === "string" ? url : url());
    } catch {
      this.#lost();
      return;
    }
    this.#socket = socket;
    const current = () => this.#socket === socket;
    socket.onopen = () => {
      if (!current()) return;
      this.#steady = window.setTimeout(() => (this.#attempt = 0), steadyAfter);
      this.#setStatus("online");
      this.#options.onOnline();
    };
    socket.onmessage = (event: MessageEvent<unknown>) => {
      const message = this.#options.parse(event.data);
      if (current() && message !== undefined) this.#options.onMessage(message);
    };
    socket.onclose = () => {
      if (current()) this.#lost();
    };
  }

  #lost() {
    this.#drop();
    if (this.#closed) return;
    this.#retry = window.setTimeout(() => this.#dial(), backoff(this.#attempt, this.#options.random));
    this.#attempt++;
    const refused = this.#status !== "online";
    this.#setStatus("offline");
    this.#options.onOffline(refused);
  }

  #drop() {
    window.clearTimeout(this.#retry);
    window.clearTimeout(this.#steady);
    const socket = this.#socket;
    this.#socket = undefined;
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
  }

  #setStatus(status: LiveStatus) {
    if (this.#status === status) return;
    this.#status = status;
    for (const listener of this.#listeners) listener();
  }
}

/** Each message of /subscribe is a JSON string, an image ID; anything else is ignored. */
export function parseMessage(data: unknown): string | undefined {
  if (typeof data !== "string" || data.length > maxMessageLength) return undefined;
  try {
    const value: unknown = JSON.parse(data);
    return typeof value === "string" && value !== "" ? value : undefined;
  } catch {
    return undefined;
  }
}
