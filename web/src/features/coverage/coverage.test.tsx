import { render, screen } from "@testing-library/react";
import { MemoryRouter } from "react-router";
import { expect, it } from "vitest";
import { FailureReason, type ContainerCoverage } from "@/gen/model";
import { hostileSums } from "../../../mock/sums";
import { CoverageCard, CoverageDetail, coverageKey } from "./columns";
import { coverageFilters, toRequest } from "./filters";
import { explainReason, formatRatio } from "./state";

it.each([
  [1, "100%"],
  [0.99999, "99%"],
  [0.29, "29%"],
  [0.57, "57%"],
  [0, "0%"],
  [7, "100%"],
  [-1, "0%"],
])("shows the ratio %d as %s", (ratio, expected) => expect(formatRatio(ratio)).toBe(expected));

it.each([
  "NotPulled",
  "NotCataloged",
  "NotMatched",
  "NoDatabase",
  "IgnoreLabel",
  ...Object.values(FailureReason),
])("has words for %s", (reason) => expect(explainReason(reason)?.what).not.toBe(reason));

it("shows an unknown reason as it is, and none without one", () => {
  expect(explainReason("BrandNew")?.what).toBe("BrandNew");
  expect(explainReason("")).toBeUndefined();
  expect(explainReason(undefined)).toBeUndefined();
});

it("keeps its filters in the address", () => {
  const search = "state=Failed&reason=NotPulled&q=nginx&namespace=web&owner=Team+Web";
  const filters = coverageFilters.read(new URLSearchParams(search));
  expect(coverageFilters.write(filters).toString()).toBe(search);
  expect(toRequest(filters)).toEqual({
    state: ["Failed"],
    reason: "NotPulled",
    text: "nginx",
    namespace: "web",
    owner: "Team Web",
  });
  expect(coverageFilters.isFiltered(coverageFilters.read(new URLSearchParams("state=Failed")))).toBe(false);
});

const row: ContainerCoverage = {
  workload: { namespace: "web", kind: "Deployment", name: "shop" },
  container: "app",
  imageId: "",
  platform: "",
  reference: "registry.example.com/shop:1",
  pods: 2,
  state: "Failed",
  reason: "RegistryRateLimited",
  message: "TOOMANYREQUESTS",
  nextAttempt: new Date(Date.now() + 3_700_000).toISOString(),
};

it("says why, and what comes next", () => {
  render(<CoverageDetail row={row} />);
  expect(screen.getByText(/pull rate limit/)).toBeVisible();
  expect(screen.getByText("TOOMANYREQUESTS")).toBeVisible();
  expect(screen.getByText(/The next attempt is due/)).toHaveTextContent("in 1 hour");
  expect(screen.queryByText(/was read from/)).toBeNull();
  expect(coverageKey(row)).not.toBe(coverageKey({ ...row, state: "Pending" }));
});

it("says how the image was read", () => {
  render(<CoverageDetail row={{ ...row, state: "Scanned", source: "ImageVolume" }} />);
  expect(screen.getByText("The image was read from the node (image volume).")).toBeVisible();
});

it.each(hostileSums().coverage.map((hostile, index) => [index, hostile] as const))(
  "hostile text %i stays text",
  (_, hostile) => {
    const { container } = render(
      <MemoryRouter>
        <CoverageCard row={hostile} open onToggle={() => undefined} />
        <CoverageDetail row={hostile} />
      </MemoryRouter>,
    );
    expect(container.querySelectorAll("script, img, iframe, [onerror], [onload]")).toHaveLength(0);
    for (const link of container.querySelectorAll("a"))
      expect(link.getAttribute("href")).toMatch(/^\/images\//);
  },
);
