import { readFile } from "node:fs/promises";
import type { MockOperator } from "../mock/server.ts";
import { detailPath, expect, test } from "./fixtures.ts";

const worst = ({ images }: MockOperator) =>
  [...images].sort((a, b) => b.counts.kev - a.counts.kev)[0]?.imageId ?? "";

test("shows facts, findings and why they matched", async ({ page, open }) => {
  const operator = await open({}, (operator) => detailPath(worst(operator)));
  const imageId = worst(operator);
  await expect(page.getByText(imageId, { exact: true })).toBeVisible();
  await page
    .getByRole("button", { name: /^Details of/ })
    .first()
    .click();
  await expect(page.getByRole("heading", { name: "Match details" })).toBeVisible();
  await expect(page.getByText("versionConstraint")).toBeVisible();
  await page.keyboard.press("Escape");
  await expect(page.getByRole("heading", { name: "Match details" })).toBeHidden();
  await page.getByRole("button", { name: "Known exploited" }).click();
  await expect(page).toHaveURL(/kev=true/);
  await expect(page.getByText(/^3 findings$|^2 findings$|^1 finding$|^4 findings$/)).toBeVisible();
  await page
    .getByRole("button", { name: /^Details of/ })
    .first()
    .click();
  await expect(page.getByRole("link", { name: /^https:/ }).first()).toHaveAttribute(
    "rel",
    "noopener noreferrer",
  );
});

test("says that a result is partial, and how the image was read", async ({ page, open }) => {
  await open({}, ({ images }) => detailPath(images.find((image) => image.partial)?.imageId ?? ""));
  await expect(page.getByText("The result is partial")).toBeVisible();
  await expect(page.getByText(/could not read 12 files or directories/)).toBeVisible();
  await expect(page.getByText("the node (image volume)")).toBeVisible();
});

test("downloads the report and the SBOM", async ({ page, open }) => {
  await open({}, (operator) => detailPath(worst(operator)));
  for (const [item, suffix, content] of [
    ["Report", ".cdx.json", "CycloneDX"],
    ["SBOM", ".syft.json", "artifacts"],
  ] as const) {
    await page.getByRole("button", { name: "Download" }).click();
    const started = page.waitForEvent("download");
    await page.getByRole("menuitem", { name: new RegExp(`^${item} (CycloneDX|Syft)`) }).click();
    const download = await started;
    expect(download.suggestedFilename()).toMatch(new RegExp(`^[\\w.-]+\\${suffix}$`));
    expect(await readFile(await download.path(), "utf8")).toContain(content);
  }
});

test("removes a result after asking", async ({ page, open }) => {
  const operator = await open({}, (operator) => detailPath(worst(operator)));
  const imageId = worst(operator);
  await page.getByRole("button", { name: "Remove" }).click();
  await expect(page.getByRole("alertdialog")).toContainText("scanned again");
  await page.keyboard.press("Escape");
  await expect(page.getByRole("alertdialog")).toBeHidden();
  await page.getByRole("button", { name: "Remove" }).click();
  await page.getByRole("alertdialog").getByRole("button", { name: "Remove" }).click();
  await expect(page.getByText("119 images")).toBeVisible();
  await expect(page.getByText("Scan result removed")).toBeVisible();
  expect(operator.images.some((image) => image.imageId === imageId)).toBe(false);
});

test("explains a failure", async ({ page, open }) => {
  const failedOf = ({ images }: MockOperator) => images.find(({ state }) => state === "Failed");
  const failed = failedOf(await open({}, (operator) => detailPath(failedOf(operator)?.imageId ?? "")));
  await expect(page.getByText(`(${failed?.reason ?? ""})`)).toBeVisible();
  await expect(page.getByText(failed?.message ?? "")).toBeVisible();
  await expect(page.getByText(/next one in/)).toBeVisible();
});

test("says when an image is not known", async ({ page, open }) => {
  await open({}, detailPath("docker.io/library/gone@sha256:0"));
  await expect(page.getByText("Image not found")).toBeVisible();
});

test("hostile text does nothing", async ({ page, open }) => {
  const operator = await open({ hostile: true });
  await expect(page.getByText("10 images")).toBeVisible();
  for (const { imageId } of operator.images) {
    await page.goto(new URL(detailPath(imageId), page.url()).href);
    await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
  }
  await page.goto(new URL(detailPath(operator.images[1]?.imageId ?? ""), page.url()).href);
  await page
    .getByRole("button", { name: /^Details of/ })
    .first()
    .click();
  await expect(page.getByRole("heading", { name: "Match details" })).toBeVisible();
  expect(await page.evaluate(() => "__xss" in window)).toBe(false);
  expect(await page.locator("a[href^='javascript' i], main img, main iframe").count()).toBe(0);
});
