import { readFile } from "node:fs/promises";
import type { MockOperator } from "../mock/server.ts";
import { detailPath, expect, expectFits, test, tryAgain } from "./fixtures.ts";

test("filters and sort live in the address", async ({ page, open }) => {
  const operator = await open({}, "/vulnerabilities");
  const all = operator.sums.vulnerabilities;
  await expect(page.getByText("150 vulnerabilities")).toBeVisible();
  await expect(page).toHaveTitle(/^Vulnerabilities/);
  await page.getByRole("combobox", { name: /EPSS/ }).click();
  await page.getByRole("option", { name: "50% or more" }).click();
  await expect(page).toHaveURL(/epss=0.5/);
  const likely = all.filter(({ epss }) => epss >= 0.5).length;
  await expect(page.getByText(`${likely} vulnerabilities`, { exact: true })).toBeVisible();
  await page.getByRole("button", { name: "Clear filters" }).click();
  await page.getByRole("button", { name: "Known exploited" }).click();
  await page.getByRole("button", { name: "Fixable" }).click();
  await expect(page).toHaveURL(/fixable=true&kev=true/);
  const both = all.filter(({ kev, fixable }) => kev && fixable).length;
  await expect(page.getByText(`${both} vulnerabilities`, { exact: true })).toBeVisible();
  await page.reload();
  await expect(page.getByText(`${both} vulnerabilities`, { exact: true })).toBeVisible();
  await page.getByRole("button", { name: "Clear filters" }).click();
  await page.getByRole("button", { name: "EPSS", exact: true }).click();
  await expect(page.getByRole("columnheader", { name: "EPSS" })).toHaveAttribute("aria-sort", "descending");
  await expect(page).toHaveURL(/sort=-epss/);
  await expect(page.getByRole("button", { name: "EPSS", exact: true })).toBeFocused();
});

test("a search leads to one vulnerability and Escape back", async ({ page, open }) => {
  await open({}, "/vulnerabilities");
  await expect(page.getByText("150 vulnerabilities")).toBeVisible();
  await page.keyboard.press("/");
  await page.keyboard.type("2021-44228");
  await expect(page.getByText("1 vulnerability", { exact: true })).toBeVisible();
  await page.getByRole("searchbox").blur();
  await page.keyboard.press("j");
  await expect(page.getByRole("link", { name: "CVE-2021-44228" })).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/\/vulnerabilities\/CVE-2021-44228$/);
  await expect(page.getByRole("heading", { level: 1, name: "CVE-2021-44228" })).toBeVisible();
  await page.keyboard.press("Escape");
  await expect(page.getByRole("searchbox")).toHaveValue("2021-44228");
});

test("shows what has it now, had it, and ran with it on a day", async ({ page, open }) => {
  const some = ({ sums }: MockOperator) =>
    sums.vulnerabilities.find(({ images }) => images > 40 && images < 110);
  const operator = await open({}, (operator) => `/vulnerabilities/${some(operator)?.id ?? ""}`);
  const summary = some(operator);
  const images = summary?.images ?? 0;
  await expect(page.getByText("heap-based").or(page.getByText("attacker")).first()).toBeVisible();
  await expect(page.getByRole("link", { name: /^https:\/\/nvd\.nist\.gov/ }).first()).toHaveAttribute(
    "rel",
    "noopener noreferrer",
  );
  await expect(page.getByText(new RegExp(`^${images} findings in ${images} images`))).toBeVisible();
  await page.getByRole("tab", { name: "Closed" }).click();
  await expect(page).toHaveURL(/time=closed/);
  await expect(page.getByRole("columnheader", { name: "Closed" })).toBeVisible();
  await expect(page.getByText(new RegExp(`^${Math.ceil(images / 3)} findings in`))).toBeVisible();
  await page.getByRole("tab", { name: "On a date" }).click();
  operator.requests.length = 0;
  await page.getByLabel("Date (UTC)").fill("2026-01-31");
  await expect(page).toHaveURL(/time=day&on=2026-01-31/);
  await expect
    .poll(() =>
      operator.queries.some((query) => query.includes("on=2026-01-31") && !query.includes("closed")),
    )
    .toBe(true);
  await expect(page.getByRole("columnheader", { name: "Workloads on this date" })).toBeVisible();
  await page.getByLabel("Namespace").fill("nowhere");
  await expect(page.getByText("Nothing matches")).toBeVisible();
  await page.getByRole("button", { name: "Clear filters" }).first().click();
  await page.getByRole("row").nth(1).getByRole("link").click();
  await expect(page).toHaveURL(/\/images\//);
});

test("findings of an image lead to it", async ({ page, open }) => {
  await open({}, ({ images }) => detailPath(images.find(({ counts }) => counts.critical > 0)?.imageId ?? ""));
  const link = page.getByRole("link", { name: /^(CVE|GHSA)-/ }).first();
  await expect(link).toHaveAttribute("href", /^\/vulnerabilities\/(CVE|GHSA)-/);
  await link.click();
  await expect(page.getByText("Vulnerability not found")).toBeVisible();
});

test("exports all rows that the filters keep", async ({ page, open }) => {
  await open({}, "/vulnerabilities?q=CVE&kev=true&sort=id");
  const started = page.waitForEvent("download");
  await page.getByRole("button", { name: "CSV" }).click();
  const download = await started;
  expect(download.suggestedFilename()).toBe("vulnerabilities.csv");
  const asked = new URL(await readFile(await download.path(), "utf8"), "http://mock");
  expect(Object.fromEntries(asked.searchParams)).toEqual({
    text: "CVE",
    kev: "true",
    sort: "id",
    format: "csv",
  });
});

test("says what is loading, missing, and what failed", async ({ page, open }) => {
  const slow = await open({ latency: 3000 }, "/vulnerabilities");
  await expect(page.getByText("Loading: Vulnerabilities")).toBeAttached();
  slow.options.latency = 0;
  await open({ images: 0 }, "/vulnerabilities");
  await expect(page.getByText("No vulnerabilities", { exact: true })).toBeVisible();
  await open({}, "/vulnerabilities?q=no-such");
  await expect(page.getByText("No vulnerability matches")).toBeVisible();
  let broken = true;
  await open(
    { fail: (path) => (broken && path.includes("/vulnerabilities") ? 400 : undefined) },
    "/vulnerabilities",
  );
  await tryAgain(page, "The database cannot be reached", () => (broken = false));
  await expect(page.getByText("150 vulnerabilities")).toBeVisible();
});

test("hostile text does nothing", async ({ page, open }) => {
  const operator = await open({ hostile: true }, "/vulnerabilities");
  await expect(page.getByText("10 vulnerabilities")).toBeVisible();
  for (const { id } of operator.sums.vulnerabilities.slice(0, 4)) {
    await page.goto(new URL(`/vulnerabilities/${encodeURIComponent(id)}`, page.url()).href);
    await expect(page.getByRole("heading", { name: "Affected images" })).toBeVisible();
  }
  expect(await page.evaluate(() => "__xss" in window)).toBe(false);
  expect(await page.locator("a[href^='javascript' i], main img, main iframe").count()).toBe(0);
});

test("the timeline shows which images had it when, narrow and wide", async ({ page, open }) => {
  const { sums } = await open({}, "/vulnerabilities/CVE-2021-44228");
  const images = sums.vulnerabilities.find(({ id }) => id === "CVE-2021-44228")?.images ?? 0;
  await page.getByRole("tab", { name: "Timeline" }).click();
  await expect(page).toHaveURL(/time=timeline/);
  const rows = page.getByRole("list", { name: "Timeline" }).getByRole("listitem");
  await expect(rows).toHaveCount(Math.min(images, 100));
  // The mock operator has a closed finding of the first image, and another one that is open: both are in one row.
  await expect(rows.first()).toContainText(/\w+ \d+, \d{4} to \w+ \d+, \d{4}since \w+ \d+, \d{4}/);
  for (const width of [1440, 360]) {
    await page.setViewportSize({ width, height: 900 });
    await expectFits(page);
  }
  await page.getByLabel("Namespace").fill("nowhere");
  await expect(page.getByText("Nothing matches")).toBeVisible();
});

test("the timeline shows which workloads ran it when, narrow and wide", async ({ page, open }) => {
  await open({}, "/vulnerabilities/CVE-2021-44228?time=timeline");
  await page.getByRole("combobox", { name: "By" }).click();
  await page.getByRole("option", { name: "Workload" }).click();
  await expect(page).toHaveURL(/by=workload/);
  await expect(page.getByText("12 workloads", { exact: true })).toBeVisible();
  const rows = page.getByRole("table", { name: "Timeline" }).getByRole("row");
  await expect(rows.nth(1)).toContainText(/since \w+ \d+, \d{4}the last of 2 times since \w+ \d+, \d{4}/);
  await expect(rows.nth(2)).toContainText(/since \w+ \d+, \d{4}suppressed/);
  await expect(rows.nth(4)).toContainText(/\w+ \d+, \d{4} to \w+ \d+, \d{4}then the database closed it/);
  for (const width of [1440, 360]) {
    await page.setViewportSize({ width, height: 900 });
    await expectFits(page);
  }
  await page.getByLabel("Namespace").fill("nowhere");
  await expect(page.getByText("Nothing matches")).toBeVisible();
});
