import { render } from "@testing-library/react";
import { MemoryRouter } from "react-router";
import { describe, expect, it } from "vitest";
import { ToastProvider } from "@/components/ui/toast";
import { ListFindingsSort } from "@/gen/model";
import { fixedIn } from "@/lib/fix";
import { hostileFindings, hostileImages } from "../../../../mock/hostile";
import { ImageCard } from "../list/columns";
import { columns, FindingCard, grid, selectableGrid } from "./columns";
import { facts, findingKey, lowestLocation, matchType, packageKey } from "./finding";
import { FindingDetail } from "./finding-detail";

function expectInert(container: HTMLElement) {
  expect(container.querySelectorAll("script, img, iframe, object, style, [onerror], [onload]")).toHaveLength(
    0,
  );
  for (const link of container.querySelectorAll("a")) {
    const href = link.getAttribute("href") ?? "";
    expect(href).toMatch(/^(https?:\/\/|\/(images|vulnerabilities)\/[^/]+$)/);
    if (href.startsWith("http")) expect(link).toHaveAttribute("rel", "noopener noreferrer");
  }
}

describe("hostile text stays text", () => {
  it.each(hostileFindings().map((finding, index) => [index, finding] as const))(
    "finding %i",
    (_, finding) => {
      const { container } = render(
        <MemoryRouter>
          <FindingCard finding={finding} open onToggle={() => undefined} />
          <FindingDetail finding={finding} />
        </MemoryRouter>,
      );
      expectInert(container);
    },
  );

  it.each(hostileImages().map((image, index) => [index, image] as const))("image %i", (_, image) => {
    const { container } = render(
      <MemoryRouter>
        <ToastProvider>
          <ImageCard image={image} onRemove={undefined} />
        </ToastProvider>
      </MemoryRouter>,
    );
    expectInert(container);
  });
});

describe("facts", () => {
  it("flattens what matchers say", () => {
    expect(
      facts({ distro: { type: "debian", version: 12 }, cpes: ["a", "b"], empty: "", none: null }),
    ).toEqual([
      { name: "distro.type", value: "debian" },
      { name: "distro.version", value: "12" },
      { name: "cpes", value: "a, b" },
    ]);
  });

  it("is bounded in number and depth", () => {
    const wide = Object.fromEntries(Array.from({ length: 500 }, (_, index) => [`k${index}`, { a: 1, b: 2 }]));
    expect(facts(wide)).toHaveLength(24);
    let deep: unknown = "bottom";
    for (let level = 0; level < 1000; level++) deep = { deep };
    expect(facts(deep)).toEqual([]);
  });
});

it("tells findings, fixes and matches apart", () => {
  const [first, second] = hostileFindings();
  if (!first || !second) throw new Error("no findings");
  expect(findingKey(first)).not.toBe(findingKey(second));
  expect(fixedIn({ ...first, fix: { state: "wont-fix" } })).toEqual({ text: "Won't fix", fixed: false });
  expect(fixedIn({ ...first, fix: { state: "fixed", versions: ["1", "2"] } })).toEqual({
    text: "1, 2",
    fixed: true,
  });
  expect(matchType({ type: "cpe-match", matcher: "stock" })).toContain("CPE");
  expect(matchType({ type: "new-kind", matcher: "x" })).toBe("new-kind");
});

it("tells packages of one name and version apart", () => {
  const [finding] = hostileFindings();
  if (!finding) throw new Error("no findings");
  const other = { ...finding, package: { ...finding.package, id: "other" } };
  expect(packageKey(other)).not.toBe(packageKey(finding));
  expect(findingKey(other)).not.toBe(findingKey(finding));
  // The API answers the first 100 locations of a package, and all of those of a finding.
  const without = { ...finding, locations: [] };
  expect(packageKey(without)).toBe(packageKey(finding));
});

it("chooses the location in the lowest layer", () => {
  const { counts } = hostileImages()[0] ?? {};
  if (!counts) throw new Error("no images");
  const layer = (number: number) => ({ number, diffId: `sha256:${number}`, packages: 1, counts });
  const at = (path: string, number?: number) => ({ path, ...(number && { layer: `sha256:${number}` }) });
  const layers = [layer(1), layer(2), layer(3), { packages: 1, counts }];
  expect(lowestLocation([at("/a", 3), at("/b", 2), at("/c")], layers)).toEqual({
    location: at("/b", 2),
    layer: layer(2),
  });
  expect(lowestLocation([at("/c"), at("/d", 9)], layers)).toEqual({ location: at("/c") });
  expect(lowestLocation([], [])).toEqual({});
});

it("has a track in the grid for each column of a wide screen", () => {
  const never = () => undefined;
  const options = {
    sort: ListFindingsSort.due,
    setSort: never,
    closed: false,
    isOpen: () => false,
    toggle: never,
  };
  const selection = { isSelected: () => false, toggle: never };
  const tracks = (classes: string) => /xl:grid-cols-\[(.*)\]/.exec(classes)?.[1]?.split("_").length;
  expect(tracks(grid)).toBe(columns(options).length);
  expect(tracks(selectableGrid)).toBe(columns({ ...options, selection }).length);
});
