import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { afterEach, expect, it } from "vitest";
import { loadedPages, listsKey, refreshInterval, sumsKey } from "./lists";

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
