import { test } from "./fixtures.ts";
import { setup } from "./setup.ts";

/** What test/uiscale compares the pages with. */
const rows = 10_000;
const columns = 6;

test("Plain table, for comparison", async ({ page, measured }) => {
  const cells = (row: number) =>
    Array.from({ length: columns }, (_, column) => `<td>${row} in column ${column}</td>`).join("");
  const body = Array.from({ length: rows }, (_, row) => `<tr>${cells(row)}</tr>`).join("");
  const style = "table { width: 100% } tr { height: 48px; contain: strict; content-visibility: auto }";
  const url = `${setup.url}/plain`;
  await page.route(url, (route) =>
    route.fulfill({
      contentType: "text/html",
      body: `<!doctype html><style>${style}</style><table>${body}</table>`,
    }),
  );
  await page.goto(url);
  await page.bringToFront();
  await measured.scrollBy(200);
});
