import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { test as base, expect, type Browser, type ConsoleMessage, type Page } from "@playwright/test";
import type { AxeResults } from "axe-core";
import { RolloutOperator, type OperatorOptions } from "../mock/operator.ts";
import { Host } from "./host.ts";

/** Starts an operator and opens a page of it, which may depend on its data. */
export type Open = (
  options?: OperatorOptions,
  path?: string | ((operator: RolloutOperator) => string),
) => Promise<RolloutOperator>;

interface Fixtures {
  open: Open;
  /** Gives the test a page that no other test uses, such as for a clock of its own. */
  ownPage: boolean;
}

interface WorkerFixtures {
  host: Host;
  sharedPage: Page;
}

const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

async function newPage(browser: Browser): Promise<Page> {
  const context = await browser.newContext({
    reducedMotion: "reduce",
    colorScheme: "light",
    locale: "en-US",
    timezoneId: "UTC",
  });
  await context.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) =>
      console.error(`Content Security Policy: ${event.violatedDirective} ${event.blockedURI}`),
    );
  });
  return context.newPage();
}

/** Opens the empty page, unless it is open: a test begins where the one before has ended. */
async function leave(page: Page, host: Host) {
  if (page.url() !== host.emptyURL) await page.goto(host.emptyURL);
}

/**
 * Every test runs under the Content-Security-Policy of the operator and fails when the page violates it. The tests of a
 * worker share one page, whose cookies, storage, size and colors are reset for each: a page and a context for each
 * test would take most of the time.
 */
export const test = base.extend<Fixtures, WorkerFixtures>({
  ownPage: [false, { option: true }],
  host: [
    async ({}, use) => {
      const host = new Host();
      await host.listen();
      await use(host);
      await host.close();
    },
    { scope: "worker" },
  ],
  sharedPage: [
    async ({ browser }, use) => {
      const page = await newPage(browser);
      await use(page);
      await page.context().close();
    },
    { scope: "worker" },
  ],
  page: async ({ browser, host, ownPage, sharedPage, viewport }, use) => {
    if (ownPage) {
      const page = await newPage(browser);
      await use(page);
      await page.context().close();
      return;
    }
    if (viewport) await sharedPage.setViewportSize(viewport);
    await use(sharedPage);
    await leave(sharedPage, host);
    await sharedPage.evaluate(() => localStorage.clear());
    await sharedPage.context().clearCookies();
    await sharedPage.emulateMedia({ colorScheme: "light" });
  },
  open: async ({ page, host }, use) => {
    const faults: string[] = [];
    const onError = (error: Error) => faults.push(error.message);
    const onMessage = (message: ConsoleMessage) => {
      if (/content.security.policy/i.test(message.text())) faults.push(message.text());
    };
    page.on("pageerror", onError);
    page.on("console", onMessage);
    await use(async (options = {}, path = "/images") => {
      // The page of the previous operator sends nothing to the next one.
      await leave(page, host);
      const operator = new RolloutOperator({ dist: "node_modules/.e2e", ...options });
      host.serve(operator);
      await page.goto(host.url(typeof path === "string" ? path : path(operator)));
      return operator;
    });
    expect(faults).toEqual([]);
    page.off("pageerror", onError);
    page.off("console", onMessage);
    await leave(page, host);
    host.serve(undefined);
  },
});

const allRules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

/** Those of these rules that look at colors. Nothing is shown or hidden by color scheme, so that all others find the same in both. */
const colorRules = { type: "rule", values: ["color-contrast", "link-in-text-block"] };

/** Asserts that axe finds nothing on the page as it stands, once its transitions have ended. */
async function expectAccessible(page: Page, rules: string[] | typeof colorRules) {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axeSource);
  const violations = await page.evaluate(async (runOnly) => {
    do {
      await new Promise(requestAnimationFrame);
      await Promise.allSettled(document.getAnimations().map(({ finished }) => finished));
    } while (document.getAnimations().length > 0);
    const { axe } = window as unknown as { axe: { run: (options: object) => Promise<AxeResults> } };
    const results = await axe.run({ runOnly, resultTypes: ["violations"] });
    return results.violations.map(({ id, nodes }) => ({
      id,
      nodes: nodes.slice(0, 3).map(({ html }) => html),
    }));
  }, rules);
  expect(violations).toEqual([]);
}

/** Asserts, in both color schemes, that the page is accessible and not wider than its window. */
export async function expectFits(page: Page) {
  for (const colorScheme of ["light", "dark"] as const) {
    await test.step(colorScheme, async () => {
      await page.emulateMedia({ colorScheme });
      await expect(page.locator("html")).toHaveClass(colorScheme === "dark" ? /dark/ : /^(?!.*dark)/);
      await expectAccessible(page, colorScheme === "dark" ? colorRules : allRules);
    });
  }
  const [needed, width] = await page.evaluate(() => [
    document.documentElement.scrollWidth,
    window.innerWidth,
  ]);
  expect(needed).toBeLessThanOrEqual(width);
}

/**
 * Clicks "Try again" of an alert with a text, after a repair. A page asks for all that it shows when its WebSocket has
 * connected: repaired before, it would recover without a click.
 */
export async function tryAgain(page: Page, text: string, repair: () => void) {
  await expect(page.getByRole("status").filter({ hasText: "Online" })).toBeAttached();
  // What the page asks for then takes the place of the alert, until that fails, too.
  await page.evaluate(
    () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))),
  );
  await expect(page.getByRole("alert")).toContainText(text);
  repair();
  await page.getByRole("button", { name: "Try again" }).click();
}

/** Signs in with the provider of the mock operator, which asks for a name only. */
export async function signIn(page: Page, user = "") {
  await page.getByRole("link", { name: "Sign in with Example ID" }).click();
  await page.getByRole("link", { name: user }).click();
}

export const detailPath = (imageId: string) => `/images/${encodeURIComponent(imageId)}`;

export { expect };
