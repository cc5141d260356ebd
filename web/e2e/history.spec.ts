import { readFile } from "node:fs/promises";
import type { MockOperator } from "../mock/server.ts";
import { detailPath, expect, test } from "./fixtures.ts";

const critical = ({ images }: MockOperator) => images.find(({ counts }) => counts.critical > 0);

test("the trend has a table, and says that a single day is none", async ({ page, open }) => {
  await open({}, "/");
  const trend = page.getByRole("region", { name: "Findings by day", exact: true });
  await expect(trend.getByRole("img", { name: /^Findings by day: \d+ critical/ })).toBeVisible();
  await trend.getByText("View as table").click();
  await expect(trend.getByRole("row")).toHaveCount(31);
  await open({ trendDays: 1 }, "/");
  await expect(page.getByText("No data that old").first()).toBeVisible();
  await expect(page.getByText("One day is no trend yet.")).toBeVisible();
  await expect(page.getByText("View as table")).toHaveCount(0);
  await open({ fail: (path) => (path === "/api/v1/trends" ? 400 : undefined) }, "/");
  await expect(page.getByRole("region", { name: "Changes since" }).getByRole("alert")).toBeVisible();
  await expect(page.getByText("Findings by day")).toHaveCount(0);
});

test("an image tells where it ran, and what it had", async ({ page, open }) => {
  await open({}, (operator) => detailPath(critical(operator)?.imageId ?? ""));
  await expect(page.getByRole("columnheader", { name: "First seen" })).toBeVisible();
  await page.getByRole("button", { name: "Closed", exact: true }).click();
  await expect(page).toHaveURL(/closed=true/);
  await expect(page.getByText("3 findings", { exact: true })).toBeVisible();
  await page.getByRole("tab", { name: "Run history" }).click();
  await expect(page).toHaveURL(/tab=presences/);
  await expect(page.getByText("6 periods")).toBeVisible();
  await expect(page.getByText("payments/Deployment/checkout-api")).toBeVisible();
  await expect(page.getByText("Running now")).toHaveCount(2);
  await page.reload();
  await expect(page.getByText("6 periods")).toBeVisible();
  await expect(page.getByText("Uploaded report only")).toHaveCount(0);
});

test("an image that is known from a report says so", async ({ page, open }) => {
  await open({}, (operator) => {
    const image = critical(operator);
    if (!image) throw new Error("no image");
    Object.assign(image, { fromReport: true, reported: { ...image.counts, critical: 77 } });
    return detailPath(image.imageId);
  });
  await expect(page.getByText("Uploaded report only")).toBeVisible();
  await expect(page.getByText(/The report lists 77 critical/)).toBeVisible();
});

test("exports one image in each format, findings by their filters, and says when there is too much", async ({
  page,
  open,
}) => {
  const idOf = (operator: MockOperator) => critical(operator)?.imageId ?? "";
  const imageId = idOf(await open({}, (operator) => `${detailPath(idOf(operator))}?severity=High`));
  const exported = async (button: string, item: string) => {
    await page.getByRole("button", { name: button }).click();
    const started = page.waitForEvent("download");
    await page.getByRole("menuitem", { name: item }).click();
    const download = await started;
    return { name: download.suggestedFilename(), asked: await readFile(await download.path(), "utf8") };
  };
  for (const [item, suffix, format] of [
    ["CSV", ".csv", "csv"],
    ["SARIF", ".sarif", "sarif"],
    ["CycloneDX 1.6", ".vex.cdx.json", "cyclonedx-json"],
    ["SPDX", ".spdx.json", "spdx-json"],
  ] as const) {
    const { name, asked } = await exported("Download", item);
    expect(name.endsWith(suffix)).toBe(true);
    expect(asked).toContain(`format=${format}`);
    expect(asked).toContain(`/api/v1/images/${encodeURIComponent(imageId)}?`);
  }
  const { name, asked } = await exported("Export", "SARIF");
  expect(name).toMatch(/-findings\.sarif$/);
  expect(asked).toContain("/findings?severity=High");
  await open({ images: 1200 });
  await page.getByRole("button", { name: "Export" }).click();
  await page.getByRole("menuitem", { name: "SPDX" }).click();
  await expect(page.getByText(/at most 1,000 images are exported/).first()).toBeVisible();
});

test("six pages are reached on a narrow screen", async ({ page, open }) => {
  await page.setViewportSize({ width: 360, height: 700 });
  await open();
  for (const name of ["Vulnerabilities", "Packages", "Workloads", "Coverage", "Database"]) {
    await page.getByRole("navigation", { name: "Pages" }).getByRole("button").click();
    await page.getByRole("menuitem", { name }).click();
    await expect(page).toHaveURL(new RegExp(`/${name.toLowerCase()}$`));
    await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
    await expect(page.getByRole("navigation", { name: "Pages" }).getByRole("button")).toHaveText(name);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
  }
});
