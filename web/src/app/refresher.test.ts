import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { getGetOverviewQueryKey } from "@/gen/images/images";
import { Refresher } from "./refresher";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const stops: (() => void)[] = [];
afterEach(() => stops.splice(0).forEach((stop) => stop()));

/** Shows what is asked for under a key, and returns how often that was asked for since. */
function show(client: QueryClient, queryKey: readonly unknown[], took = 0) {
  const queryFn = vi.fn(async () => {
    await new Promise((resolve) => setTimeout(resolve, took));
    return { pages: [{ items: [] }], pageParams: [] };
  });
  client.setQueryData(queryKey, { pages: [{ items: [] }], pageParams: [] });
  const observer = new QueryObserver(client, { queryKey, queryFn, staleTime: Infinity });
  stops.push(observer.subscribe(() => undefined));
  return queryFn;
}

/** Tells of a result twice a second for some seconds. */
async function stream(refresher: Refresher, seconds: number) {
  for (let half = 0; half < 2 * seconds; half++) {
    await refresher.apply({ names: [`image-${half}`], overflow: false });
    await vi.advanceTimersByTimeAsync(500);
  }
}

it("asks for sums over all images less often than for a page of rows", async () => {
  const client = new QueryClient();
  const overview = show(client, getGetOverviewQueryKey());
  const list = show(client, ["list", "images", {}]);
  await stream(new Refresher(client), 20);
  expect(overview.mock.calls.length).toBeGreaterThanOrEqual(3);
  expect(overview.mock.calls.length).toBeLessThanOrEqual(4);
  expect(list.mock.calls.length).toBeGreaterThan(30);
});

it("leaves a list of sums alone after an answer, however slow it was", async () => {
  const client = new QueryClient();
  const sums = show(client, ["list", "sums", "fixes", {}], 8000);
  await stream(new Refresher(client), 25);
  expect(sums).toHaveBeenCalledTimes(2);
});

it("shows in the end what the last message was about", async () => {
  const client = new QueryClient();
  const overview = show(client, getGetOverviewQueryKey());
  const refresher = new Refresher(client);
  await refresher.apply({ names: ["a"], overflow: false });
  await vi.advanceTimersByTimeAsync(100);
  expect(overview).toHaveBeenCalledTimes(1);
  await refresher.apply({ names: ["b"], overflow: false });
  await vi.advanceTimersByTimeAsync(5000);
  expect(overview).toHaveBeenCalledTimes(2);
});
