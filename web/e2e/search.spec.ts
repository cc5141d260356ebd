import { expect, test } from "./fixtures.ts";

test("finds a vulnerability by keyboard and goes back", async ({ page, open }) => {
  const operator = await open();
  await expect(page.getByText("120 images")).toBeVisible();
  const id = operator.sums.vulnerabilities[0]?.id ?? "";
  await page.keyboard.press("Control+k");
  await expect(page.getByRole("combobox", { name: "Search" })).toBeFocused();
  await page.keyboard.type(` ${id} `); // As it comes from a page or a mail.
  await expect(page.getByRole("option", { name: id }).first()).toBeVisible();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { level: 1, name: id })).toBeVisible();
  await page.keyboard.press("Control+k");
  await expect(page.getByRole("dialog", { name: "Search" })).toBeVisible();
  await page.keyboard.press("Escape");
  await expect(page.getByRole("dialog")).toHaveCount(0);
  await page.goBack();
  await expect(page.getByText("120 images")).toBeVisible();
});

test("Enter leads to what is typed, also before the search answers", async ({ page, open }) => {
  await open({ latency: 1000 });
  await page.getByRole("button", { name: "Search", exact: true }).click();
  await expect(page.getByRole("combobox", { name: "Search" })).toBeFocused();
  await page.keyboard.type("fix f");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/\/fixes$/);
});

test("what is typed replaces the text of the search before", async ({ page, open }) => {
  const operator = await open();
  await expect(page.getByText("120 images")).toBeVisible();
  const ids = operator.sums.vulnerabilities.slice(0, 2).map(({ id }) => id);
  for (const id of ids) {
    await page.keyboard.press("Control+k");
    await expect(page.getByRole("combobox", { name: "Search" })).toBeFocused();
    await page.keyboard.type(id);
    await expect(page.getByRole("option", { name: id }).first()).toBeEnabled();
    await page.keyboard.press("Enter");
    await expect(page.getByRole("heading", { level: 1, name: id })).toBeVisible();
  }
});

test("so does it in a search that is opened while the one before closes", async ({ page, open }) => {
  await page.emulateMedia({ reducedMotion: "no-preference" });
  await open();
  await expect(page.getByText("120 images")).toBeVisible();
  const field = page.getByRole("combobox", { name: "Search" });
  await page.keyboard.press("Control+k");
  await expect(field).toBeFocused();
  await page.keyboard.type("first");
  await expect(field).toHaveValue("first");
  await page.keyboard.press("End");
  await page.keyboard.press("Escape");
  await page.keyboard.press("Control+k");
  await expect(field).toBeFocused();
  await page.keyboard.type("second");
  await expect(field).toHaveValue("second");
  await page.emulateMedia({ reducedMotion: "reduce" });
});

test("leads to all packages of a name and a version, in any case", async ({ page, open }) => {
  const operator = await open();
  const { name, version = "" } = operator.sums.packages[0]?.package ?? { name: "none" };
  await page.getByRole("button", { name: "Search", exact: true }).click();
  await expect(page.getByRole("combobox", { name: "Search" })).toBeFocused();
  await page.keyboard.type(`${name.toUpperCase()} ${version}`);
  await page.getByRole("option", { name: `Packages that match “${name} ${version}”` }).click();
  await expect(page).toHaveURL((url) => url.searchParams.get("version") === `=${version}*`);
  await expect(page.getByRole("row").filter({ hasText: version }).first()).toContainText(name);
});

test("says why a search failed", async ({ page, open }) => {
  await open({ fail: (path) => (path === "/api/v1/search" ? 400 : undefined) });
  await page.getByRole("button", { name: "Search", exact: true }).click();
  await expect(page.getByRole("combobox", { name: "Search" })).toBeFocused();
  await page.keyboard.type("openssl");
  await expect(page.getByText(/^Could not search/)).toBeVisible();
});
