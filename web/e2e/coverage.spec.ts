import { sumCoverage } from "../mock/sums.ts";
import { expect, test, tryAgain } from "./fixtures.ts";

test("the overview leads to the ratio, and tabs tell why no more is covered", async ({ page, open }) => {
  const operator = await open({}, "/");
  const summary = sumCoverage(operator.sums.coverage);
  const ratio = `${Math.floor(100 * summary.ratio)}%`;
  await expect(page.getByRole("heading", { name: `${ratio} Coverage` })).toBeVisible();
  await page.getByRole("link", { name: "Coverage", exact: true }).click();
  await expect(page).toHaveURL(/\/coverage$/);
  await expect(page.getByText(ratio, { exact: true })).toBeVisible();
  await expect(page.getByText("140 rows")).toBeVisible();
  await page.getByRole("tab", { name: `Failed ${summary.failed}` }).click();
  await expect(page).toHaveURL(/state=Failed/);
  const failed = operator.sums.coverage.filter(({ state }) => state === "Failed");
  await expect(page.getByText(`${failed.length} rows`)).toBeVisible();
  // The ratio is that of all of them still.
  await expect(page.getByText(ratio, { exact: true })).toBeVisible();
  await expect(page.getByText(/next attempt in/).first()).toBeVisible();
  await page.keyboard.press("j");
  await expect(page.locator("[role=table] [data-index='0'] [data-row-focus]")).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(page.getByText(failed[0]?.message ?? "none")).toBeVisible();
  await expect(page.getByText(/The next attempt is due in/)).toBeVisible();
  await page.getByRole("searchbox").fill("no such container");
  await expect(page.getByText("No container matches")).toBeVisible();
});

test("a reason in the address can be taken away", async ({ page, open }) => {
  const operator = await open({}, "/coverage?reason=IgnoreLabel");
  const ignored = operator.sums.coverage.filter(({ reason }) => reason === "IgnoreLabel").length;
  await expect(page.getByText(new RegExp(`^${ignored} rows?$`))).toBeVisible();
  await page.getByRole("button", { name: "Show containers with any reason" }).click();
  await expect(page.getByText("140 rows")).toBeVisible();
});

test("says what is missing, and what failed", async ({ page, open }) => {
  await open({ images: 0 }, "/coverage");
  await expect(page.getByText("There are no containers to scan.")).toBeVisible();
  await expect(page.getByText("No containers yet")).toBeVisible();
  let broken = true;
  await open({ fail: (path) => (broken && path === "/api/v1/coverage" ? 400 : undefined) }, "/coverage");
  await tryAgain(page, "connection refused", () => (broken = false));
  await expect(page.getByText("140 rows")).toBeVisible();
});

test("changes by itself, and a burst of messages costs few requests", async ({ page, open }) => {
  const operator = await open({}, "/coverage?state=Pending");
  await expect(page.getByText("Online")).toBeVisible();
  const [imageId = ""] = operator.images.map((image) => image.imageId);
  operator.sums.coverage = operator.sums.coverage.filter(({ state }) => state !== "Pending");
  operator.requests.length = 0;
  for (let round = 0; round < 500; round++) operator.publish(imageId);
  await expect(page.getByText("No container is Pending")).toBeVisible();
  const asked = () => operator.requests.filter((request) => request === "GET /api/v1/coverage").length;
  expect(asked()).toBeLessThanOrEqual(2);
});
