import { render, screen } from "@testing-library/react";
import { MemoryRouter } from "react-router";
import { describe, expect, it } from "vitest";
import type { Change, DatabaseList } from "@/gen/model";
import { hostileChanges, makeDatabases } from "../../../mock/databases";
import { describeEPSS, describeFix, describeReasons, findingPath } from "./change";
import { ChangeDetail } from "./change-detail";
import { ChangeCard, Images, SeverityChange, VulnerabilityName } from "./columns";
import { changeFilters, toRequest } from "./filters";

import { finished, inUse, isBusy, underWay } from "./queries";
import { UnderWay } from "./under-way";

const change: Change = {
  id: 1,
  generation: 2,
  build: "xxh64:2",
  previousBuild: "xxh64:1",
  at: "2026-01-01T00:00:00Z",
  kind: "changed",
  reasons: ["severity", "kev"],
  package: { id: "id", name: "openssl", version: "3.0.1", type: "deb" },
  vulnerabilityId: "CVE-2026-0001",
  namespace: "debian:distro:debian:12",
  before: { severity: "Low", fixState: "not-fixed", epss: 0, kev: false },
  after: { severity: "High", fixState: "fixed", fixVersions: ["3.0.2", "3.1"], epss: 0.25, kev: true },
  images: 30,
  imageIds: ["docker.io/library/nginx@sha256:" + "a".repeat(64), "b"],
  workloads: [{ namespace: "web", kind: "Deployment", name: "shop" }],
};

describe("filters", () => {
  it("are kept in the address", () => {
    const search = "generation=7&kind=closed&q=ssl&severity=Low&kev=true&image=a%2Fb%40sha256%3A0";
    const filters = changeFilters.read(new URLSearchParams(search));
    expect(changeFilters.write(filters).toString()).toBe(search);
    expect(changeFilters.isFiltered(filters)).toBe(true);
    expect(changeFilters.isFiltered({ ...filters, ...changeFilters.none })).toBe(false);
    expect(toRequest(filters)).toEqual({
      kind: ["closed"],
      text: "ssl",
      severity: "Low",
      kev: true,
      imageId: "a/b@sha256:0",
    });
  });

  it.each([
    "generation=0",
    "generation=1.5",
    "generation=x",
    "generation=1e99",
    "kind=gone",
    "severity=x&kev=1",
  ])("ignore %s", (search) =>
    expect(changeFilters.write(changeFilters.read(new URLSearchParams(search))).toString()).toBe(""),
  );

  it("are bounded", () => {
    const filters = changeFilters.read(new URLSearchParams({ q: "x".repeat(9000), image: "y".repeat(9000) }));
    expect([filters.text.length, filters.imageId.length]).toEqual([256, 512]);
  });
});

describe("the list of databases", () => {
  const { items } = makeDatabases(
    { id: "xxh64:0", schemaVersion: "v6", built: "2026-01-01T00:00:00Z", source: "official" },
    [],
    10,
    2,
  );
  const [current] = items;
  if (!current) throw new Error("no database");
  const next = { ...current, generation: 9, state: "Matching" as const };
  const list = (part: Partial<DatabaseList>): DatabaseList => ({ items, ...part });

  it("tells what is in use, under way and over", () => {
    const all = list({ items: [next, ...items] });
    expect(inUse(all)).toBe(current);
    expect(underWay(all)).toBe(next);
    expect(finished(all).map(({ generation }) => generation)).toEqual([3, 2, 1]);
    expect(inUse(undefined)).toBeUndefined();
  });

  it("is asked for again while something is under way only", () => {
    const idle = { stale: false, maxAge: 1 };
    expect(isBusy(undefined)).toBe(false);
    expect(isBusy(list({ update: idle }))).toBe(false);
    expect(isBusy(list({ update: { ...idle, stage: "download" } }))).toBe(true);
    expect(isBusy(list({ items: [{ ...next, state: "Preparing" }] }))).toBe(true);
    expect(isBusy(list({ items: [next] }))).toBe(true);
  });

  it("shows how far work has come, and no more than all of it", () => {
    const { rerender } = render(
      <UnderWay
        update={{ stale: false, maxAge: 1, stage: "download", done: 512, total: 2048 }}
        database={{ ...next, queued: 10, matched: 40 }}
      />,
    );
    expect(screen.getByRole("progressbar", { name: "Downloading a database" })).toHaveAttribute(
      "aria-valuenow",
      "25",
    );
    expect(screen.getByRole("progressbar", { name: /^Matching/ })).toHaveAttribute("aria-valuenow", "100");
    rerender(<UnderWay update={undefined} database={{ ...next, state: "Preparing" }} />);
    expect(screen.getByRole("progressbar", { name: "Comparing the databases" })).not.toHaveAttribute(
      "aria-valuenow",
    );
    rerender(<UnderWay update={{ stale: true, maxAge: 1 }} database={undefined} />);
    expect(screen.queryByRole("progressbar")).toBeNull();
  });
});

describe("a change", () => {
  const show = (element: React.ReactNode) => render(<MemoryRouter>{element}</MemoryRouter>).container;

  it("says what is another", () => {
    expect(describeReasons(change.reasons)).toBe("severity, KEV");
    expect(describeFix(change.after)).toBe("3.0.2, 3.1");
    expect(describeFix(change.before)).toBe("Not fixed");
    expect(describeFix({ ...change.before, fixState: "new" } as never)).toBe("Unknown");
    expect([describeEPSS(change.after), describeEPSS(change.before), describeEPSS(undefined)]).toEqual([
      "25.0%",
      "–",
      "–",
    ]);
    expect(show(<SeverityChange change={change} />)).toHaveTextContent("LowbecameHigh");
    expect(show(<SeverityChange change={{ ...change, before: undefined }} />)).toHaveTextContent(/^High$/);
  });

  it("leads to the vulnerability, also when it was closed, and to the finding in each image", () => {
    show(<VulnerabilityName change={{ ...change, kind: "closed", imageIds: [] }} />);
    expect(screen.getByRole("link")).toHaveAttribute("href", "/vulnerabilities/CVE-2026-0001");
    const [imageId = ""] = change.imageIds;
    const hrefs = [...show(<ChangeDetail change={change} />).querySelectorAll("a")].map((link) =>
      link.getAttribute("href"),
    );
    expect(hrefs).toContain(findingPath(imageId, change.vulnerabilityId));
  });

  it("names what it reaches, and how much more there is", () => {
    expect(show(<Images change={change} />)).toHaveTextContent("nginx+29");
    expect(show(<Images change={{ ...change, images: 0, imageIds: [] }} />)).toHaveTextContent(
      "none any more",
    );
    const detail = show(<ChangeDetail change={change} />);
    expect(detail).toHaveTextContent("and 28 more");
    expect(detail).toHaveTextContent("web/Deployment/shop");
  });

  it.each(hostileChanges().map((hostile, index) => [index, hostile] as const))(
    "stays text when it is hostile: %i",
    (_, hostile) => {
      const container = show(
        <>
          <ChangeCard change={hostile} open onToggle={() => undefined} />
          <ChangeDetail change={hostile} />
        </>,
      );
      expect(
        container.querySelectorAll("script, img, iframe, object, style, [onerror], [onload]"),
      ).toHaveLength(0);
      for (const link of container.querySelectorAll("a"))
        expect(link.getAttribute("href")).toMatch(/^\/(images|vulnerabilities)\/[^/]+$/);
    },
  );
});
