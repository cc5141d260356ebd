import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { createMemoryRouter, RouterProvider } from "react-router";
import { describe, expect, it, vi } from "vitest";
import type { SearchResults } from "@/gen/model";
import { groupResults } from "./results";
import { Search } from "./search";
// Loaded before the tests, which are not about how long that takes.
import "./search-dialog";

const nothing: SearchResults = {
  vulnerabilities: [],
  packages: [],
  images: [],
  containers: [],
  workloads: [],
  namespaces: [],
  owners: [],
};

/** Opens a page with the search; the operator answers with these results. */
function open(results: SearchResults) {
  const asked: string[] = [];
  vi.spyOn(globalThis, "fetch").mockImplementation((input) => {
    asked.push(input as string);
    return Promise.resolve(
      new Response(JSON.stringify(results), { headers: { "Content-Type": "application/json" } }),
    );
  });
  const router = createMemoryRouter([
    { path: "*", element: <Search pages={[{ to: "/packages", title: "Packages" }]} /> },
  ]);
  render(
    <QueryClientProvider client={new QueryClient()}>
      <RouterProvider router={router} />
    </QueryClientProvider>,
  );
  return { asked, router };
}

describe("search", () => {
  it("goes to a result by keyboard alone", async () => {
    const { asked, router } = open({ ...nothing, namespaces: ["bank", "bankrupt"] });
    await userEvent.keyboard("{Control>}k{/Control}");
    const input = await screen.findByRole("combobox", { name: "Search" });
    await waitFor(() => expect(input).toHaveFocus());
    await userEvent.paste("bank");
    await screen.findByRole("option", { name: "bankrupt" });
    await userEvent.keyboard("{ArrowDown}{Enter}");
    await waitFor(() => expect(router.state.location.search).toBe("?namespace=bankrupt"));
    expect(screen.queryByRole("dialog")).toBeNull();
    expect(asked.at(-1)).toContain("text=bank");
  });

  it("goes to pages without asking the operator", async () => {
    const { asked, router } = open(nothing);
    await userEvent.click(screen.getByRole("button", { name: "Search" }));
    await screen.findByRole("option", { name: "Packages" });
    await userEvent.keyboard("{Enter}");
    await waitFor(() => expect(router.state.location.pathname).toBe("/packages"));
    expect(asked).toEqual([]);
  });

  it("says that nothing matches, and that a text is too short", async () => {
    open(nothing);
    await userEvent.click(screen.getByRole("button", { name: "Search" }));
    const input = await screen.findByRole("combobox", { name: "Search" });
    await userEvent.type(input, "x");
    expect(await screen.findByText("Type at least two characters")).toBeInTheDocument();
    await userEvent.type(input, "y");
    expect(await screen.findByText("Nothing that you may see contains “xy”")).toBeInTheDocument();
  });

  it("says which kinds were not searched, beside what was found", async () => {
    open({
      ...nothing,
      namespaces: ["bank"],
      partial: [{ kind: "packages", detail: "more than 7 of \u202ethem" }],
    });
    await userEvent.click(screen.getByRole("button", { name: "Search" }));
    await screen.findByRole("combobox", { name: "Search" });
    await userEvent.paste("bank 1");
    expect(await screen.findByText("Not searched: packages, more than 7 of \ufffdthem")).toBeInTheDocument();
    expect(screen.getByRole("option", { name: "bank" })).toBeInTheDocument();
  });

  it("leads to the packages of the names and versions that were found", () => {
    const found = (name: string) => ({
      package: { id: "p", name, version: "3.0.1", type: "deb" },
      images: 1,
      imageIds: [],
      workloads: 1,
      counts: { critical: 0, high: 0, medium: 0, low: 0, negligible: 0, unknown: 0, kev: 0, fixable: 0 },
    });
    const lists = (names: string[], text: string, packageVersion?: string) =>
      groupResults({ ...nothing, packages: names.map(found), packageVersion }, text)[0]
        ?.items.slice(names.length)
        .map(({ to, title }) => [to, title]);
    expect(lists(["openssl"], "openssl")).toEqual([["/packages?q=openssl", "Packages that match “openssl”"]]);
    expect(lists(["openssl", "OpenSSL", "openssl"], "OPENSSL 3.0", "3.0")).toEqual([
      ["/packages?q=openssl&version=%3D3.0*", "Packages that match “openssl 3.0”"],
      ["/packages?q=OpenSSL&version=%3D3.0*", "Packages that match “OpenSSL 3.0”"],
    ]);
    for (const version of ["<3", "3*", "3,4", "3|", "é"])
      expect(lists(["a"], `a ${version}`, version)).toEqual([["/packages?q=a", "Packages that match “a”"]]);
  });

  it("makes hidden characters of names visible, and leads to the list of the kind", () => {
    const groups = groupResults({ ...nothing, namespaces: ["a\u202eb"] }, "a b&c");
    expect(groups).toEqual([
      {
        value: "Namespaces",
        items: [{ to: "/images?namespace=a%E2%80%AEb", title: "a\ufffdb", detail: undefined }],
      },
    ]);
    const vulnerability = {
      id: "CVE-1",
      severity: "High",
      kev: true,
      images: 2,
      fixable: true,
      packages: 1,
      workloads: 1,
      risk: 1,
      epss: 0,
      firstSeen: "2026-01-01T00:00:00Z",
    } as const;
    expect(groupResults({ ...nothing, vulnerabilities: [vulnerability] }, "a b&c")[0]?.items).toEqual([
      { to: "/vulnerabilities/CVE-1", title: "CVE-1", detail: "High, KEV, 2 images" },
      { to: "/vulnerabilities?q=a+b%26c", title: "Vulnerabilities that match “a b&c”" },
    ]);
  });
});
