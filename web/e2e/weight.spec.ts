import { gzipSync } from "node:zlib";
import type { Response } from "@playwright/test";
import { expect, test } from "./fixtures.ts";

/** The most that the first page may need, in bytes with gzip; the font, which texts do not wait for, is not counted. */
const most = 200_000;

test.use({ ownPage: true });

test("the first page needs at most 200 kB", async ({ page, open }) => {
  const files = new Map<string, Promise<number>>();
  const weigh = (response: Response) => {
    const type = response.request().resourceType();
    if (["document", "script", "stylesheet"].includes(type))
      files.set(
        response.url(),
        response.body().then((body) => gzipSync(body).length),
      );
  };
  page.on("response", weigh);
  await open({}, "/");
  await expect(page.getByRole("heading", { name: "Coverage" })).toBeVisible();
  await page.waitForLoadState("networkidle");
  page.off("response", weigh); // What comes now is not needed, and cannot be read after the test.
  const sizes = await Promise.all(files.values());
  expect(sizes.length).toBeGreaterThan(5);
  expect(sizes.reduce((sum, bytes) => sum + bytes)).toBeLessThan(most);
});
