import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { act, renderHook } from "@testing-library/react";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { ReactNode } from "react";
import type { SessionNamespaces } from "@/gen/model";
import { getGetSessionQueryKey } from "@/gen/operator/operator";
import { useActivity } from "./use-activity";

class FakeSocket {
  static all: FakeSocket[] = [];
  onopen: (() => void) | null = null;
  onclose: (() => void) | null = null;
  onmessage: ((event: { data: unknown }) => void) | null = null;
  close = vi.fn();
  constructor(readonly url: string) {
    FakeSocket.all.push(this);
  }
  receive(message: object) {
    this.onmessage?.({ data: JSON.stringify(message) });
  }
}

const event = (sequence: number) => ({
  type: "event",
  sequence,
  logId: `log-${sequence}`,
  at: new Date(Date.UTC(2026, 2, 1, 0, 0, sequence)).toISOString(),
  kind: "coverage.lost",
  data: { namespace: `n${sequence}` },
});

let failing = false;
let asked: URLSearchParams[] = [];

beforeEach(() => {
  vi.useFakeTimers();
  vi.spyOn(Math, "random").mockReturnValue(0);
  FakeSocket.all = [];
  asked = [];
  failing = false;
  vi.stubGlobal("WebSocket", FakeSocket);
  vi.spyOn(globalThis, "fetch").mockImplementation((input) => {
    const params = new URL(input as string, "http://test").searchParams;
    asked.push(params);
    if (failing) return Promise.resolve(new Response("{}", { status: 503 }));
    const items = params.has("since") ? [event(1), event(2)] : [];
    const page = { sequence: 2, logId: "log-2", last: 2, items };
    return Promise.resolve(
      new Response(JSON.stringify(page), { headers: { "Content-Type": "application/json" } }),
    );
  });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const everything: SessionNamespaces = { all: true, visible: 40, names: [], total: 40 };

async function start(namespaces = everything) {
  const client = new QueryClient();
  client.setQueryData(getGetSessionQueryKey(), {
    auth: "kubernetes",
    authenticated: true,
    user: "alice",
    canDelete: true,
    canUpdate: true,
    namespaces,
  });
  const wrapper = ({ children }: { children: ReactNode }) => (
    <QueryClientProvider client={client}>{children}</QueryClientProvider>
  );
  const { result, unmount } = renderHook(() => useActivity(), { wrapper });
  stops.push(unmount);
  await pass(0);
  return result;
}

const stops: (() => void)[] = [];
afterEach(() => stops.splice(0).forEach((stop) => stop()));

const pass = (time: number) => act(() => vi.advanceTimersByTimeAsync(time));
const socket = () => FakeSocket.all.at(-1) ?? new FakeSocket("");
const dialled = () => new URL(socket().url).searchParams;
const connect = async () => {
  act(() => {
    socket().onopen?.();
    socket().receive({ type: "hello", sequence: 9, logId: "log-9" });
  });
  await pass(0);
};
const textsOf = (result: { current: ReturnType<typeof useActivity> }) =>
  result.current.lines.map(({ text }) => text.replace("Coverage lost in ", ""));

it("reads the past once, and follows from there", async () => {
  const result = await start();
  expect(textsOf(result)).toEqual(["n2", "n1"]);
  const before = asked.length;
  expect([dialled().get("since"), dialled().get("logId")]).toEqual(["2", "log-2"]);
  await connect();
  act(() => socket().receive(event(3)));
  await pass(1000);
  expect(textsOf(result)).toEqual(["n3", "n2", "n1"]);
  expect(asked).toHaveLength(before);
});

it("asks after an interruption for what came meanwhile, and only for that", async () => {
  await start();
  await connect();
  act(() => socket().receive(event(3)));
  act(() => socket().receive({ type: "position", sequence: 5, logId: "log-5" }));
  const before = asked.length;
  act(() => socket().onclose?.());
  await pass(1000);
  expect(FakeSocket.all).toHaveLength(2);
  expect([dialled().get("since"), dialled().get("logId")]).toEqual(["5", "log-5"]);
  await connect();
  expect(asked).toHaveLength(before);
  // The hello names the end of the log, not what was received.
  act(() => socket().onclose?.());
  await pass(1000);
  expect(dialled().get("since")).toBe("5");
});

it("reads the past when it can, after it could not", async () => {
  failing = true;
  const result = await start();
  await pass(10_000);
  expect(result.current.error).toBeDefined();
  failing = false;
  await connect();
  expect(textsOf(result)).toEqual(["n2", "n1"]);
  expect(result.current.error).toBeUndefined();
});

it("reads the newest events again when some are missing, or after a long interruption", async () => {
  await start();
  await connect();
  let before = asked.length;
  act(() => socket().receive({ type: "reset", sequence: 1, logId: "other" }));
  await pass(0);
  expect(asked.length).toBeGreaterThan(before);
  before = asked.length;
  act(() => socket().onclose?.());
  while (FakeSocket.all.length < 40) {
    await pass(30_000);
    act(() => socket().onclose?.());
  }
  await pass(30_000);
  expect(dialled().has("since")).toBe(false);
  await connect();
  expect(asked.length).toBeGreaterThan(before);
});

it("tells users of some namespaces that events were missed", async () => {
  const result = await start({ all: false, visible: 1, names: ["shop"], total: 40 });
  expect(asked).toHaveLength(0);
  expect(dialled().has("since")).toBe(false);
  await connect();
  act(() => socket().receive(event(1)));
  act(() => socket().onclose?.());
  await pass(1000);
  expect(dialled().get("logId")).toBe("log-1");
  await connect();
  expect(result.current.missed).toBe(false);
  act(() => socket().receive({ type: "reset", sequence: 1, logId: "other" }));
  await pass(0);
  expect(result.current.missed).toBe(true);
  expect(asked).toHaveLength(0);
});
