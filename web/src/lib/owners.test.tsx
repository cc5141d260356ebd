import type { PropsWithChildren } from "react";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { act, renderHook, waitFor } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import { ownersPatience, useHasOwners, useOwnersKnown } from "./owners";

const hooks = () =>
  renderHook(() => ({ known: useOwnersKnown(), has: useHasOwners() }), {
    wrapper: ({ children }: PropsWithChildren) => (
      <QueryClientProvider client={new QueryClient()}>{children}</QueryClientProvider>
    ),
  }).result;

const answer = (owners: unknown[]) => Response.json({ items: owners });

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
  localStorage.clear();
});

test("pages wait for the first answer, and the next visit does not", async () => {
  let respond: (response: Response) => void = () => undefined;
  vi.stubGlobal("fetch", () => new Promise<Response>((resolve) => (respond = resolve)));
  const first = hooks();
  expect(first.current).toEqual({ known: false, has: false });
  respond(answer([{ owner: "team-a" }]));
  await waitFor(() => expect(first.current).toEqual({ known: true, has: true }));
  expect(hooks().current).toEqual({ known: true, has: true });
});

test("pages are shown if the answer does not come", () => {
  vi.useFakeTimers();
  vi.stubGlobal("fetch", () => new Promise(() => undefined));
  const result = hooks();
  act(() => void vi.advanceTimersByTime(ownersPatience - 1));
  expect(result.current.known).toBe(false);
  act(() => void vi.advanceTimersByTime(1));
  expect(result.current).toEqual({ known: true, has: false });
});

test("pages are shown at once after an error", async () => {
  vi.useFakeTimers();
  vi.stubGlobal("fetch", () => Promise.reject(new TypeError("failed")));
  const result = hooks();
  await act(() => vi.advanceTimersByTimeAsync(ownersPatience / 10));
  expect(result.current).toEqual({ known: true, has: false });
});

test("storage may be disabled", async () => {
  for (const method of ["getItem", "setItem"] as const) {
    vi.spyOn(Storage.prototype, method).mockImplementation(() => {
      throw new DOMException("disabled", "SecurityError");
    });
  }
  vi.stubGlobal("fetch", () => Promise.resolve(answer([{ owner: "team-a" }])));
  const result = hooks();
  await waitFor(() => expect(result.current).toEqual({ known: true, has: true }));
});
