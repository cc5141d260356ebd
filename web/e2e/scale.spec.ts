import { expect, test } from "./fixtures.ts";

const rows = "[role=row][aria-rowindex]";

test("10,000 images scroll to the end with few rows in the document", async ({ page, open }) => {
  test.slow();
  await open({ images: 10_000 }, "/images?sort=imageId");
  await expect(page.getByText("10,000 images")).toBeVisible();
  await expect(page.getByRole("table")).toHaveAttribute("aria-rowcount", "10001");
  await expect
    .poll(
      async () => {
        await page.evaluate(() => window.scrollTo(0, document.body.scrollHeight));
        return page.locator(rows).last().getAttribute("aria-rowindex");
      },
      { timeout: 180_000, intervals: [30] },
    )
    .toBe("10001");
  // Scrolling back through all of it, with everything loaded: few rows at every frame, and the first one at the end.
  const most = await page.evaluate(async (selector) => {
    let count = document.querySelectorAll(selector).length;
    const step = document.body.scrollHeight / 120;
    for (let index = 0; index < 120; index++) {
      window.scrollBy(0, -step);
      await new Promise(requestAnimationFrame);
      count = Math.max(count, document.querySelectorAll(selector).length);
    }
    return count;
  }, rows);
  expect(most).toBeLessThan(70);
  await page.evaluate(() => window.scrollTo(0, 0));
  await expect(page.locator(rows).nth(1)).toHaveAttribute("aria-rowindex", "2");
});

test("10,000 changes scroll to the end with few rows in the document", async ({ page, open }) => {
  test.slow();
  await open({ changes: 10_000 }, "/database");
  await expect(page.getByText("10,000 changes")).toBeVisible();
  await expect(page.getByRole("table", { name: "Changes" })).toHaveAttribute("aria-rowcount", "10001");
  await expect
    .poll(
      async () => {
        await page.evaluate(() => window.scrollTo(0, document.body.scrollHeight));
        return page.locator(rows).last().getAttribute("aria-rowindex");
      },
      { timeout: 180_000, intervals: [30] },
    )
    .toBe("10001");
  expect(await page.locator(rows).count()).toBeLessThan(70);
});

for (const [path, sums, label] of [
  ["vulnerabilities", { vulnerabilities: 10_000 }, "10,000 vulnerabilities"],
  ["packages", { packages: 10_000 }, "10,000 packages"],
  ["workloads", { workloads: 10_000 }, "10,000 workloads"],
  ["coverage", { containers: 10_000 }, "10,000 rows"],
] as const) {
  test(`${label} scroll to the end with few rows in the document`, async ({ page, open }) => {
    test.slow();
    await open({ sums }, `/${path}`);
    await expect(page.getByText(label)).toBeVisible();
    await expect
      .poll(
        async () => {
          await page.evaluate(() => window.scrollTo(0, document.body.scrollHeight));
          return page.locator(rows).last().getAttribute("aria-rowindex");
        },
        { timeout: 180_000, intervals: [30] },
      )
      .toBe("10001");
    expect(await page.locator(rows).count()).toBeLessThan(70);
  });
}
