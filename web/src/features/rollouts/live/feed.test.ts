import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ApiError } from "@/lib/problem";
import { DeploymentFeed, maxLines } from "./feed";
import { parseMessage } from "./message";
import { isDeploymentName, isNamespaceName } from "./name";

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

const last = () => FakeSocket.all.at(-1) ?? new FakeSocket();
const feeds: DeploymentFeed[] = [];

function follow(answer?: number) {
  const probe = vi.fn(() =>
    Promise.resolve(answer === undefined ? undefined : new ApiError(answer, "refused")),
  );
  const feed = new DeploymentFeed({
    url: "ws://test/api/wds/logs",
    probe,
    connect: () => new FakeSocket() as unknown as WebSocket,
  });
  feeds.push(feed);
  feed.open();
  return { feed, probe };
}

beforeEach(() => {
  vi.useFakeTimers();
  FakeSocket.all = [];
});
afterEach(() => {
  for (const feed of feeds.splice(0)) feed.close();
  vi.useRealTimers();
});

describe("a message", () => {
  it.each([
    ["Successfully processed deployment: web", { kind: "processed" }],
    ["Deployment web deleted", { kind: "deleted" }],
    ["Deployment shop/web has been deleted", { kind: "deleted" }],
    ["Something new", { kind: "other" }],
    ["{not json", { kind: "other" }],
    ['{"timestamp":"x"}', { kind: "other" }],
  ])("%s is shown as it is", (text, expected) => expect(parseMessage(text)).toEqual({ ...expected, text }));

  it("of a change has a time of its own, if it is one", () => {
    const change = { timestamp: "2026-01-31T12:00:00Z", message: "Deployment web updated" };
    expect(parseMessage(JSON.stringify(change))).toEqual({
      kind: "changed",
      text: change.message,
      at: change.timestamp,
    });
    expect(parseMessage(JSON.stringify({ ...change, timestamp: "noon" }))).toEqual({
      kind: "changed",
      text: change.message,
    });
  });

  it("is bounded, and text", () => {
    expect(parseMessage("x".repeat(9000))?.text).toHaveLength(2048);
    expect(parseMessage(JSON.stringify({ message: "x".repeat(9000) }))?.text).toHaveLength(2048);
    expect([parseMessage(""), parseMessage(new ArrayBuffer(1)), parseMessage(undefined)]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  });
});

it("knows which names there can be", () => {
  expect(["web", "a-1", "1", "x".repeat(63)].every(isNamespaceName)).toBe(true);
  expect(["Web", "a.b", "-a", "a-", "", "x".repeat(64)].some(isNamespaceName)).toBe(false);
  expect(["web", "a.b-c.d", "x".repeat(253)].every(isDeploymentName)).toBe(true);
  expect(["Web", "a..b", ".a", "a.", "a_b", "x".repeat(254)].some(isDeploymentName)).toBe(false);
});

describe("the feed", () => {
  it("shows the newest message first", () => {
    const { feed } = follow();
    last().onopen?.();
    last().onmessage?.({ data: "one" });
    last().onmessage?.({ data: "two" });
    vi.advanceTimersByTime(100);
    const { lines, status, received } = feed.getState();
    expect([status, received]).toEqual(["online", 2]);
    expect(lines.map(({ text }) => text)).toEqual(["two", "one", expect.stringMatching(/^Connected:/)]);
  });

  it("keeps the newest messages alone, and tells listeners of many at once", () => {
    const { feed } = follow();
    last().onopen?.();
    const listener = vi.fn();
    feed.subscribe(listener);
    for (let index = 1; index <= 3 * maxLines; index++) last().onmessage?.({ data: `message ${index}` });
    expect(listener).not.toHaveBeenCalled();
    vi.advanceTimersByTime(100);
    expect(listener).toHaveBeenCalledTimes(1);
    const { lines, received } = feed.getState();
    expect([lines.length, received]).toEqual([maxLines, 3 * maxLines]);
    expect([lines[0]?.text, lines.at(-1)?.text]).toEqual([
      `message ${3 * maxLines}`,
      `message ${2 * maxLines + 1}`,
    ]);
  });

  it("reconnects automatically, and says that all Deployments are listed", () => {
    const { feed, probe } = follow();
    last().onopen?.();
    last().onclose?.();
    expect(feed.getState().status).toBe("offline");
    expect(probe).not.toHaveBeenCalled();
    vi.advanceTimersByTime(2000);
    expect(FakeSocket.all).toHaveLength(2);
    last().onopen?.();
    expect(feed.getState()).toMatchObject({ status: "online", problem: undefined });
    expect(feed.getState().lines[0]?.text).toMatch(/^Reconnected/);
  });

  it.each([400, 401, 403, 404])("stops on %i until it is told to try again", async (status) => {
    const { feed } = follow(status);
    last().onclose?.();
    await vi.advanceTimersByTimeAsync(120_000);
    expect(feed.getState()).toMatchObject({ status: "stopped", problem: { status } });
    expect(FakeSocket.all).toHaveLength(1);
    feed.retry();
    expect(feed.getState()).toMatchObject({ status: "connecting", problem: undefined });
    expect(FakeSocket.all).toHaveLength(2);
  });

  it.each([0, 426, 429, 500, 503])("goes on after %i, and says why it waits", async (status) => {
    const { feed } = follow(status);
    last().onclose?.();
    await vi.advanceTimersByTimeAsync(0);
    expect(feed.getState()).toMatchObject({ status: "offline", problem: { status } });
    await vi.advanceTimersByTimeAsync(2000);
    expect(FakeSocket.all).toHaveLength(2);
    last().onopen?.();
    expect(feed.getState()).toMatchObject({ status: "online", problem: undefined });
  });

  it("passes over an answer that comes when it is connected again", async () => {
    const { feed } = follow(404);
    last().onclose?.();
    feed.retry();
    last().onopen?.();
    await vi.advanceTimersByTimeAsync(0);
    expect(feed.getState()).toMatchObject({ status: "online", problem: undefined });
  });

  it("leaves nothing behind when it is closed", () => {
    const { feed } = follow();
    last().onopen?.();
    last().onmessage?.({ data: "one" });
    feed.close();
    vi.advanceTimersByTime(60_000);
    expect(vi.getTimerCount()).toBe(0);
    expect(FakeSocket.all).toHaveLength(1);
  });
});
