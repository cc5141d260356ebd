import type { Page } from "@playwright/test";
import { stopClock } from "../mock/clock.ts";
import type { OperatorOptions, RolloutOperator } from "../mock/operator.ts";
import { detailPath, expect, signIn, test, type Open } from "./fixtures.ts";

// "make screenshots" makes the pictures, and each run compares pages with them. One pixel of 1,000 may differ: another build of the browser draws edges of
// letters in another way.
test.use({ ownPage: true });

const owned = { sums: { owners: true } };
const noon = Date.UTC(2026, 0, 31, 12);

interface Picture {
  path: string | ((image: string, operator: RolloutOperator) => string);
  options?: OperatorOptions;
  /** What is done before the picture is taken. */
  then?: (page: Page, operator: RolloutOperator) => Promise<void>;
}

const signedOut: OperatorOptions = { auth: "kubernetes", provider: "available" };

/** Signs in as a user who sees a part of the cluster, or nothing. */
async function enter(page: Page, user: string) {
  await signIn(page, user);
  await page.waitForLoadState("networkidle");
}

const fixesPreview: Picture = {
  path: "/fixes",
  then: async (page) => {
    await page
      .getByRole("button", { name: /^Details of Update/ })
      .first()
      .click();
    await expect(page.getByText("Leaves open")).toBeVisible();
  },
};

const pictures: Record<string, Picture> = {
  overview: { path: "/", options: owned },
  "overview-loading": {
    path: "/",
    then: async (page) => {
      await page.route("**/api/v1/overview", () => undefined);
      await page.reload();
      await expect(page.getByText("Loading the overview")).toBeAttached();
    },
  },
  "overview-few-namespaces": { path: "/sign-in", options: signedOut, then: (page) => enter(page, "Alice") },
  "no-access": { path: "/sign-in", options: signedOut, then: (page) => enter(page, "Carol") },
  "overview-empty": { path: "/", options: { images: 0 } },
  images: { path: "/images" },
  "images-by-base": { path: "/images?group=bases" },
  "images-by-namespace": {
    path: "/images?group=namespaces",
    then: async (page) => {
      await page.getByRole("button", { name: "First rows of payments" }).click();
      await expect(page.getByRole("link", { name: /^List all/ })).toBeVisible();
    },
  },
  "images-error": {
    path: "/images",
    options: { fail: (path) => (path.includes("session") ? undefined : 400) },
  },
  image: { path: detailPath },
  "image-packages": { path: (image) => `${detailPath(image)}?tab=packages` },
  "image-layers": { path: (image) => `${detailPath(image)}?tab=layers` },
  "image-history": { path: (image) => `${detailPath(image)}?tab=history` },
  "image-sbom": { path: (image) => `${detailPath(image)}?tab=sbom` },
  "image-newer-tags": { path: (image) => `${detailPath(image)}?tab=newer-tags` },
  "image-presences": { path: (image) => `${detailPath(image)}?tab=presences` },
  fixes: { path: "/fixes" },
  "fixes-preview": fixesPreview,
  vulnerabilities: { path: "/vulnerabilities" },
  vulnerability: { path: "/vulnerabilities/CVE-2021-44228" },
  packages: { path: "/packages" },
  workloads: { path: "/workloads" },
  "workloads-by-owner": { path: "/workloads?group=owners", options: owned },
  "workloads-by-base": { path: "/workloads?group=bases" },
  rollouts: { path: "/rollouts" },
  rollout: {
    path: (_, { rollouts, images }) => {
      const scanned = new Set(
        images.filter(({ state }) => state === "Scanned").map(({ imageId }) => imageId),
      );
      const shown = rollouts.find(({ from, to }) => scanned.has(from.imageId) && scanned.has(to.imageId));
      return `/rollouts/${shown?.id ?? 0}`;
    },
  },
  compare: { path: "/compare" },
  "compare-result": {
    path: (from, { images }) => {
      const other = images.find(({ imageId, state }) => imageId !== from && state === "Scanned");
      return `/compare?${new URLSearchParams({ from, to: other?.imageId ?? "" }).toString()}`;
    },
  },
  decisions: { path: "/decisions" },
  coverage: { path: "/coverage" },
  notifications: { path: "/notifications" },
  database: { path: "/database" },
  "sign-in": { path: "/sign-in", options: signedOut },
  search: {
    path: "/images",
    then: async (page) => {
      await page.keyboard.press("Control+k");
      await page.getByRole("combobox", { name: "Search" }).fill("open");
      await expect(page.getByRole("option", { name: /^openssl/ }).first()).toBeVisible();
    },
  },
};

/** The pictures of pages in docs/images, and how high they are. */
const documented: Record<string, Picture & { height: number }> = {
  fixes: { ...fixesPreview, height: 900 },
  ui: {
    path: "/",
    options: { policies: 2 },
    height: 1044,
    then: async (page, operator) => {
      const [first, second, third] = operator.images;
      operator.event("image.cataloged", { packages: 121 }, first);
      operator.event("image.introduced", { namespace: "payments", counts: { high: 3, medium: 12 } }, first);
      operator.event("image.failed", { reason: "RegistryRateLimited" }, second);
      operator.event("rollout.evaluated", {
        id: 1,
        workload: { namespace: "web", name: "storefront" },
        opened: { medium: 1 },
        closed: { critical: 1, high: 4, medium: 9 },
      });
      operator.event("image.cataloged", { packages: 64 }, third);
      operator.event("database.updated", { changes: { opened: 126, closed: 58 } });
      const activity = page.getByRole("region", { name: "Activity" });
      await expect(activity.getByRole("listitem")).toHaveCount(6);
    },
  },
};

test.beforeAll(() => stopClock(noon));
test.afterAll(() => stopClock());

/** Opens a page and waits until it has loaded. */
async function show(page: Page, open: Open, { path, options, then }: Picture) {
  await page.clock.setFixedTime(noon);
  const operator = await open(options, (begun) =>
    typeof path === "string" ? path : path(begun.images[0]?.imageId ?? "", begun),
  );
  await page.waitForLoadState("networkidle");
  // Machines have different fonts of fixed width; the other one comes with the UI.
  await page.evaluate(() => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync('.font-mono, code, pre { font-family: "Inter Variable" !important; }');
    document.adoptedStyleSheets.push(sheet);
  });
  await then?.(page, operator);
}

for (const [name, picture] of Object.entries(pictures)) {
  test(`${name} looks as it did`, async ({ page, open }) => {
    await page.setViewportSize({ width: 1440, height: 900 });
    await show(page, open, picture);
    await expect(page).toHaveScreenshot(`${name}.png`);
    await page.setViewportSize({ width: 360, height: 800 });
    await page.emulateMedia({ colorScheme: "dark" });
    // The tabs of an image are below its facts there.
    const tabs = page.getByRole("tablist");
    if (name.startsWith("image-")) await tabs.evaluate((list) => list.scrollIntoView());
    await expect(page).toHaveScreenshot(`${name}-narrow-dark.png`);
  });
}

for (const [name, { height, ...picture }] of Object.entries(documented)) {
  test(`the documentation shows ${name} as it is`, async ({ page, open }) => {
    await page.setViewportSize({ width: 1440, height });
    await show(page, open, picture);
    await expect(page).toHaveScreenshot(`${name}.png`);
  });
}
