import { expect, test } from "./fixtures.ts";

const rows = "[role=row][aria-rowindex]";

// Traces would cost more than what is measured.
test.use({ trace: "off" });

test("10,000 images scroll to the end with few rows in the document", async ({ page, open }) => {
  test.slow();
  await open({ images: 10_000 }, "/?sort=imageId");
  await expect(page.getByText("10,000 images")).toBeVisible();
  await expect(page.getByRole("table")).toHaveAttribute("aria-rowcount", "10001");
  await expect
    .poll(
      async () => {
        await page.evaluate(() => window.scrollTo(0, document.body.scrollHeight));
        return page.locator(rows).last().getAttribute("aria-rowindex");
      },
      { timeout: 90_000, intervals: [30] },
    )
    .toBe("10001");
  expect(await page.locator(rows).count()).toBeLessThan(70);
  // Scrolling back through all of it: the time per frame, with everything loaded.
  const slow = await page.evaluate(async () => {
    const frames: number[] = [];
    let before = performance.now();
    const step = document.body.scrollHeight / 120;
    for (let index = 0; index < 120; index++) {
      window.scrollBy(0, -step);
      await new Promise(requestAnimationFrame);
      const now = performance.now();
      frames.push(now - before);
      before = now;
    }
    return frames.sort((a, b) => a - b)[Math.floor(frames.length / 2)];
  });
  console.log(`median frame while scrolling through 10,000 rows: ${slow?.toFixed(1) ?? "?"} ms`);
  expect(slow).toBeLessThan(100);
});
