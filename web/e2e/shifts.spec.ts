import type { Page } from "@playwright/test";
import { expect, test } from "./fixtures.ts";

test.use({ ownPage: true });

interface Shift {
  value: number;
  what: string[];
}

/** Records what moves without an input. */
const record = (page: Page) =>
  page.addInitScript(() => {
    const shifts: Shift[] = [];
    Object.assign(window, { shifts });
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) {
        const { value, hadRecentInput, sources } = entry as unknown as {
          value: number;
          hadRecentInput: boolean;
          sources: { node: Node | null; previousRect: DOMRect; currentRect: DOMRect }[];
        };
        if (hadRecentInput) continue;
        // The font of the UI may come after the first frame, and the words of the navigation are wider with it.
        const main = document.querySelector("main");
        const what = sources
          .filter(({ node }) => main?.contains(node))
          .map(
            ({ node, previousRect: from, currentRect: to }) =>
              `${from.y} to ${to.y}: ${(node?.textContent ?? "").slice(0, 60)}`,
          );
        if (what.length > 0) shifts.push({ value, what });
      }
    }).observe({ type: "layout-shift", buffered: true });
  });

const painted = (page: Page) =>
  page.evaluate(async () => {
    for (let frames = 0; frames < 3; frames++) await new Promise(requestAnimationFrame);
  });

const shiftsOf = async (page: Page) => {
  await painted(page); // Entries of the last frame come after it.
  return page.evaluate(() => (window as unknown as { shifts: Shift[] }).shifts);
};

// Each part comes by itself, in an order that moves what is below it if it was not given its space.
const parts = [
  "/api/v1/policies",
  "/api/v1/trends",
  "/api/v1/overview/changes",
  "/api/v1/fixes",
  "/api/v1/events",
];

for (const [width, trendDays] of [
  [1440, 30],
  [1440, 1],
  [360, 30],
] as const) {
  test(`nothing moves while the overview loads, ${width} px, ${trendDays} days`, async ({ page, open }) => {
    await page.setViewportSize({ width, height: 2400 });
    await record(page);
    const gates = new Map(
      parts.map((path) => {
        let release: () => void = () => undefined;
        return [
          path,
          { opened: new Promise<void>((resolve) => (release = resolve)), release: () => release() },
        ];
      }),
    );
    await page.route(/\/api\/v1\//, async (route) => {
      await gates.get(new URL(route.request().url()).pathname)?.opened;
      await route.continue();
    });
    await open({ trendDays, sums: { owners: true } }, "/");
    await expect(page.getByRole("heading", { name: /Coverage/ })).toBeVisible();
    for (const gate of gates.values()) {
      const frames = painted(page);
      gate.release();
      await frames;
    }
    await expect(page.getByRole("region", { name: "Fix first" }).getByRole("listitem").first()).toBeVisible();
    await expect(
      page.getByRole("region", { name: "Changes since", exact: true }).getByRole("row").first(),
    ).toBeVisible();
    await expect(page.getByText("no policies")).toBeVisible();
    await expect(page.getByText("appear here.")).toBeVisible();
    expect(await shiftsOf(page)).toEqual([]);
  });
}

for (const path of ["images", "vulnerabilities", "packages", "workloads", "coverage"]) {
  for (const owners of [true, false]) {
    test(`nothing moves on a first visit of ${path} ${owners ? "with" : "without"} owners`, async ({
      page,
      open,
    }) => {
      await record(page);
      // Whether there are owners is known last.
      let release: () => void = () => undefined;
      const opened = new Promise<void>((resolve) => (release = resolve));
      await page.route(/\/api\/v1\/owners\?/, async (route) => {
        await opened;
        await route.continue();
      });
      const asked = page.waitForRequest(/\/api\/v1\/owners\?/);
      await open({ sums: { owners } }, `/${path}`);
      await asked;
      await painted(page);
      release();
      await expect(page.getByRole("row").nth(1)).toBeVisible();
      await expect(page.getByLabel("Owner", { exact: true })).toHaveCount(owners ? 1 : 0);
      expect(await shiftsOf(page)).toEqual([]);
    });
  }
}
