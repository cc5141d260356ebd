import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen } from "@testing-library/react";
import { MemoryRouter } from "react-router";
import { expect, it, vi } from "vitest";
import type { FixItem } from "@/gen/model";
import { TopActions } from "./top-actions";

const counts = { critical: 1, high: 0, medium: 0, low: 0, negligible: 0, unknown: 0, kev: 0, fixable: 1 };
const item = (action: FixItem["action"], summary: string): FixItem => ({
  action,
  summary,
  imageId: "docker.io/library/nginx@sha256:" + "1".repeat(64),
  platform: "linux/amd64",
  counts,
  overdue: 0,
  risk: 10,
  packages: [],
  packageCount: 1,
  workloads: [],
  workloadCount: 1,
});

function show(items: FixItem[]) {
  vi.spyOn(globalThis, "fetch").mockResolvedValue(
    new Response(JSON.stringify({ items, total: items.length }), {
      headers: { "Content-Type": "application/json" },
    }),
  );
  render(
    <QueryClientProvider client={new QueryClient()}>
      <MemoryRouter>
        <TopActions />
      </MemoryRouter>
    </QueryClientProvider>,
  );
}

const update = item("update", "Update zlib from 1 to 2");
const wait = item("wait", "Wait: there is no fix yet for 3 packages");

it("leaves out what can only be waited for", async () => {
  show([update, wait]);
  expect(await screen.findByText(update.summary)).toBeInTheDocument();
  expect(screen.queryByText(wait.summary)).toBeNull();
  expect(screen.getAllByRole("listitem")).toHaveLength(1);
});

it("says that there is nothing to do until there is a fix", async () => {
  show([wait]);
  expect(await screen.findByText("Nothing to do until there is a fix.")).toBeInTheDocument();
  expect(screen.queryByRole("listitem")).toBeNull();
});

it("says that there is nothing to do", async () => {
  show([]);
  expect(await screen.findByText("Nothing to do: no image has findings that count.")).toBeInTheDocument();
});
