import { filterFixes, makeFixes } from "../mock/fixes.ts";
import { expect, expectFits, test, tryAgain } from "./fixtures.ts";

test("actions come with the highest risk first, explain themselves and lead to their images", async ({
  page,
  open,
}) => {
  const operator = await open();
  await page.getByRole("navigation").getByRole("link", { name: "Fix first" }).click();
  await expect(page).toHaveTitle(/^Fix first/);
  const total = makeFixes(operator.images, operator.sums).length;
  await expect(page.getByText(`${total} actions`)).toBeVisible();
  const row = page.getByRole("row").nth(1);
  await expect(row).toContainText(/Update .* from .* to /);
  await row.getByRole("button", { name: /^Details of Update/ }).click();
  await expect(page.getByText("The version is the lowest one that closes all findings")).toBeVisible();
  await expect(page.getByRole("link", { name: "CVE-2021-44228" })).toBeVisible();
  const preview = page.getByRole("definition");
  await expect(preview.nth(1)).toContainText("2 medium");
  await expect(page.getByRole("link", { name: "CVE-2025-1111" })).toBeVisible();
  await expectFits(page);
  await page.getByRole("textbox", { name: "Another version" }).fill("x");
  await page.getByRole("button", { name: "Preview" }).click();
  await expect(page.getByText("was not previewed: the version cannot be compared")).toBeVisible();
  await page.getByRole("textbox", { name: "Another version" }).fill("9.9.9");
  await page.keyboard.press("Enter");
  await expect(page.getByText("In version 9.9.9, matched with the vulnerability database")).toBeVisible();
  await page.getByRole("button", { name: "Known exploited" }).click();
  await page.getByRole("combobox", { name: "Action" }).click();
  await page.getByRole("option", { name: "Update a package" }).click();
  await expect(page).toHaveURL(/action=update&kev=true$/);
  await row.getByRole("link").first().click();
  await expect(page).toHaveURL(/\/images\//);
  await page.getByRole("main").getByRole("link", { name: "Fixes" }).click();
  await expect(page.getByText("2 actions")).toBeVisible();
  await page.getByRole("button", { name: "Show actions for all images" }).click();
  await expect(page.getByText(`${total} actions`)).toBeVisible();
});

for (const width of [360, 1440]) {
  test(`actions of a workload, and of workloads without an owner, ${width} px`, async ({ page, open }) => {
    await page.setViewportSize({ width, height: 900 });
    const operator = await open({ sums: { owners: true } }, "/workloads");
    const actions = (params: Record<string, string>) =>
      filterFixes(makeFixes(operator.images, operator.sums), new URLSearchParams(params)).length;
    const { namespace, name } = operator.sums.workloads.find(
      ({ workload }) => actions({ namespace: workload.namespace, workload: workload.name }) > 0,
    )?.workload ?? { namespace: "none", name: "none" };
    await page.getByRole("searchbox", { name: "Search workloads" }).fill(name);
    const details = page.getByRole("button", { name: new RegExp(`^Details of ${namespace}/.*/${name}$`) });
    await details.first().click();
    await page.getByRole("link", { name: "What to fix first" }).click();
    await expect(page.getByRole("textbox", { name: "Workload" })).toHaveValue(name);
    await expect(page.getByText(`${actions({ namespace, workload: name })} actions`)).toBeVisible();
    await expectFits(page);
    await page.goto(new URL("/fixes?owner=nobody", page.url()).href);
    await expect(page.getByText("No action matches")).toBeVisible();
    await page.getByRole("button", { name: "Without an owner" }).click();
    await expect(page).toHaveURL(/\/fixes\?noOwner=true$/);
    await expect(page.getByText(`${actions({ noOwner: "true" })} actions`)).toBeVisible();
    await expectFits(page);
    await page.getByRole("textbox", { name: "Owner" }).fill("nobody");
    await expect(page).toHaveURL(/\/fixes\?owner=nobody$/);
  });

  test(`a newer tag is an action, ${width} px`, async ({ page, open }) => {
    await page.setViewportSize({ width, height: 900 });
    await open({}, "/fixes?action=newerTag");
    const toggle = page.getByRole("button", {
      name: "Details of Move from the tag 1.27.1-alpine to 1.27.5-alpine",
    });
    await toggle.first().click();
    await expect(page.getByText("registry.example.com/shop/web:1.27.1-alpine →")).toBeVisible();
    await expect(
      page.getByText("Updates and a rebuild of the image can close the same findings"),
    ).toBeVisible();
    await expect(page.getByRole("definition").first()).toContainText("1 medium");
    await expect(page.getByText("Computing the preview")).toBeHidden();
    await expect(page.getByRole("link", { name: "CVE-2026-0002" })).toBeVisible();
    await expectFits(page);
    await page.getByRole("link", { name: "All newer tags of the image" }).click();
    await expect(page.getByRole("tab", { name: "Newer tags", selected: true })).toBeVisible();
  });

  test(`a newer base image is an action, ${width} px`, async ({ page, open }) => {
    await page.setViewportSize({ width, height: 900 });
    const { images } = await open({}, "/fixes?action=newerBase");
    const toggle = page.getByRole("button", {
      name: "Details of Rebuild on the base image debian:12.7 instead of 12.5",
    });
    await toggle.first().click();
    await expect(page.getByText("registry.example.com/library/debian:12.5 →")).toBeVisible();
    await expect(
      page.getByText("The newer tag of the base image does not have these findings"),
    ).toBeVisible();
    await expectFits(page);
    await page.getByRole("link", { name: "All newer tags of the base image" }).click();
    await expect(page.getByRole("tab", { name: "Newer tags", selected: true })).toBeVisible();
    await expect(page).toHaveURL(new RegExp(encodeURIComponent(images[0]?.imageId ?? "none")));
  });
}

test("filters that nothing matches and errors are explained", async ({ page, open }) => {
  await open({}, "/fixes?namespace=nothing");
  await expect(page.getByText("No action matches")).toBeVisible();
  await expectFits(page);
  let broken = true;
  await open({ fail: (url) => (broken && url === "/api/v1/fixes" ? 400 : undefined) }, "/fixes");
  await expect(page.getByRole("alert")).toContainText("connection refused");
  await expectFits(page);
  await tryAgain(page, "connection refused", () => (broken = false));
  await expect(page.getByRole("row").nth(1)).toContainText(/Update .* from .* to /);
  await open({ fail: (url) => (url === "/api/v1/fixes/preview" ? 400 : undefined) }, "/fixes");
  await page
    .getByRole("button", { name: /^Details of Update/ })
    .first()
    .click();
  await expect(page.getByRole("alert")).toContainText("Could not compute the preview: ");
  await expectFits(page);
});

for (const width of [360, 1440]) {
  test(`hostile and missing actions fit ${width} px`, async ({ page, open }) => {
    await page.setViewportSize({ width, height: 900 });
    await open({ hostile: true }, "/fixes");
    await page
      .getByRole("button", { name: /^Details of/ })
      .first()
      .click();
    await expectFits(page);
    await open({ images: 0 }, "/fixes");
    await expect(page.getByText("Nothing to do")).toBeVisible();
    await expectFits(page);
  });
}
