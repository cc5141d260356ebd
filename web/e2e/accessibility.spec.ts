import type { Page } from "@playwright/test";
import { users } from "../mock/users.ts";
import { detailPath, expect, expectFits, signIn, test, type Open } from "./fixtures.ts";

/** Opens the list of images as a user who signed in with the provider. */
async function openAs(page: Page, open: Open, user: string) {
  await open({ auth: "kubernetes", provider: "available", anonymous: users[2] }, "/sign-in");
  await signIn(page, user);
}

// The pictures of screenshots.spec.ts have widths in between.
for (const width of [360, 2560]) {
  test.describe(`${width} px, light and dark`, () => {
    test.use({ viewport: { width, height: 900 } });

    test("list, with the sample database", async ({ page, open }) => {
      await open({ database: "sample" });
      await expect(page.getByText("120 images")).toBeVisible();
      await expectFits(page);
      await page
        .getByRole("button", { name: /^Remove the scan result of/ })
        .first()
        .click();
      await expect(page.getByRole("alertdialog")).toBeVisible();
      await expectFits(page);
    });

    test("detail, with an open finding and the dialog", async ({ page, open }) => {
      await open({}, ({ images }) => {
        const image = [...images].sort((a, b) => b.counts.kev - a.counts.kev)[0];
        return detailPath(image?.imageId ?? "");
      });
      await page
        .getByRole("button", { name: /^Details of/ })
        .first()
        .click();
      await expectFits(page);
      await page.getByRole("button", { name: "Remove" }).click();
      await expect(page.getByRole("alertdialog")).toBeVisible();
      await expectFits(page);
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
      // A row that is scrolled halfway under the header is no target that is too small.
      await page.getByRole("heading", { name: "Builds" }).scrollIntoViewIfNeeded();
      await expectFits(page);
      await open({ database: "missing" }, "/database");
      await expect(page.getByText("No vulnerability database yet")).toBeVisible();
      await expectFits(page);
      await open({ changes: 0 }, "/database");
      await expect(page.getByText("No changes")).toBeVisible();
      await expectFits(page);
    });

    test("vulnerabilities and one of them", async ({ page, open }) => {
      await open({}, "/vulnerabilities");
      await expect(page.getByText("150 vulnerabilities")).toBeVisible();
      await expectFits(page);
      for (const time of ["now", "closed", "day"]) {
        await page.goto(new URL(`/vulnerabilities/CVE-2021-44228?time=${time}`, page.url()).href);
        await expect(page.getByText(/finding.* in .* image/)).toBeVisible();
        await page.locator("details").last().locator("summary").click();
        await expectFits(page);
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
        await expectFits(page);
        await open({ images: 0 }, `/${path}`);
        await expect(page.getByText(/^No (packages|workloads|containers) yet$/)).toBeVisible();
        await expectFits(page);
      });
    }

    for (const list of ["images", "vulnerabilities", "workloads"]) {
      test(`${list} by namespace, with an open row`, async ({ page, open }) => {
        await open({ sums: { owners: true } }, `/${list}?group=namespaces`);
        await page
          .getByRole("button", { name: /^First rows of/ })
          .first()
          .click();
        await expect(page.getByRole("link", { name: /^List all/ })).toBeVisible();
        await expectFits(page);
      });
    }

    for (const path of ["/images?group=bases", "/workloads?group=bases", "/workloads?group=owners"]) {
      test(path, async ({ page, open }) => {
        await open({ sums: { owners: true } }, path);
        await expect(page.getByText(/^\d+ (base images|rows)/).first()).toBeVisible();
        await expectFits(page);
      });
    }

    test("the overview, with data and without", async ({ page, open }) => {
      await open({}, "/");
      await expect(page.getByRole("heading", { name: "Fix first" })).toBeVisible();
      await expectFits(page);
      await open({ images: 0 }, "/");
      await expect(page.getByText("No images yet")).toBeVisible();
      await expectFits(page);
      await open({ fail: (path) => (path.includes("session") ? undefined : 400) }, "/");
      await expect(page.getByRole("alert").first()).toBeVisible();
      await expectFits(page);
    });

    test("where an image ran, and the trend table", async ({ page, open }) => {
      const operator = await open({}, "/");
      await page.getByText("View as table").click();
      await expectFits(page);
      await page.goto(
        new URL(`${detailPath(operator.images[0]?.imageId ?? "")}?tab=presences`, page.url()).href,
      );
      await expect(page.getByText("6 periods")).toBeVisible();
      await expectFits(page);
    });

    test("failed, empty, error and sign-in", async ({ page, open }) => {
      await open({}, ({ images }) =>
        detailPath(images.find(({ state }) => state === "Failed")?.imageId ?? ""),
      );
      await expect(page.getByText("No findings yet")).toBeVisible();
      await expectFits(page);
      await open({ images: 0 });
      await expect(page.getByText("No images yet")).toBeVisible();
      await expectFits(page);
      await open({ fail: (path) => (path.includes("session") ? undefined : 400) });
      await expect(page.getByRole("alert")).toBeVisible();
      await expectFits(page);
      await open({ auth: "kubernetes" });
      await expect(page.getByLabel("Token")).toBeVisible();
      await expectFits(page);
    });

    // A test per page: all of them in one would take too long on a busy machine.
    test("search, with and without results", async ({ page, open }) => {
      await open();
      await expect(page.getByText("120 images")).toBeVisible();
      await page.keyboard.press("Control+k");
      await page.getByRole("combobox", { name: "Search" }).fill("open");
      await expect(page.getByRole("option", { name: /^openssl/ }).first()).toBeVisible();
      await expectFits(page);
      await page.getByRole("combobox", { name: "Search" }).fill("nothing is named so");
      await expect(page.getByText("Nothing that you may see contains")).toBeVisible();
      await expectFits(page);
    });

    test("account", async ({ page, open }) => {
      await openAs(page, open, "alice@example.com");
      await page.getByRole("button", { name: "Account: Alice Example" }).click();
      await expect(page.getByRole("dialog", { name: "Alice Example" })).toBeVisible();
      await expectFits(page);
    });

    test("after signing out", async ({ page, open }) => {
      await openAs(page, open, "alice@example.com");
      await page.getByRole("button", { name: "Account: Alice Example" }).click();
      await page.getByRole("button", { name: "Sign out", exact: true }).click();
      await expect(page.getByText("There is no access without signing in")).toBeVisible();
      await expectFits(page);
      await page.getByRole("main").getByRole("link", { name: "Sign in" }).click();
      await expect(page.getByRole("link", { name: "Sign in with Example ID" })).toBeVisible();
    });

    test("few namespaces", async ({ page, open }) => {
      await openAs(page, open, "bob@example.com");
      await page.getByText("Show the command for administrators").click();
      await expectFits(page);
    });

    test("no access", async ({ page, open }) => {
      await openAs(page, open, "carol@example.com");
      await expect(page.getByText("You have no access to results")).toBeVisible();
      await expectFits(page);
    });
  });
}
