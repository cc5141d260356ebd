import { expect, test } from "./fixtures.ts";
import { setup } from "./setup.ts";

/** What test/uiscale compares the pages with. */
const rows = 10_000;
const columns = 6;

test("Plain table, for comparison", async ({ page, measured }) => {
  const cells = (row: number) =>
    Array.from({ length: columns }, (_, column) => `<i>${row} in column ${column}</i>`).join("");
  const body = Array.from({ length: rows }, (_, row) => `<div>${cells(row + 1)}</div>`).join("");
  const style = `div { display: grid; grid-template-columns: repeat(${columns}, 1fr); height: 48px;
    contain: strict; content-visibility: auto }`;
  const url = `${setup.url}/plain`;
  await page.route(url, (route) =>
    route.fulfill({
      contentType: "text/html",
      body: `<!doctype html><style>${style}</style>${body}`,
    }),
  );
  await page.goto(url);
  await page.bringToFront();
  await measured.scrollBy(200);
  await expect.poll(() => page.evaluate(() => window.scrollY)).toBeGreaterThan(100_000);
  const row = Math.floor((await page.evaluate(() => window.scrollY + 300)) / 48);
  await expect(page.getByText(`${row} in column 0`, { exact: true })).toBeInViewport();
});
