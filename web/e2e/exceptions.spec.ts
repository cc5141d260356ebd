import type { RolloutOperator } from "../mock/operator.ts";
import { detailPath, expect, expectFits, test } from "./fixtures.ts";

const worst = ({ images }: RolloutOperator) =>
  [...images].sort((a, b) => b.counts.kev - a.counts.kev)[0]?.imageId ?? "";

test("shows suppressed findings on request, and why", async ({ page, open }) => {
  await open({}, (operator) => detailPath(worst(operator)));
  await expect(page.getByRole("button", { name: /^Details of/ }).first()).toBeVisible();
  await page.getByRole("searchbox", { name: "Search findings" }).fill("CVE-2020-900");
  await expect(page.getByText("No finding matches")).toBeVisible();
  await page.getByRole("button", { name: "Show suppressed" }).click();
  await expect(page).toHaveURL(/suppressed=true/);
  await expect(page.getByText("2 findings", { exact: true })).toBeVisible();
  await expect(page.getByTitle("Suppressed: Not affected")).toHaveCount(2);
  await page.getByRole("button", { name: /^Details of CVE-2020-9000/ }).click();
  await expect(page.getByRole("heading", { name: "Suppressed" })).toBeVisible();
  await expect(page.getByText("Vulnerable code not in execute path")).toBeVisible();
  await expect(page.getByText(/The parser is not reachable/)).toBeVisible();
  await expect(page.getByText(/ClusterVulnerabilityException parser-not-reachable/)).toBeVisible();
  await expect(page.getByText(/does not suppress the finding/)).toBeVisible();
  await expectFits(page);
  await page.setViewportSize({ width: 390, height: 844 });
  await expectFits(page);
  await page.reload();
  await expect(page.getByText("2 findings", { exact: true })).toBeVisible();
});

test("shows what an exception suppresses of a vulnerability", async ({ page, open }) => {
  await open({}, "/vulnerabilities/CVE-2021-44228");
  await page.getByRole("button", { name: "Show suppressed" }).click();
  await expect(page).toHaveURL(/suppressed=true/);
  await page.getByRole("button", { name: "Suppressed: Not affected" }).click();
  await expect(page.getByRole("dialog")).toContainText("parser-not-reachable");
  await expectFits(page);
  await page.keyboard.press("Escape");
  await page.getByRole("tab", { name: "Closed" }).click();
  await expect(page.getByRole("button", { name: "Show suppressed" })).toBeHidden();
});

test("writes an exception for a finding", async ({ page, open }) => {
  await open({}, (operator) => detailPath(worst(operator)));
  await page
    .getByRole("button", { name: /^Details of CVE/ })
    .first()
    .click();
  await page.getByRole("button", { name: "Write an exception" }).click();
  const manifest = page.getByLabel("Manifest of the exception");
  await expect(manifest).toContainText("kind: ClusterVulnerabilityException");
  await expect(manifest).toContainText(/vulnerabilities: \["CVE-/);
  await expect(manifest).toContainText(/packages: \["pkg:[^?]*"\]/);
  await expectFits(page);
});

test("a new exception takes its findings from the lists", async ({ page, open }) => {
  const operator = await open({}, (operator) => detailPath(worst(operator)));
  await expect.poll(() => operator.dialled.some((url) => url.includes("decision.expired"))).toBe(true);
  const first = page.getByRole("button", { name: /^Details of/ }).first();
  const [, id = ""] = /^Details of (\S+)/.exec((await first.getAttribute("aria-label")) ?? "") ?? [];
  expect(id).not.toBe("");
  await expect(page.getByRole("link", { name: id, exact: true }).first()).toBeVisible();
  operator.suppressed.add(id);
  operator.event("decision.changed");
  await expect(page.getByRole("link", { name: id, exact: true })).toHaveCount(0);
});
