import { detailPath, expect, test } from "./fixtures.ts";

test("works below a base path", async ({ page, host, open }) => {
  const basePath = "/scanner/";
  const operator = await open({ basePath, images: 30 }, `${basePath}?q=nginx`);
  await expect(page.getByText("Online")).toBeVisible();
  await expect(page.getByRole("searchbox")).toHaveValue("nginx");

  const pages = page.getByRole("navigation", { name: "Pages" });
  await pages.getByRole("link", { name: "Vulnerabilities" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "Vulnerabilities" })).toBeVisible();
  await expect(page).toHaveURL(host.url("/scanner/vulnerabilities"));

  const imageId = operator.images[0]?.imageId ?? "";
  const detail = `/scanner${detailPath(imageId)}`;
  await page.goto(host.url(detail));
  await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
  await page.reload();
  await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
  await expect(page).toHaveURL(host.url(detail));
  await expect(page.getByText("Online")).toBeVisible();
  await pages.getByRole("link", { name: "Images" }).click();
  await expect(page).toHaveURL(host.url(`${basePath}images`));
  await expect(page.getByText("30 images")).toBeVisible();

  await page.goto(host.url("/scanner/rollouts"));
  await expect.poll(() => operator.dialled.some((url) => url.startsWith("/api/v1/events"))).toBe(true);
  expect(host.outside).toEqual([]);
});
