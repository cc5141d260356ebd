import { expect, live, number, someRows, test } from "./fixtures.ts";
import { expected, type Counts } from "./setup.ts";

const { wide, narrow } = expected;

const added = (a: Counts, b: Counts): Counts => ({
  critical: a.critical + b.critical,
  high: a.high + b.high,
  medium: a.medium + b.medium,
  low: a.low + b.low,
  negligible: a.negligible + b.negligible,
  unknown: a.unknown + b.unknown,
  kev: a.kev + b.kev,
  fixable: a.fixable + b.fixable,
});

test("Overview", async ({ page, measured }) => {
  await measured.open("/");
  await expect(page.getByRole("heading", { name: "Coverage" })).toBeVisible();
  const overview = await measured.get<{ counts: typeof expected.findings; images: { scanned: number } }>(
    "/api/v1/overview",
  );
  const { images, findings } = await live.now();
  expect(overview.images.scanned).toBe(expected.images + images);
  expect(overview.counts).toEqual(added(expected.findings, findings));
  await measured.watch();
});

test("Search", async ({ page, measured }) => {
  await measured.open("/images");
  await live.start();
  for (const [text, heading] of [
    [narrow.id, narrow.id],
    [expected.image.workload, /^(Workloads|Coverage)$/],
  ] as const) {
    await page.keyboard.press("Control+k");
    await expect(page.getByRole("combobox", { name: "Search" })).toBeFocused();
    await page.keyboard.type(text, { delay: 60 });
    const option = page.getByRole("option", { name: text }).first();
    await expect(option).toBeEnabled();
    await page.keyboard.press("Enter");
    await expect(page.getByRole("heading", { level: 1, name: heading })).toBeVisible();
  }
  await page.keyboard.press("Control+k");
  await page.keyboard.type("live-", { delay: 60 });
  await expect(page.getByRole("option").first()).toBeVisible();
  await measured.watch();
});

test("Fix first", async ({ page, measured }) => {
  await measured.open("/fixes");
  const { total } = await measured.get<{ total: number }>("/api/v1/fixes?pageSize=1");
  await measured.shows(`${number(total)} actions`);
  await live.start();
  await measured.scroll({ rows: someRows });
  await measured.top();
  const details = page.getByRole("button", { name: /^Details of/ });
  await details.first().click();
  await expect(details.first()).toHaveAttribute("aria-expanded", "true");
  await details.first().click();
  const namespace = page.getByRole("textbox", { name: "Namespace" });
  await namespace.fill(expected.namespace);
  await namespace.press("Enter");
  const within = await measured.get<{ total: number }>(
    `/api/v1/fixes?pageSize=1&namespace=${expected.namespace}`,
  );
  expect(within.total).toBeLessThan(total);
  await measured.shows(`${number(within.total)} actions`);
  await measured.watch();
});

test("Vulnerabilities", async ({ page, measured }) => {
  const { images } = await live.now();
  await measured.open("/vulnerabilities?sort=id");
  await measured.shows(`${number(expected.vulnerabilities + images)} vulnerabilities`);
  await measured.total("/api/v1/vulnerabilities?pageSize=1", expected.vulnerabilities + images);
  await live.start();
  await measured.scroll({ rows: someRows });
  await measured.top();
  await page.getByRole("searchbox", { name: "Search vulnerabilities" }).click();
  await page.keyboard.type(narrow.id, { delay: 60 });
  await measured.shows("1 vulnerability");
  await page.getByRole("button", { name: "Clear filters" }).click();
  const after = await live.stop();
  await measured.shows(`${number(expected.vulnerabilities + after.images)} vulnerabilities`);
  await measured.watch();
});

test("A vulnerability of all images", async ({ page, measured }) => {
  await measured.open(`/vulnerabilities/${wide.id}`);
  await expect(page.getByText(`in ${number(wide.images)} images`)).toBeVisible();
  await measured.total(`/api/v1/vulnerabilities/${wide.id}/affected?pageSize=1`, wide.findings);
  await live.start();
  await measured.scroll({ rows: someRows });
  await measured.top();
  for (const tab of ["Closed", "Timeline", "Current"]) await page.getByRole("tab", { name: tab }).click();
  await measured.watch();
});

test("A vulnerability of some images", async ({ page, measured }) => {
  await measured.open(`/vulnerabilities/${narrow.id}`);
  await expect(
    page.getByText(`${number(narrow.findings)} findings in ${number(narrow.images)} images`),
  ).toBeVisible();
  await measured.watch();
});

test("Packages", async ({ measured }) => {
  const { images } = await live.now();
  await measured.open("/packages");
  await measured.shows(`${number(expected.packages + images)} packages`);
  await measured.total("/api/v1/packages?pageSize=1", expected.packages + images);
  await live.start();
  await measured.scroll({ rows: someRows });
  await measured.top();
  await measured.watch();
});

test("Workloads, owners and namespaces", async ({ page, measured }) => {
  const { images } = await live.now();
  await measured.open("/workloads");
  await measured.shows(`${number(expected.workloads + images)} workloads`);
  await measured.total("/api/v1/workloads?pageSize=1", expected.workloads + images);
  await live.start();
  await measured.scroll({ rows: someRows });
  await measured.top();
  await page
    .getByRole("button", { name: /^Details of/ })
    .first()
    .click();
  await page.getByRole("tab", { name: "By owner" }).click();
  const after = await live.stop();
  const owners = expected.owners + Math.min(1, after.images);
  await measured.shows(`${number(owners)} rows`);
  await measured.total("/api/v1/owners?pageSize=1", owners);
  await page.getByRole("tab", { name: "By namespace" }).click();
  const namespaces = expected.namespaces + Math.min(1, after.images);
  await measured.shows(`${number(namespaces)} namespaces`);
  await measured.total("/api/v1/namespaces?pageSize=1", namespaces);
  await page
    .getByRole("button", { name: /^First rows of/ })
    .first()
    .click();
  await expect(page.getByRole("link", { name: /^List (all )?\d+ workloads?$/ })).toBeVisible();
  await measured.watch();
});

test("Rollouts", async ({ page, measured }) => {
  await measured.open("/rollouts");
  // An image that takes the place of another one is a rollout, too.
  const { total } = await measured.get<{ total: number }>("/api/v1/rollouts?pageSize=1");
  expect(total).toBeGreaterThanOrEqual(expected.rollouts);
  await measured.shows(`${number(total)} rollouts`);
  await live.start();
  await measured.scroll({ rows: someRows });
  await measured.top();
  const namespace = page.getByRole("textbox", { name: "Namespace" });
  await namespace.fill(expected.namespace);
  await namespace.press("Enter");
  await measured.shows(`${number(expected.namespaceRollouts)} rollouts`);
  await measured.total(
    `/api/v1/rollouts?pageSize=1&namespace=${expected.namespace}`,
    expected.namespaceRollouts,
  );
  await page.getByRole("button", { name: "Clear filters" }).click();
  await live.stop();
  const after = await measured.get<{ total: number }>("/api/v1/rollouts?pageSize=1");
  await measured.shows(`${number(after.total)} rollouts`);
  await measured.watch();
});

test("Decisions", async ({ page, measured }) => {
  await measured.open("/decisions");
  await measured.shows(`${number(expected.decisions)} decisions`);
  await measured.total("/api/v1/decisions?pageSize=1", expected.decisions);
  await live.start();
  await measured.scroll({ rows: someRows });
  await measured.top();
  const details = page.getByRole("button", { name: /^Details of/ }).first();
  await details.click();
  await expect(details).toHaveAttribute("aria-expanded", "true");
  await page.getByRole("searchbox", { name: "Vulnerability" }).click();
  await page.keyboard.type("CVE-2026-00007", { delay: 60 });
  await measured.shows("1 decision");
  await page.getByRole("button", { name: "Clear filters" }).click();
  await measured.shows(`${number(expected.decisions)} decisions`);
  // Decisions do not follow from images that come and go.
  await measured.watch({ concerned: false });
});

test("Compare", async ({ page, measured }) => {
  const { from, to, opened, closed } = expected.compare;
  await measured.open(`/compare?${new URLSearchParams({ from, to }).toString()}`);
  const shows = async (title: string, count: number) =>
    expect(page.getByRole("region", { name: title }).getByText(`${number(count)} findings`)).toBeVisible();
  await shows("Opened", opened);
  await shows("Closed", closed);
  await page.getByRole("button", { name: "Swap the images" }).click();
  await shows("Opened", closed);
  await shows("Closed", opened);
  await measured.watch();
});

for (const list of ["images", "workloads"]) {
  test(`Base images of ${list}`, async ({ page, measured }) => {
    await measured.open(`/${list}?group=bases`);
    // Images that come and go share layers with others, and may be their bases.
    const { total } = await measured.get<{ total: number }>("/api/v1/bases?pageSize=1");
    expect(total).toBeGreaterThanOrEqual(expected.bases);
    await measured.shows(`${number(total)} base images`);
    await live.start();
    await measured.scroll({ rows: someRows });
    await measured.top();
    const namespace = page.getByRole("textbox", { name: "Namespace" });
    await namespace.fill(expected.namespace);
    await namespace.press("Enter");
    await live.stop();
    const within = await measured.get<{ total: number }>(
      `/api/v1/bases?pageSize=1&namespace=${expected.namespace}`,
    );
    await measured.shows(`${number(within.total)} base image${within.total === 1 ? "" : "s"}`);
    await measured.watch();
  });
}

test("Coverage", async ({ measured }) => {
  const { images } = await live.now();
  await measured.open("/coverage");
  await measured.total("/api/v1/coverage?pageSize=1", expected.containers + images);
  await live.start();
  await measured.scroll({ rows: someRows });
  await measured.top();
  const after = await live.stop();
  await measured.shows(`${number(expected.containers + after.images)} rows`);
  await measured.watch();
});
