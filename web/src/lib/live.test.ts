import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { backoff, LiveConnection, parseMessage } from "./live";

class FakeSocket {
  static all: FakeSocket[] = [];
  onopen: (() => void) | null = null;
  onclose: (() => void) | null = null;
  onmessage: ((event: { data: unknown }) => void) | null = null;
  close = vi.fn();
  constructor() {
    FakeSocket.all.push(this);
  }
}

const open: LiveConnection[] = [];
const last = () => FakeSocket.all.at(-1) ?? new FakeSocket();

function connect() {
  const onMessage = vi.fn();
  const onOnline = vi.fn();
  const onOffline = vi.fn();
  const live = new LiveConnection({
    url: "ws://test/subscribe",
    parse: parseMessage,
    onMessage,
    onOnline,
    onOffline,
    random: () => 1,
    connect: () => new FakeSocket() as unknown as WebSocket,
  });
  live.open();
  open.push(live);
  return { live, onMessage, onOnline, onOffline };
}

beforeEach(() => {
  vi.useFakeTimers();
  FakeSocket.all = [];
});
afterEach(() => {
  for (const live of open.splice(0)) live.close();
  vi.useRealTimers();
});

describe("backoff", () => {
  it("stays between 1 s and 30 s and grows", () => {
    for (let attempt = 0; attempt < 50; attempt++) {
      expect(backoff(attempt, () => 0)).toBe(1000);
      expect(backoff(attempt, () => 1)).toBeLessThanOrEqual(30_000);
    }
    expect([0, 1, 2, 3, 4, 5].map((attempt) => backoff(attempt, () => 1))).toEqual([
      2000, 4000, 8000, 16_000, 30_000, 30_000,
    ]);
  });
});

describe("parseMessage", () => {
  it.each([['"a@sha256:1"', "a@sha256:1"]])("accepts %s", (data, want) =>
    expect(parseMessage(data)).toBe(want),
  );
  it.each(['""', "{}", "not json", "1", "null", new ArrayBuffer(1), JSON.stringify("x".repeat(5000))])(
    "ignores what is no image ID (%#)",
    (data) => expect(parseMessage(data)).toBeUndefined(),
  );
});

describe("LiveConnection", () => {
  it("reports messages while it is online", () => {
    const { live, onMessage, onOnline } = connect();
    expect(live.status).toBe("connecting");
    last().onopen?.();
    expect(live.status).toBe("online");
    expect(onOnline).toHaveBeenCalledTimes(1);
    last().onmessage?.({ data: '"image"' });
    expect(onMessage).toHaveBeenCalledWith("image");
  });

  it("reconnects with growing waits and asks for everything again", () => {
    const { live, onOnline, onOffline } = connect();
    last().onclose?.();
    expect(live.status).toBe("offline");
    expect(onOffline).toHaveBeenCalledExactlyOnceWith(true);
    vi.advanceTimersByTime(1999);
    expect(FakeSocket.all).toHaveLength(1);
    vi.advanceTimersByTime(1);
    expect(FakeSocket.all).toHaveLength(2);
    last().onclose?.();
    vi.advanceTimersByTime(4000);
    expect(FakeSocket.all).toHaveLength(3);
    last().onopen?.();
    expect(live.status).toBe("online");
    expect(onOnline).toHaveBeenCalledTimes(1);
  });

  it("starts with short waits again only after a connection stood for a while", () => {
    connect();
    for (let loss = 0; loss < 3; loss++) {
      last().onopen?.();
      last().onclose?.();
      vi.advanceTimersByTime(8000);
    }
    expect(FakeSocket.all).toHaveLength(4);
    last().onopen?.();
    vi.advanceTimersByTime(5000);
    last().onclose?.();
    vi.advanceTimersByTime(2000);
    expect(FakeSocket.all).toHaveLength(5);
  });

  it("drops the connection when the network goes and dials at once when it is back", () => {
    const { live, onOffline } = connect();
    last().onopen?.();
    window.dispatchEvent(new Event("offline"));
    expect(live.status).toBe("offline");
    expect(onOffline).toHaveBeenCalledExactlyOnceWith(false);
    window.dispatchEvent(new Event("online"));
    expect(FakeSocket.all).toHaveLength(2);
  });

  it("leaves nothing behind when it is closed", () => {
    const { live, onOffline } = connect();
    last().onclose?.();
    live.close();
    vi.advanceTimersByTime(60_000);
    window.dispatchEvent(new Event("online"));
    expect(FakeSocket.all).toHaveLength(1);
    expect(onOffline).toHaveBeenCalledTimes(1);
  });
});
