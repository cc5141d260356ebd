import { expect, expectFits, test, tryAgain } from "./fixtures.ts";

test("workloads open, and lead to their images", async ({ page, open }) => {
  const operator = await open({}, "/workloads");
  await expect(page.getByText("90 workloads")).toBeVisible();
  const [first] = [...operator.sums.workloads].sort((a, b) => b.counts.critical - a.counts.critical);
  await page.keyboard.press("j");
  await expect(page.locator("[role=table] [data-index='0'] [data-row-focus]")).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { name: `Images (${first?.imageCount ?? 0})` })).toBeVisible();
  await page.getByRole("link", { name: "List images with findings" }).click();
  await expect(page).toHaveURL(new RegExp(`workload=${first?.workload.name ?? ""}`));
  await expect(page.getByText(/^\d+ images?$/)).toHaveText(
    first?.imageCount === 1 ? "1 image" : `${first?.imageCount ?? 0} images`,
  );
  await page.getByRole("button", { name: "Show images of all workloads" }).click();
  await page.getByRole("button", { name: "Clear filters" }).click();
  await expect(page.getByText("120 images")).toBeVisible();
});

test("a key that selects a row does nothing in the filters", async ({ page, open }) => {
  await open({}, "/workloads");
  await expect(page.getByText("90 workloads")).toBeVisible();
  const box = page.getByRole("table").getByRole("checkbox").nth(1);
  await page.getByRole("button", { name: "Fixable" }).press("x");
  await page.getByRole("tab", { name: "By workload" }).press("x");
  await expect(box).not.toBeChecked();
  await box.focus();
  await page.keyboard.press("x");
  await expect(box).toBeChecked();
});

test("workloads are filtered by the address", async ({ page, open }) => {
  const operator = await open({}, "/workloads?namespace=payments");
  const payments = operator.sums.workloads.filter(({ workload }) => workload.namespace === "payments");
  await expect(page.getByText(`${payments.length} workloads`)).toBeVisible();
  await page.keyboard.press("/");
  await page.keyboard.type("ledger");
  await expect(page).toHaveURL(/q=ledger&namespace=payments/);
  await page.getByRole("searchbox").fill("no such workload");
  await expect(page.getByText("No workload matches")).toBeVisible();
  await page.getByRole("button", { name: "Clear filters" }).last().click();
  await expect(page.getByText("90 workloads")).toBeVisible();
  await page.getByRole("button", { name: "Workload", exact: true }).click();
  await expect(page).toHaveURL(/sort=name/);
});

test("workloads are grouped by base image, and one leads to the workloads on it", async ({ page, open }) => {
  const operator = await open({}, "/workloads");
  await page.getByRole("tab", { name: "By base image" }).click();
  await expect(page).toHaveURL(/group=bases/);
  const row = page.getByRole("row").filter({ hasText: "debian" }).first();
  const chain = operator.images.find(({ base, distro }) => base && distro === "debian 12")?.base?.chainId;
  const on = new Set(
    operator.images.filter(({ base }) => base?.chainId === chain).map(({ imageId }) => imageId),
  );
  const workloads = operator.sums.workloads.filter(({ images }) =>
    images.some(({ imageId }) => on.has(imageId)),
  ).length;
  expect(workloads).toBeGreaterThan(1);
  expect(workloads).toBeLessThan(90);
  await row.getByRole("link", { name: `${workloads} workloads` }).click();
  await expect(page).toHaveURL(/\/workloads\?base=sha256/);
  await expect(page.getByText(`${workloads} workloads`)).toBeVisible();
  await page.getByRole("button", { name: "Show workloads on all base images" }).click();
  await expect(page.getByText("90 workloads")).toBeVisible();
  await page.getByRole("tab", { name: "By base image" }).click();
  await page.getByLabel("Namespace").fill("nowhere");
  await expect(page.getByText("No base image matches")).toBeVisible();
  await page.setViewportSize({ width: 360, height: 800 });
  await page.getByRole("button", { name: "Clear filters" }).first().click();
  await expect(page.getByRole("link", { name: /\d+ workloads?/ }).first()).toBeVisible();
  await expectFits(page);
});

test("tells who has an old log4j-core", async ({ page, open }) => {
  const operator = await open({}, "/packages");
  await expect(page.getByText("180 packages")).toBeVisible();
  await page.getByLabel("Version").fill("<2.17");
  await expect(page.getByText(/enter the full name/)).toBeVisible();
  await page.keyboard.press("Escape");
  await page.getByRole("searchbox").fill("log4j-core");
  await page.getByLabel("Version").fill("<2.17");
  await expect(page).toHaveURL(/q=log4j-core&version=%3C2.17/);
  await expect(page.getByText("1 package", { exact: true })).toBeVisible();
  await expect(page.getByRole("row").nth(1)).toContainText("2.14.1");
  await page.getByRole("button", { name: "Details of log4j-core 2.14.1" }).click();
  const row = operator.sums.packages.find(({ package: pkg }) => pkg.version === "2.14.1");
  await expect(page.getByRole("heading", { name: `Images (${row?.images ?? 0})` })).toBeVisible();
  await page.keyboard.press("Escape");
  await page.getByLabel("Version").fill(">=99");
  await expect(page.getByText("No package matches")).toBeVisible();
});

test("says what is missing, and what failed", async ({ page, open }) => {
  for (const [path, empty, found] of [
    ["workloads", "No workloads yet", "90 workloads"],
    ["packages", "No packages yet", "180 packages"],
  ] as const) {
    await open({ images: 0 }, `/${path}`);
    await expect(page.getByText(empty)).toBeVisible();
    let broken = true;
    await open({ fail: (url) => (broken && url === `/api/v1/${path}` ? 400 : undefined) }, `/${path}`);
    await tryAgain(page, "connection refused", () => (broken = false));
    await expect(page.getByText(found)).toBeVisible();
  }
});

test("hostile text does nothing", async ({ page, open }) => {
  for (const path of ["/workloads", "/packages", "/coverage"]) {
    await open({ hostile: true }, path);
    await page
      .getByRole("button", { name: /^Details of/ })
      .first()
      .click();
    await expect(page.getByRole("button", { expanded: true })).toBeVisible();
    expect(await page.evaluate(() => "__xss" in window)).toBe(false);
    expect(await page.locator("a[href^='javascript' i], main img, main iframe").count()).toBe(0);
  }
});
