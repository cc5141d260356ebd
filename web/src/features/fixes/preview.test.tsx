import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen, waitFor } from "@testing-library/react";
import { MemoryRouter } from "react-router";
import { expect, it, vi } from "vitest";
import type { FixItem } from "@/gen/model";
import { Preview } from "./preview";

const counts = { critical: 1, high: 0, medium: 0, low: 0, negligible: 0, unknown: 0, kev: 0, fixable: 1 };
const row: FixItem = {
  action: "rebuild",
  summary: "Rebuild the image",
  imageId: "docker.io/library/nginx@sha256:" + "1".repeat(64),
  platform: "linux/amd64",
  counts,
  overdue: 0,
  risk: 10,
  packages: [],
  packageCount: 1,
  workloads: [],
  workloadCount: 1,
};

const answer = (opened: number) =>
  new Response(
    JSON.stringify({
      action: "rebuild",
      databaseBuilt: "2026-03-01T00:00:00Z",
      packages: [{ id: "1", name: "zlib", version: "1", type: "deb", fixVersion: "2" }],
      packageCount: 1,
      closed: counts,
      remaining: counts,
      opened: { ...counts, critical: opened },
      remainingFindings: [],
      openedFindings: [],
    }),
    { headers: { "Content-Type": "application/json" } },
  );

function open() {
  const client = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  const view = (shown: FixItem) => (
    <QueryClientProvider client={client}>
      <MemoryRouter>
        <Preview row={shown} />
      </MemoryRouter>
    </QueryClientProvider>
  );
  const { rerender } = render(view(row));
  return { client, show: (shown: FixItem) => rerender(view(shown)) };
}

it("is computed again when the findings of the action are others", async () => {
  const fetched = vi.spyOn(globalThis, "fetch").mockImplementation(() => Promise.resolve(answer(3)));
  const { show } = open();
  expect(await screen.findByText(/3 critical/)).toBeInTheDocument();
  show({ ...row, risk: 11 });
  expect(fetched).toHaveBeenCalledTimes(1);
  fetched.mockImplementation(() => Promise.resolve(answer(4)));
  show({ ...row, counts: { ...counts, critical: 2 } });
  // The one before stays until there is another.
  expect(screen.getByText(/3 critical/)).toBeInTheDocument();
  expect(await screen.findByText(/4 critical/)).toBeInTheDocument();
  expect(fetched).toHaveBeenCalledTimes(2);
});

it("keeps what is known when it is refused later", async () => {
  const fetched = vi.spyOn(globalThis, "fetch").mockImplementation(() => Promise.resolve(answer(3)));
  const { client } = open();
  expect(await screen.findByText(/3 critical/)).toBeInTheDocument();
  fetched.mockImplementation(() => Promise.resolve(new Response("{}", { status: 429 })));
  await client.invalidateQueries();
  await waitFor(() => expect(screen.getByRole("alert")).toHaveTextContent("Too many requests"));
  expect(screen.getByText(/3 critical/)).toBeInTheDocument();
});
