import { makeFixes } from "../mock/fixes.ts";
import { RolloutOperator } from "../mock/operator.ts";
import { expect, test } from "./fixtures.ts";
import { tabTo } from "./keyboard.ts";

test("from an empty cluster to what a team does first, and what that opens, by keyboard alone", async ({
  page,
  open,
}) => {
  // No click and no address after the first one: what can be reached is reached with keys.
  const operator = await open({ images: 0, sums: { owners: true } }, "/");
  await expect(page.getByText("No images yet")).toBeVisible();
  await expect(page.getByText("Online")).toBeVisible();
  const { images, sums } = new RolloutOperator({ images: 30, sums: { owners: true } });
  Object.assign(operator, { images, sums });
  operator.publish(images[0]?.imageId ?? "");
  await expect(page.getByRole("heading", { name: "Coverage" })).toBeVisible();

  await page.keyboard.press("Control+k");
  await expect(page.getByRole("combobox", { name: "Search" })).toBeFocused();
  await page.keyboard.type("fix f");
  await expect(page.getByRole("option", { name: "Fix first" })).toBeVisible();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { level: 1, name: "Fix first" })).toBeVisible();

  const team = "Payments";
  await tabTo(page, page.getByRole("textbox", { name: "Owner" }));
  await page.keyboard.type(team);
  await page.keyboard.press("Enter");
  const actions = makeFixes(operator.images, operator.sums).filter(
    ({ action, workloads }) => action !== "wait" && workloads.some(({ owner }) => owner === team),
  );
  const first = actions.reduce((best, one) => (one.risk > best.risk ? one : best));
  const row = page.getByRole("row").nth(1);
  await expect(page).toHaveURL(/owner=Payments/);
  await expect(row).toContainText(first.summary);
  await expect(row.getByRole("link").first()).toHaveAttribute(
    "href",
    new RegExp(encodeURIComponent(first.imageId)),
  );

  await tabTo(page, row.getByRole("button", { name: /^Details of/ }));
  await page.keyboard.press("Enter");
  const opened = page.getByRole("definition").nth(1);
  await expect(opened).toContainText("2 medium");
  const finding = page.getByRole("link", { name: "CVE-2025-1111" });
  await tabTo(page, finding);
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/\/vulnerabilities\/CVE-2025-1111$/);
});
