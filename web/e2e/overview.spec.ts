import { sumCoverage } from "../mock/sums.ts";
import { expect, test } from "./fixtures.ts";

test("the first page says what is covered, what changed, what is due and what to do", async ({
  page,
  open,
}) => {
  const operator = await open({ policies: 2 }, "/");
  await expect(page.getByRole("heading", { level: 1, name: "Overview" })).toBeVisible();
  await expect(page.getByRole("heading", { name: /Coverage/ })).toBeVisible();
  await expect(
    page.getByRole("heading", { name: "17 Overdue of 400 findings with a due date" }),
  ).toBeVisible();
  await expect(page.getByText(/^Next due (tomorrow|in 2 days)$/)).toBeVisible();
  const changes = page.getByRole("region", { name: "Changes since" });
  await expect(changes.getByRole("row", { name: /^Yesterday .* 7 2$/ })).toBeVisible();
  await expect(changes.getByRole("row", { name: /^Last week .* 35 10$/ })).toBeVisible();
  const { failed } = sumCoverage(operator.sums.coverage);
  await page
    .getByRole("list", { name: "Gaps in coverage" })
    .getByRole("link", { name: `Failed ${failed}` })
    .click();
  await expect(page).toHaveURL(/\/coverage\?state=Failed$/);
  await page.goBack();
  const actions = page.getByRole("region", { name: "Fix first" });
  await expect(actions.getByRole("listitem")).toHaveCount(7);
  await actions.getByRole("listitem").first().getByRole("link").click();
  await expect(page).toHaveURL(/\/fixes\?image=/);
});

test("the changes fit a narrow screen, with a column for each period", async ({ page, open }) => {
  await page.setViewportSize({ width: 360, height: 800 });
  await open({}, "/");
  const changes = page.getByRole("region", { name: "Changes since" });
  await expect(changes.getByRole("row", { name: "Opened 7 35", exact: true })).toBeVisible();
  await expect(changes.getByRole("row", { name: "Closed 2 10", exact: true })).toBeVisible();
  await expect(changes.getByRole("row", { name: /^Critical [+−±]\S+ [+−±]\S+$/ })).toBeVisible();
  expect(
    await changes.locator("table").evaluate(({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth),
  ).toBe(true);
  expect(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth)).toBe(true);
  await open({ trendDays: 1 }, "/");
  await expect(changes.getByRole("cell", { name: "No data that old" })).toHaveCount(2);
});

test("activity shows what happened before and appears as it happens, the latest first", async ({
  page,
  open,
}) => {
  const operator = await open({ images: 3 }, "/sign-in");
  const [image] = operator.images;
  operator.event("image.failed", { reason: "PullFailed" }, image);
  operator.event("finding.opened");
  await page.goto(new URL("/", page.url()).href);
  const lines = page.getByRole("region", { name: "Activity" }).getByRole("listitem");
  await expect(lines.first()).toContainText("PullFailed");
  await expect(lines).toHaveCount(1);
  operator.event("database.updated", { changes: { opened: 3, closed: 1 } });
  await expect(lines.first()).toContainText("New vulnerability database: 3 opened, 1 closed");
  operator.disconnect();
  operator.event("coverage.lost", { namespace: "shop" });
  await expect(lines).toContainText([/^Coverage lost in shop/, /^New vulnerability database/, /PullFailed/]);
  await lines.first().getByRole("link").click();
  await expect(page).toHaveURL(/\/coverage\?namespace=shop$/);
});

test("without activity, and with a part that fails, the rest is shown", async ({ page, open }) => {
  await open({ fail: (path) => (/trends|fixes|policies/.test(path) ? 400 : undefined) }, "/");
  await expect(page.getByRole("region", { name: "Activity" }).getByText("appear here")).toBeVisible();
  await expect(page.getByRole("heading", { name: /Coverage/ })).toBeVisible();
  await expect(page.getByRole("alert")).toHaveCount(3);
  await open({ fail: (path) => (path.includes("/events") ? 503 : undefined) }, "/");
  const activity = page.getByRole("region", { name: "Activity" });
  await expect(activity.getByRole("alert")).toContainText("Could not refresh");
  await expect(activity.getByText("appear here")).toBeHidden();
  await open({}, "/");
  await expect(page.getByText("no policies")).toBeVisible();
});

test("links to the list of images as it was before lead there", async ({ page, open }) => {
  await open({}, "/?severity=High&namespace=nothing");
  await expect(page).toHaveURL(/\/images\?severity=High&namespace=nothing$/);
  await expect(page.getByText("No image matches")).toBeVisible();
});
