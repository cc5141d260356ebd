import { expect, test } from "./fixtures.ts";

test("filters and sort live in the address", async ({ page, open }) => {
  await open();
  await expect(page.getByText("120 images")).toBeVisible();
  await page.keyboard.press("/");
  await page.keyboard.type("prometheus");
  await expect(page).toHaveURL(/q=prometheus/);
  await expect(page.getByRole("row").nth(1)).toContainText("prometheus");
  await page.getByRole("combobox", { name: /Severity/ }).click();
  await page.getByRole("option", { name: "High or worse" }).click();
  await expect(page).toHaveURL(/severity=High/);
  await page.getByRole("button", { name: "Image", exact: true }).click();
  await expect(page).toHaveURL(/sort=imageId/);
  await expect(page.getByRole("columnheader", { name: "Image" })).toHaveAttribute("aria-sort", "ascending");
  await page.reload();
  await expect(page.getByRole("searchbox")).toHaveValue("prometheus");
  await page.getByRole("button", { name: "Clear filters" }).click();
  await expect(page.getByText("120 images")).toBeVisible();
});

test("images past the end of life of their distribution say so, and can be selected", async ({
  page,
  open,
}) => {
  await open({}, "/images?sort=imageId");
  await page.getByRole("combobox", { name: /End of life/ }).click();
  await page.getByRole("option", { name: "Reached" }).click();
  await expect(page).toHaveURL(/endOfLifeWithin=0/);
  await expect(page.getByText("120 images")).toHaveCount(0);
  const row = page.getByRole("row").nth(1);
  await expect(row.getByText("End of life").locator("visible=true")).toBeVisible();
  await row.getByRole("link").click();
  await expect(page.getByText(/has reached its end of life$/)).toBeVisible();
  await expect(page.getByText("(reached)")).toBeVisible();
});

test("the oldest images first", async ({ page, open }) => {
  await open();
  await page.getByRole("combobox", { name: /Age/ }).click();
  await page.getByRole("option", { name: "A year or more" }).click();
  await page.getByRole("combobox", { name: /Sort/ }).click();
  await page.getByRole("option", { name: "Oldest" }).click();
  await expect(page).toHaveURL(/olderThan=365&sort=created/);
  await expect(page.getByRole("row").nth(1)).toContainText(/created 2 years ago/);
});

test("several states at once, and nothing that matches", async ({ page, open }) => {
  await open();
  await page.getByRole("combobox", { name: /State/ }).click();
  await page.getByRole("option", { name: "Failed" }).click();
  await page.getByRole("option", { name: "Pending" }).click();
  await page.keyboard.press("Escape");
  await expect(page).toHaveURL(/state=Failed&state=Pending/);
  await page.getByRole("searchbox").fill("no such image");
  await expect(page.getByText("No image matches")).toBeVisible();
});

test("moves over the rows by keyboard, opens one and comes back", async ({ page, open }) => {
  await open();
  await expect(page.getByText("120 images")).toBeVisible();
  await page.keyboard.press("j");
  await expect(page.locator("[data-index='0'] [data-row-focus]")).toBeFocused();
  await page.keyboard.press("j");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("k");
  await expect(page.locator("[data-index='1'] [data-row-focus]")).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/\/images\//);
  // The list stays until the code of the next page is there.
  await expect(page.getByRole("heading", { level: 1, name: "Images" })).toHaveCount(0);
  await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
  await page.keyboard.press("Escape");
  await expect(page.getByText("120 images")).toBeVisible();
});

test("the skip link leads to the content", async ({ page, open }) => {
  await open();
  await expect(page.getByText("120 images")).toBeVisible();
  await page.keyboard.press("Tab");
  await expect(page.getByRole("link", { name: "Skip to content" })).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(page.locator("main")).toBeFocused();
});

test("the theme is kept", async ({ page, open }) => {
  await open();
  await page.getByRole("button", { name: /Theme/ }).click();
  await page.getByRole("menuitemradio", { name: "Dark" }).click();
  await expect(page.locator("html")).toHaveClass(/dark/);
  await page.reload();
  await expect(page.locator("html")).toHaveClass(/dark/);
});

test("removes a result from the list after confirmation, by keyboard", async ({ page, open }) => {
  const operator = await open({}, "/images?sort=imageId");
  await expect(page.getByText("120 images")).toBeVisible();
  const imageId = (await page.getByRole("row").nth(1).locator("bdi").getAttribute("title")) ?? "";
  const remove = page.getByRole("button", { name: `Remove the scan result of ${imageId}` });
  await page.keyboard.press("j");
  await expect(page.locator("[data-index='0'] [data-row-focus]")).toBeFocused();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await expect(remove).toBeFocused();
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("alertdialog", { name: "Remove this scan result?" });
  await expect(dialog).toBeVisible();
  await page.keyboard.press("Escape");
  await expect(dialog).toBeHidden();
  await expect(remove).toBeFocused();
  await page.keyboard.press("Enter");
  operator.options.fail = (path) => (path.startsWith("/scan-results/") ? 403 : undefined);
  await dialog.getByRole("button", { name: "Remove" }).click();
  await expect(dialog.getByRole("alert")).toContainText("Could not remove the scan result");
  operator.options.fail = undefined;
  await dialog.getByRole("button", { name: "Remove" }).click();
  await expect(page.getByText("119 images")).toBeVisible();
  await expect(page.getByText("Scan result removed")).toBeVisible();
  // The next row has taken the place of the removed one, and the focus.
  await expect(page.locator("[data-index='0'] [data-row-focus]")).toBeFocused();
  await expect(remove).toHaveCount(0);
  expect(operator.images.some((image) => image.imageId === imageId)).toBe(false);
});

test("a user who may only read has no remove action", async ({ page, open }) => {
  await open({ readOnly: true });
  await expect(page.getByText("120 images")).toBeVisible();
  await expect(page.getByRole("button", { name: /^Remove/ })).toHaveCount(0);
});
