import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { afterEach, expect, it, vi } from "vitest";
import { costlyKey, invalidateAll, loadedPages, listsKey, refreshInterval, sumsKey } from "./lists";

const queryFn = () => Promise.reject(new Error("nothing is fetched"));
const stops: (() => void)[] = [];
afterEach(() => stops.splice(0).forEach((stop) => stop()));

/** A client that shows a list of so many pages, or has it in memory only. */
function show(client: QueryClient, queryKey: readonly unknown[], pages: number, active = true) {
  client.setQueryData(queryKey, {
    pages: Array.from({ length: pages }, () => ({ items: [] })),
    pageParams: [],
  });
  if (!active) return;
  const observer = new QueryObserver(client, { queryKey, queryFn, staleTime: Infinity });
  stops.push(observer.subscribe(() => undefined));
}

it("counts the pages of lists that are shown", () => {
  const client = new QueryClient();
  expect(loadedPages(client, listsKey)).toBe(0);
  show(client, [...listsKey, "images", {}], 3);
  show(client, [...listsKey, "images", { text: "a" }], 9, false);
  expect(loadedPages(client, listsKey)).toBe(3);
  expect(loadedPages(client, sumsKey)).toBe(0);
});

it("leaves long lists and sums alone for longer", () => {
  const client = new QueryClient();
  show(client, [...listsKey, "images", {}], 1);
  expect(refreshInterval(client)).toBe(0);
  show(client, [...listsKey, "images", { sort: "a" }], 8);
  expect(refreshInterval(client)).toBe(8000);
  show(client, [...sumsKey, "packages", {}], 1);
  expect(refreshInterval(client)).toBe(8000);
  show(client, [...sumsKey, "packages", { sort: "a" }], 500);
  expect(refreshInterval(client)).toBe(30_000);
});

it("leaves sums alone for some seconds though they are short, and are no list", () => {
  const client = new QueryClient();
  client.setQueryData([...sumsKey, "vulnerability", "CVE-1"], { id: "CVE-1" });
  const observer = new QueryObserver(client, {
    queryKey: [...sumsKey, "vulnerability", "CVE-1"],
    queryFn,
    staleTime: Infinity,
  });
  stops.push(observer.subscribe(() => undefined));
  expect(refreshInterval(client)).toBe(5000);
});

it("asks again for everything, but for costly answers only once they are stale", () => {
  vi.useFakeTimers();
  const client = new QueryClient();
  const show = (queryKey: readonly unknown[]) => {
    const queryFn = vi.fn(() => new Promise(() => undefined));
    client.setQueryData(queryKey, {});
    const observer = new QueryObserver(client, { queryKey, queryFn, staleTime: 60_000 });
    stops.push(observer.subscribe(() => undefined));
    return queryFn;
  };
  const preview = show([...costlyKey, "fix preview"]);
  const image = show(["image"]);
  void invalidateAll(client);
  expect(image).toHaveBeenCalledTimes(1);
  expect(preview).not.toHaveBeenCalled();
  vi.advanceTimersByTime(61_000);
  void invalidateAll(client);
  expect(preview).toHaveBeenCalledTimes(1);
  vi.useRealTimers();
});
