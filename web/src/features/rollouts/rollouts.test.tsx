import { render, screen } from "@testing-library/react";
import type { ReactNode } from "react";
import { MemoryRouter } from "react-router";
import { describe, expect, it } from "vitest";
import type { RolloutDetail, RolloutFinding } from "@/gen/model";
import { rolloutsOfImagePath, rolloutsOfWorkloadPath } from "@/lib/paths";
import { hostileRollouts } from "../../../mock/rollouts";
import { RolloutCard } from "./columns";
import { Brought } from "./detail/brought";
import { SideCard } from "./detail/side-card";
import { parseRolloutEvent } from "./event";
import { rolloutFilters, toRequest, toScope } from "./filters";
import { explainWait, Evaluation } from "./evaluation";

const none = { critical: 0, high: 0, medium: 0, low: 0, negligible: 0, unknown: 0 };
const side = (letter: string) => ({
  imageId: `docker.io/library/${letter}@sha256:${letter.repeat(64)}`,
  platform: "linux/amd64",
});
const finding: RolloutFinding = {
  vulnerabilityId: "CVE-2026-0001",
  package: "openssl",
  severity: "Critical",
  kev: true,
  fixable: true,
};
const rollout: RolloutDetail = {
  id: 7,
  at: "2026-01-31T12:00:00Z",
  workload: { namespace: "web", kind: "Deployment", name: "shop" },
  container: "app",
  from: side("a"),
  to: side("b"),
  evaluation: {
    state: "evaluated",
    at: "2026-01-31T12:05:00Z",
    opened: { ...none, critical: 2, low: 300 },
    closed: { ...none, high: 1 },
  },
  opened: [finding],
  closed: [{ ...finding, vulnerabilityId: "CVE-2025-0002", severity: "High", kev: false, fixable: false }],
};

const show = (element: ReactNode) => render(<MemoryRouter>{element}</MemoryRouter>).container;

describe("filters", () => {
  it("are kept in the address, and ask for whole days of UTC", () => {
    const search =
      "tab=live&namespace=web&workload=shop&owner=Team+Shop&image=a%2Fb%40sha256%3A0&since=2026-01-31&until=2026-01-31";
    const filters = rolloutFilters.read(new URLSearchParams(search));
    expect(rolloutFilters.write(filters).toString()).toBe(search);
    expect(toRequest(filters)).toEqual({
      namespace: "web",
      workload: "shop",
      owner: "Team Shop",
      imageId: "a/b@sha256:0",
      since: "2026-01-31T00:00:00Z",
      until: "2026-02-01T00:00:00Z",
    });
    expect(toScope(filters)).toEqual({ namespace: "web", deployment: "shop" });
    expect(rolloutFilters.isFiltered({ ...filters, ...rolloutFilters.none })).toBe(false);
  });

  it.each(["since=2026-02-30", "until=x", "tab=other"])("ignore %s", (search) => {
    const filters = rolloutFilters.read(new URLSearchParams(search));
    expect(rolloutFilters.write(filters).toString()).toBe("");
    expect(toRequest(filters)).toEqual({});
  });

  it("are what links from a workload and an image say", () => {
    const of = (path: string) => rolloutFilters.read(new URL(path, "http://test").searchParams);
    expect(of(rolloutsOfWorkloadPath(rollout.workload))).toMatchObject({
      namespace: "web",
      workload: "shop",
    });
    expect(of(rolloutsOfImagePath(rollout.to.imageId)).imageId).toBe(rollout.to.imageId);
  });
});

describe("events", () => {
  it.each([
    ['{"type":"event","kind":"rollout.changed"}', "rollout.changed"],
    ['{"type":"event","kind":"rollout.evaluated","data":{}}', "rollout.evaluated"],
    ['{"type":"reset","sequence":4}', "reset"],
    ['{"type":"event","kind":"image.matched"}', undefined],
    ['{"type":"hello","sequence":4}', undefined],
    ['{"type":"position","kind":"rollout.evaluated"}', undefined],
    ["null", undefined],
    ["[1]", undefined],
    ["not json", undefined],
    [JSON.stringify({ type: "reset", pad: "x".repeat(300_000) }), undefined],
    [new ArrayBuffer(1), undefined],
  ])("reads %j", (data, expected) => expect(parseRolloutEvent(data)).toBe(expected));
});

describe("the evaluation", () => {
  it("counts what was opened and closed, and marks what is critical", () => {
    const container = show(<Evaluation evaluation={rollout.evaluation} />);
    expect(container).toHaveTextContent("2 critical, 300 low");
    expect(container).toHaveTextContent("1 high");
    expect(screen.getByText("Opened")).toHaveClass("text-danger");
  });

  it("marks nothing when nothing critical was opened", () => {
    show(
      <Evaluation
        evaluation={{ state: "evaluated", opened: { ...none, high: 1 }, closed: { ...none, critical: 5 } }}
      />,
    );
    expect(screen.getByText("Opened")).not.toHaveClass("text-danger");
  });

  it("says that nothing changed", () => {
    expect(
      show(<Evaluation evaluation={{ state: "evaluated", opened: none, closed: none }} />),
    ).toHaveTextContent("No findings opened or closed");
  });

  it("says for which image it waits, and why", () => {
    const container = show(
      <Evaluation evaluation={{ state: "waiting", waitingFor: [{ ...side("b"), reason: "NotMatched" }] }} />,
    );
    expect(container).toHaveTextContent(/Waiting for bThe SBOM has not been matched/);
    expect(screen.getByRole("link", { name: "b" })).toHaveAttribute(
      "href",
      expect.stringMatching(/^\/images\/docker\.io/),
    );
    expect(["NotKnown", "OutOfMemory", "BrandNew"].map(explainWait)).toEqual([
      "The image is no longer stored",
      "The scan job ran out of memory",
      "BrandNew",
    ]);
  });

  it("says that it timed out", () => {
    expect(show(<Evaluation evaluation={{ state: "timedOut", at: rollout.at }} />)).toHaveTextContent(
      /^Timed out/,
    );
  });
});

describe("the detail", () => {
  it("lists the worst findings and how many more there are", () => {
    show(<Brought rollout={rollout} />);
    expect(screen.getByRole("region", { name: "Opened" })).toHaveTextContent("302 findings");
    expect(screen.getByRole("region", { name: "Opened" })).toHaveTextContent("and 301 more");
    expect(screen.getByRole("region", { name: "Closed" })).not.toHaveTextContent("more");
    expect(screen.getByRole("link", { name: "CVE-2026-0001" })).toHaveAttribute(
      "href",
      "/vulnerabilities/CVE-2026-0001",
    );
    expect(screen.getAllByText("fixable")).toHaveLength(1);
  });

  it("explains what it waits for", () => {
    const waitingFor = [{ ...side("b"), reason: "RegistryRateLimited", message: "TOOMANYREQUESTS" }];
    show(<Brought rollout={{ ...rollout, evaluation: { state: "waiting", waitingFor } }} />);
    expect(screen.getByText("TOOMANYREQUESTS")).toBeVisible();
    expect(screen.getByText(/pull secrets with a higher limit/)).toBeVisible();
    expect(screen.queryByRole("region", { name: "Opened" })).toBeNull();
  });
});

it.each(hostileRollouts().map((hostile, index) => [index, hostile] as const))(
  "hostile text %i stays text",
  (_, hostile) => {
    const container = show(
      <>
        <RolloutCard row={hostile} />
        <SideCard title="To" side={hostile.to} />
        <Brought rollout={hostile} />
      </>,
    );
    expect(container.querySelectorAll("script, img, iframe, [onerror], [onload]")).toHaveLength(0);
    for (const link of container.querySelectorAll("a"))
      expect(link.getAttribute("href")).toMatch(/^\/(images|vulnerabilities|rollouts)\/[^/]+$/);
  },
);
