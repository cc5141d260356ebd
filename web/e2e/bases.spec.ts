import { expect, test } from "./fixtures.ts";

test("a base image leads to the images on it, and an image to its base and what comes from it", async ({
  page,
  open,
}) => {
  // Filters that the list of base images does not have go.
  const operator = await open({}, "/images?q=docker&kev=true");
  const of = (distro: string) =>
    operator.images.filter((image) => image.base && image.distro === distro).length;
  await page.getByRole("combobox", { name: "Group by" }).click();
  await page.getByRole("option", { name: "Base image" }).click();
  await expect(page).toHaveURL(/\/images\?group=bases$/);
  const row = page.getByRole("row").filter({ hasText: "debian" }).first();
  await expect(row).toContainText("1 layer · listed · sha256:");
  await expect(page.getByRole("row").filter({ hasText: "Not known" })).not.toHaveCount(0);
  await expect(page.getByRole("row").filter({ hasText: "Not known" }).first()).not.toContainText("listed");
  const unknown = page.getByText("One entry of the list of base images matches no image").locator("../..");
  await expect(unknown).toContainText("registry.example.com/base/*");
  await expect(unknown).not.toContainText("docker.io/library/debian");
  await row.getByRole("link", { name: `${of("debian 12")} images` }).click();
  await expect(page).toHaveURL(/\/images\?base=sha256/);
  await expect(page.getByText(`${of("debian 12")} images`)).toBeVisible();
  await expect(page.getByRole("button", { name: "Show images on all base images" })).toBeVisible();
  await page.getByRole("row").nth(1).getByRole("link").first().click();
  const base = page.getByText("all images on it").locator("../..");
  await expect(base).toContainText("debianlisted, 1 layer");

  const from = page.getByRole("combobox", { name: /From/ });
  await from.click();
  await page.getByRole("option", { name: "This image" }).click();
  await expect(page).toHaveURL(/origin=image/);
  await from.click();
  await page.getByRole("option", { name: "Base image" }).click();
  await expect(page).toHaveURL(/origin=base/);
});

test("base images are sorted, filtered and shown on a narrow screen", async ({ page, open }) => {
  await open({}, "/images?group=bases");
  await page.getByRole("columnheader", { name: "Findings of the images on it" }).getByRole("button").click();
  await expect(page).toHaveURL(/sort=-severity/);
  await page.getByLabel("Namespace").fill("nowhere");
  await expect(page.getByText("No base image matches")).toBeVisible();
  await page.setViewportSize({ width: 360, height: 800 });
  await page.getByRole("button", { name: "Clear filters" }).first().click();
  await expect(page.getByRole("link", { name: /\d+ images?/ }).first()).toBeVisible();
});
