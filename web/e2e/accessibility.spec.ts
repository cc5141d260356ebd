import { detailPath, expect, expectAccessible, test } from "./fixtures.ts";

for (const colorScheme of ["light", "dark"] as const) {
  for (const width of [390, 1440]) {
    test.describe(`${colorScheme}, ${width} px`, () => {
      test.use({
        colorScheme,
        viewport: { width, height: 900 },
        contextOptions: { reducedMotion: "reduce" },
      });

      test("list, with the sample database", async ({ page, open }) => {
        await open({ database: "sample" });
        await expect(page.getByText("120 images")).toBeVisible();
        await expectAccessible(page);
        expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
      });

      test("detail, with an open finding and the dialog", async ({ page, open }) => {
        const operator = await open();
        const image = [...operator.images].sort((a, b) => b.counts.kev - a.counts.kev)[0];
        await page.goto(new URL(detailPath(image?.imageId ?? ""), page.url()).href);
        await page
          .getByRole("button", { name: /^Details of/ })
          .first()
          .click();
        await expectAccessible(page);
        expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
        await page.getByRole("button", { name: "Remove" }).click();
        await expect(page.getByRole("alertdialog")).toBeVisible();
        await expectAccessible(page);
      });

      test("database, with an open change and work under way", async ({ page, open }) => {
        await open(
          {
            database: "sample",
            update: { stale: true, lastError: "connection refused", stage: "download", done: 1, total: 3 },
          },
          "/database",
        );
        await page
          .getByRole("button", { name: /^Details of/ })
          .first()
          .click();
        await expect(page.getByRole("heading", { name: "Workloads" })).toBeVisible();
        await expectAccessible(page);
        expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
        await open({ database: "missing" }, "/database");
        await expect(page.getByText("No vulnerability database yet")).toBeVisible();
        await expectAccessible(page);
        await open({ changes: 0 }, "/database");
        await expect(page.getByText("Nothing changed")).toBeVisible();
        await expectAccessible(page);
      });

      test("vulnerabilities and one of them", async ({ page, open }) => {
        await open({}, "/vulnerabilities");
        await expect(page.getByText("150 vulnerabilities")).toBeVisible();
        await expectAccessible(page);
        for (const time of ["now", "closed", "day"]) {
          await page.goto(new URL(`/vulnerabilities/CVE-2021-44228?time=${time}`, page.url()).href);
          await expect(page.getByText(/finding.* in .* image/)).toBeVisible();
          await page.locator("details").last().locator("summary").click();
          await expectAccessible(page);
          expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
        }
      });

      for (const path of ["packages", "workloads", "coverage"]) {
        test(`${path}, with an open row, and without any`, async ({ page, open }) => {
          await open({}, `/${path}`);
          await page
            .getByRole("button", { name: /^Details of/ })
            .first()
            .click();
          await expect(page.getByRole("button", { name: /^Details of/, expanded: true })).toBeVisible();
          await expectAccessible(page);
          expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
          await open({ images: 0 }, `/${path}`);
          await expect(page.getByText(/^No (packages|workloads|containers) yet$/)).toBeVisible();
          await expectAccessible(page);
        });
      }

      test("where an image ran, and the trend as a table", async ({ page, open }) => {
        const operator = await open();
        await page.getByText("As a table").click();
        await expectAccessible(page);
        await page.goto(
          new URL(`${detailPath(operator.images[0]?.imageId ?? "")}?tab=presences`, page.url()).href,
        );
        await expect(page.getByText("6 times")).toBeVisible();
        await expectAccessible(page);
        expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
      });

      test("failed, empty, error and sign-in", async ({ page, open }) => {
        const operator = await open();
        const failed = operator.images.find((image) => image.state === "Failed");
        await page.goto(new URL(detailPath(failed?.imageId ?? ""), page.url()).href);
        await expect(page.getByText("No findings yet")).toBeVisible();
        await expectAccessible(page);
        await open({ images: 0 });
        await expect(page.getByText("No images yet")).toBeVisible();
        await expectAccessible(page);
        await open({ fail: (path) => (path.includes("session") ? undefined : 400) });
        await expect(page.getByRole("alert")).toBeVisible();
        await expectAccessible(page);
        await open({ auth: "kubernetes" });
        await expect(page.getByLabel("Token")).toBeVisible();
        await expectAccessible(page);
      });
    });
  }
}
