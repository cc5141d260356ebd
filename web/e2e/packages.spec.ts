import type { MockOperator } from "../mock/server.ts";
import { detailPath, expect, expectFits, test } from "./fixtures.ts";

const unknown = (images: MockOperator["images"]) =>
  images.find((image) => image.layersUnknown && image.state === "Scanned" && image.packages > 0);

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
  await expect(item(base)).toContainText(/[\d.]+ [KM]iB/);
  await expect(item(base + 1)).toContainText("This image");
  await expect(item(base + 4)).toContainText("No packages");
  await layer(base).press("Enter");
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
  await expect(page.getByText(/packages?, 1 layer$/)).toBeVisible();
  const idle = () => expect(page.locator("[aria-busy=true]")).toHaveCount(0);
  await idle();
  await page
    .getByRole("button", { name: /^Details of golang/ })
    .first()
    .press("Enter");
  await expect(page.getByText(/^layer sha256:/)).toBeVisible();
  await page.getByRole("link", { name: /In the list of findings|All .* findings/ }).click();
  await expect(page.getByRole("tab", { name: "Findings", selected: true })).toBeVisible();
  await expect(page.getByLabel("Search findings")).toHaveValue("golang.org/x/net");
  // And a finding leads back to its layer.
  await idle();
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
    ({ images }) => detailPath(unknown(images)?.imageId ?? ""),
  );
  await page.getByRole("link", { name: "as are the layers" }).click();
  await expect(page.getByText("The layers of this image are not known")).toBeVisible();
  await expect(
    page.getByText(/could not be read from the registry either: the registry requires credentials/),
  ).toBeVisible();
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

test("the layers of an image that was read from a volume are those of its registry", async ({
  page,
  open,
}) => {
  const { images } = await open(
    {},
    ({ images }) => `${detailPath(worst(images, "ImageVolume")?.imageId ?? "")}?tab=packages`,
  );
  const base = worst(images, "ImageVolume")?.base?.layers ?? 0;
  await expect(page.getByText("Which layer has which package is not known")).toBeVisible();
  await expect(page.getByText(`${base + 4} layers`)).toBeVisible();
  const items = page.getByRole("listitem");
  await expect(items.filter({ hasText: `Layer ${base}` }).first()).toContainText(/Base image.*Not known/);
  await page.getByRole("button", { name: "No known layer" }).click();
  await expect(page.getByRole("table", { name: "Packages in no known layer" })).toBeVisible();
});

test("an image that is not matched yet has packages, and neither counts nor filters of findings", async ({
  page,
  open,
}) => {
  // The filter by severity is one of the tab of findings: it does not apply.
  await open({}, ({ images }) => {
    const image = worst(images, "Registry");
    if (!image) throw new Error("no image");
    Object.assign(image, { state: "Cataloged", matchedAt: undefined });
    return `${detailPath(image.imageId)}?tab=packages&severity=Critical&layer=${image.base?.layers ?? 1}`;
  });
  const rows = page.getByRole("table", { name: /^Packages of layer/ }).getByRole("row");
  await expect(rows.filter({ hasText: "Not matched yet" })).not.toHaveCount(0);
  await expect(page.getByLabel("Search packages")).toBeVisible();
  await expect(page.getByRole("combobox", { name: "Severity" })).toHaveCount(0);
  await expect(page.getByRole("button", { name: "With findings" })).toHaveCount(0);
  await rows
    .filter({ hasText: "Not matched yet" })
    .first()
    .getByRole("button", { name: /^Details of/ })
    .press("Enter");
  await expect(page.getByText("Not matched yet.", { exact: true })).toBeVisible();
  await expect(page.getByRole("region", { name: "Packages" }).getByText(/\d (critical|high)/i)).toHaveCount(
    0,
  );
});

test("a finding has no layer while layers cannot be loaded, and a closed one no link", async ({
  page,
  open,
}) => {
  let fails = true;
  const operator = await open(
    { fail: (path) => (fails && path.endsWith("/layers") ? 400 : undefined) },
    ({ images }) => detailPath(worst(images, "Registry")?.imageId ?? ""),
  );
  const openFirst = () =>
    page
      .getByRole("button", { name: /^Details of/ })
      .first()
      .press("Enter");
  const step = page.getByRole("listitem").filter({ hasText: /^Layer/ });
  const place = new RegExp(`\\d+ of ${(worst(operator.images, "Registry")?.base?.layers ?? 0) + 4}`);
  await openFirst();
  await expect(step).toContainText("Could not load");
  fails = false;
  await step.getByRole("button", { name: "Try again" }).click();
  await expect(step.getByRole("link", { name: place })).toBeVisible();
  await page.getByRole("button", { name: "Closed", exact: true }).click();
  await expect(page.getByText("3 findings", { exact: true })).toBeVisible();
  await openFirst();
  await expect(step).toContainText(place);
  await expect(step.getByRole("link")).toHaveCount(0);
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
