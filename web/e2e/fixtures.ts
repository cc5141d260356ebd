import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { test as base, expect, type Page } from "@playwright/test";
import type { AxeResults } from "axe-core";
import { RolloutOperator, type OperatorOptions } from "../mock/operator.ts";

interface Fixtures {
  /** Starts an operator and opens a page of it. */
  open: (options?: OperatorOptions, path?: string) => Promise<RolloutOperator>;
}

const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Every test runs under the Content-Security-Policy of the operator and fails when the page trips over it. */
export const test = base.extend<Fixtures>({
  open: async ({ page }, use) => {
    const operators: RolloutOperator[] = [];
    const faults: string[] = [];
    page.on("pageerror", (error) => faults.push(error.message));
    page.on("console", (message) => {
      if (/content.security.policy/i.test(message.text())) faults.push(message.text());
    });
    await page.addInitScript(() => {
      document.addEventListener("securitypolicyviolation", (event) =>
        console.error(`Content Security Policy: ${event.violatedDirective} ${event.blockedURI}`),
      );
    });
    await use(async (options = {}, path = "/") => {
      const operator = new RolloutOperator({ dist: "node_modules/.e2e", ...options });
      operators.push(operator);
      const address = await operator.listen();
      await page.goto(address + path);
      return operator;
    });
    expect(faults).toEqual([]);
    await page.goto("about:blank");
    await Promise.all(operators.map((operator) => operator.close()));
  },
});

/** Asserts that axe finds nothing on the page as it stands. */
export async function expectAccessible(page: Page) {
  // Colours are judged when they have settled.
  await page.waitForTimeout(250);
  await page.evaluate(axeSource);
  const violations = await page.evaluate(async () => {
    const { axe } = window as unknown as { axe: { run: (options: object) => Promise<AxeResults> } };
    const results = await axe.run({
      runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    });
    return results.violations.map(({ id, nodes }) => ({
      id,
      nodes: nodes.slice(0, 3).map(({ html }) => html),
    }));
  });
  expect(violations).toEqual([]);
}

export const detailPath = (imageId: string) => `/images/${encodeURIComponent(imageId)}`;

export { expect };
