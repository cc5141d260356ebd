import type { Database } from "../src/gen/model/index.ts";
import type { MockOperator } from "../mock/server.ts";
import { noChanges } from "../mock/databases.ts";
import { expect, test, tryAgain } from "./fixtures.ts";

/** Has the operator begin to match with another build, and returns its entry. */
function beginMatching(operator: MockOperator): Database {
  const [current] = operator.databases;
  if (!current) throw new Error("no database");
  const next: Database = {
    ...current,
    id: "xxh64:abababababababab",
    generation: current.generation + 1,
    previousBuild: current.id,
    state: "Matching",
    currentSince: undefined,
    queued: 200,
    matched: 50,
    changes: noChanges(),
  };
  operator.databases = [next, ...operator.databases];
  return next;
}

test("the overview warns of an outdated database", async ({ page, open }) => {
  await open({ update: { stale: true } }, "/");
  await expect(page.getByText("The vulnerability database is outdated")).toBeVisible();
  await expect(page.getByText("Sample vulnerability database")).toHaveCount(0);
});

test("the overview shows the sample database, with one warning, and links to it", async ({ page, open }) => {
  const operator = await open({ database: "sample", update: { stale: true } }, "/");
  const { opened = 0, closed = 0 } = operator.databases[0]?.changes ?? {};
  await expect(page.getByText("Sample vulnerability database")).toBeVisible();
  await expect(page.getByText("The vulnerability database is outdated")).toHaveCount(0);
  await page.getByRole("link", { name: `${opened} opened, ${closed} closed` }).click();
  await expect(page).toHaveURL(/\/database$/);
  await expect(page.getByRole("heading", { level: 1, name: "Vulnerability database" })).toBeVisible();
  await expect(page.getByText("Sample vulnerability database")).toBeVisible();
  await page.getByRole("link", { name: "Images", exact: true }).click();
  await expect(page.getByText("120 images")).toBeVisible();
});

test("tabs and filters of changes live in the address", async ({ page, open }) => {
  const operator = await open({}, "/database");
  const changes = operator.changes.get(operator.databases[0]?.generation ?? 0) ?? [];
  await expect(page.getByText("240 changes")).toBeVisible();
  const closed = changes.filter(({ kind }) => kind === "closed");
  await page.getByRole("tab", { name: `Closed ${closed.length}` }).click();
  await expect(page).toHaveURL(/kind=closed/);
  await expect(page.getByText(`${closed.length} changes`)).toBeVisible();
  await page.getByRole("button", { name: "Known exploited" }).click();
  await expect(page).toHaveURL(/kev=true/);
  await page.getByRole("searchbox").fill("no such package");
  await expect(page.getByText("No change matches")).toBeVisible();
  await page.getByRole("button", { name: "Clear filters" }).last().click();
  await expect(page.getByText("240 changes")).toBeVisible();
  await page.keyboard.press("/");
  await page.keyboard.type("openssl");
  await page.getByRole("combobox", { name: /Severity/ }).click();
  await page.getByRole("option", { name: "Critical" }).click();
  await expect(page).toHaveURL(/q=openssl&severity=Critical/);
  const found = changes.filter(
    ({ before, after, package: pkg }) =>
      pkg.name === "openssl" && [before, after].some((side) => side?.severity === "Critical"),
  );
  await expect(page.getByText(`${found.length} changes`, { exact: true })).toBeVisible();
  await page.reload();
  await expect(page.getByRole("searchbox")).toHaveValue("openssl");
  await expect(page.getByText(`${found.length} changes`, { exact: true })).toBeVisible();
});

test("another build shows what it changed", async ({ page, open }) => {
  const operator = await open({ pastDatabases: 6 }, "/database");
  await expect(page.getByRole("row", { name: /Built/ })).toHaveCount(4);
  await page.getByRole("button", { name: "Show all 7 builds" }).click();
  await expect(page.getByRole("row", { name: /Built/ })).toHaveCount(7);
  await page.getByRole("link", { name: "Built 2 days ago" }).click();
  await expect(page).toHaveURL(/generation=5/);
  await expect(page.getByText(`${operator.changes.get(5)?.length ?? 0} changes`)).toBeVisible();
  await page.getByRole("link", { name: "Built 6 days ago" }).click();
  await expect(page.getByText("This is the first build")).toBeVisible();
  await page.goto(page.url().replace(/generation=\d+/, "generation=99"));
  await page.getByRole("button", { name: "Show newest build" }).click();
  await expect(page.getByText("240 changes")).toBeVisible();
});

test("a change opens by keyboard and leads to its images", async ({ page, open }) => {
  const operator = await open({}, "/database");
  const changes = operator.changes.get(operator.databases[0]?.generation ?? 0) ?? [];
  await expect(page.getByText("240 changes")).toBeVisible();
  const index = changes.findIndex(({ kind, imageIds }) => kind !== "closed" && imageIds.length > 1);
  for (let step = 0; step <= index; step++) await page.keyboard.press("j");
  await expect(page.locator(`[role=table] [data-index='${index}'] [data-row-focus]`)).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { name: "Workloads" })).toBeVisible();
  // The focus stays where it was, for the next key.
  await expect(page.locator(`[role=table] [data-index='${index}'] [data-row-focus]`)).toBeFocused();
  await page.keyboard.press("Escape");
  await expect(page.getByRole("heading", { name: "Workloads" })).toBeHidden();
  const id = changes[index]?.vulnerabilityId ?? "";
  await expect(page.getByRole("link", { name: id, exact: true })).toHaveAttribute(
    "href",
    `/vulnerabilities/${id}`,
  );
  await page.keyboard.press("Enter");
  await page
    .getByRole("heading", { name: /^Images \(/ })
    .locator("..")
    .getByRole("link")
    .first()
    .click();
  await expect(page).toHaveURL(new RegExp(`/images/.*q=${id}`));
});

test("matching is shown as it goes, and then what it brought", async ({ page, open }) => {
  const operator = await open({}, "/database");
  await expect(page.getByText("Online")).toBeVisible();
  await expect(page.getByText("240 changes")).toBeVisible();
  const next = beginMatching(operator);
  // A message about an image makes the page look; from then on it asks by itself.
  operator.publish(operator.images[0]?.imageId ?? "");
  await expect(page.getByText("50 of 200 packages")).toBeVisible();
  await expect(page.getByText("240 changes")).toBeVisible();
  next.matched = 150;
  await expect(page.getByText("150 of 200 packages")).toBeVisible();
  const [, before] = operator.databases;
  operator.changes.set(next.generation, (operator.changes.get(before?.generation ?? 0) ?? []).slice(0, 17));
  Object.assign(next, { state: "Current", changes: { ...noChanges(), opened: 17 } });
  Object.assign(before ?? {}, { state: "Past" });
  await expect(page.getByText("17 changes")).toBeVisible();
  await expect(page.getByRole("progressbar")).toBeHidden();
});

test.describe("with a clock of its own", () => {
  test.use({ ownPage: true });

  test("nothing is asked for again and again while nothing is under way", async ({ page, open }) => {
    await page.clock.install();
    const operator = await open({}, "/database");
    await expect(page.getByText("240 changes")).toBeVisible();
    await expect(page.getByText("Online")).toBeVisible();
    const asked = () => operator.requests.filter((request) => request === "GET /api/v1/databases").length;
    const before = asked();
    await page.clock.runFor(30_000);
    expect(asked()).toBe(before);
    // Work that the operator began by itself is noticed within a minute.
    beginMatching(operator);
    await page.clock.runFor(31_000);
    await expect(page.getByText("50 of 200 packages")).toBeVisible();
  });
});

test("who may do so has everything matched again", async ({ page, open }) => {
  const operator = await open({}, "/database");
  await page.getByRole("button", { name: "Match again" }).click();
  await page.getByRole("menuitem", { name: /All packages/ }).click();
  await expect(page.getByText("Matching again")).toBeVisible();
  expect(operator.rematches).toEqual([true]);
  await page.getByRole("button", { name: "Match again" }).click();
  operator.options.fail = (path) => (path.endsWith("/rematch") ? 501 : undefined);
  await page.getByRole("menuitem", { name: /may have changed/ }).click();
  await expect(page.getByText("Could not start matching").first()).toBeVisible();
  await open({ readOnly: true }, "/database");
  await expect(page.getByText("240 changes")).toBeVisible();
  await expect(page.getByRole("button", { name: "Match again" })).toHaveCount(0);
});

test("says what is missing, and what failed", async ({ page, open }) => {
  await open(
    { database: "missing", update: { lastError: "fetch the listing: <b>refused</b>" } },
    "/database",
  );
  await expect(page.getByText("No vulnerability database yet")).toBeVisible();
  await expect(page.getByText("fetch the listing: <b>refused</b>")).toBeVisible();
  await open({ changes: 0 }, "/database");
  await expect(page.getByText("No changes")).toBeVisible();
  let broken = true;
  await open({ fail: (path) => (broken && path.endsWith("/changes") ? 400 : undefined) }, "/database");
  await tryAgain(page, "The database cannot be reached", () => (broken = false));
  await expect(page.getByText("240 changes")).toBeVisible();
});

test("hostile changes do nothing", async ({ page, open }) => {
  await open({ hostile: true }, "/database");
  await expect(page.getByText("10 changes")).toBeVisible();
  await page
    .getByRole("button", { name: /^Details of/ })
    .first()
    .click();
  await expect(page.getByRole("heading", { name: "Workloads" })).toBeVisible();
  expect(await page.evaluate(() => "__xss" in window)).toBe(false);
  expect(await page.locator("a[href^='javascript' i], main img, main iframe").count()).toBe(0);
});
