import type { MockOperator } from "../mock/server.ts";
import { detailPath, expect, expectFits, test } from "./fixtures.ts";

const worst = (images: MockOperator["images"], source: string) =>
  [...images]
    .filter((image) => image.source === source && image.base && image.counts.kev > 0)
    .sort((a, b) => b.counts.critical - a.counts.critical)[0];

test("packages by layer and location, by keyboard", async ({ page, open }) => {
  const { images } = await open({}, ({ images }) => detailPath(worst(images, "Registry")?.imageId ?? ""));
  const image = worst(images, "Registry");
  const base = image?.base?.layers ?? 0;
  await page.getByRole("tab", { name: "Packages" }).click();
  await expect(page).toHaveURL(/tab=packages/);
  await expect(page.getByText(`${base + 4} layers`)).toBeVisible();
  const layer = (number: number) => page.getByRole("button", { name: `Layer ${number}`, exact: true });
  const item = (number: number) =>
    page.getByRole("listitem").filter({ has: page.getByText(`Layer ${number}`, { exact: true }) });
  await expect(item(base)).toContainText("Base image");
  await expect(item(base + 1)).toContainText("This image");
  await expect(item(base + 4)).toContainText("No packages");
  await layer(base).focus();
  await page.keyboard.press("Enter");
  await expect(layer(base)).toHaveAttribute("aria-expanded", "true");
  await expect(page).toHaveURL(new RegExp(`layer=${base}`));
  const table = page.getByRole("table", { name: `Packages of layer ${base}` });
  await expect(table.getByRole("row").filter({ hasText: "/var/lib/dpkg/status" }).first()).toBeVisible();
  expect(await table.getByRole("row").count()).toBeLessThan(100);
  // Another layer takes its place.
  await layer(base + 1).click();
  await expect(table).toBeHidden();
  await page.getByRole("button", { name: "With findings" }).click();
  await page.getByLabel("Search packages").fill("golang");
  await expect(page).toHaveURL(/q=golang/);
  // The only layer that is left is open.
  const details = page.getByRole("button", { name: /^Details of golang/ }).first();
  await details.focus();
  await expect(details).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(page.getByText(/^layer sha256:/)).toBeVisible();
  await page.getByRole("link", { name: /In the list of findings|All .* findings/ }).click();
  await expect(page.getByRole("tab", { name: "Findings", selected: true })).toBeVisible();
  await expect(page.getByLabel("Search findings")).toHaveValue("golang.org/x/net");
  // And a finding leads back to its layer.
  await page
    .getByRole("button", { name: /^Details of/ })
    .first()
    .click();
  await page.getByRole("link", { name: new RegExp(`^\\d+ of ${base + 4}$`) }).click();
  await expect(page).toHaveURL(/tab=packages.*layer=\d/);
  await expect(page.getByRole("table", { name: /^Packages of layer/ })).toBeVisible();
});

test("says why layers are not known, and that nothing matches or was found", async ({ page, open }) => {
  let fails = false;
  const operator = await open(
    { fail: (path) => (fails && path.endsWith("/layers") ? 400 : undefined) },
    ({ images }) => `${detailPath(worst(images, "ImageVolume")?.imageId ?? "")}?tab=packages`,
  );
  await expect(page.getByText("The layers of this image are not known")).toBeVisible();
  await expect(page.getByRole("table", { name: "Packages in no known layer" })).toBeVisible();
  await page.getByLabel("Search packages").fill("nothing is named so");
  await expect(page.getByText("No package matches")).toBeVisible();
  const failed = operator.images.find(({ state }) => state === "Failed");
  await page.goto(new URL(`${detailPath(failed?.imageId ?? "")}?tab=packages`, page.url()).href);
  await expect(page.getByText("No packages yet")).toBeVisible();
  fails = true;
  await page.reload();
  await expect(page.getByRole("alert")).toBeVisible();
});

test("an open layer and an open package are accessible, narrow and wide", async ({ page, open }) => {
  await open({}, ({ images }) => {
    const image = worst(images, "Registry");
    return `${detailPath(image?.imageId ?? "")}?tab=packages&layer=${image?.base?.layers ?? 1}`;
  });
  await page
    .getByRole("button", { name: /^Details of/ })
    .first()
    .click();
  for (const width of [1440, 360]) {
    await page.setViewportSize({ width, height: 900 });
    await expect(page.getByText(/^layer sha256:/).first()).toBeVisible();
    await expectFits(page);
  }
});
