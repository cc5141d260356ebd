import { detailPath, expect, expectFits, test } from "./fixtures.ts";

for (const width of [360, 1440]) {
  test.describe(`${width} px, light and dark`, () => {
    test.use({ viewport: { width, height: 900 } });

    test("newer tags of an image, with what they close and open", async ({ page, open }) => {
      await open({}, ({ images }) => {
        const image = images.find(({ state, counts }) => state === "Scanned" && counts.critical > 0);
        return detailPath(image?.imageId ?? "");
      });
      await page.getByRole("tab", { name: "Newer tags" }).click();
      await expect(page).toHaveURL(/tab=newer-tags/);
      const tags = page.getByRole("region", { name: "Newer tags" });
      await expect(tags.getByRole("article")).toHaveCount(2);
      const recommended = tags.getByRole("listitem").filter({ hasText: "Recommended" });
      await expect(recommended).toHaveCount(1);
      await expect(recommended).toContainText("1.27.5-alpine");
      await expect(recommended).toContainText("Same minor version");
      await expect(recommended.getByRole("definition").first()).toContainText(/critical/);
      const other = tags.getByRole("listitem").filter({ hasText: "1.29.3-alpine" });
      await expect(other.getByRole("link", { name: "CVE-2026-0001" })).toBeVisible();
      await expect(
        tags.getByText("It cannot be compared: the registry responded with 403 Forbidden"),
      ).toBeVisible();
      await expect(tags.getByText("The last lookup failed (RegistryRateLimited)")).toBeVisible();
      await expect(
        tags.getByText("Newer tags can be missing: the repository has more than 100000 tags"),
      ).toBeVisible();
      await expectFits(page);
      await other.getByRole("link", { name: "CVE-2026-0001" }).press("Enter");
      await expect(page).toHaveURL(/vulnerabilities\/CVE-2026-0001/);
    });
  });
}

test("says when newer tags are not looked up, and when they cannot be loaded", async ({ page, open }) => {
  let fails = false;
  await open(
    { fail: (path) => (fails && path.endsWith("/newer-tags") ? 400 : undefined) },
    ({ images }) =>
      `${detailPath(images.find(({ state }) => state === "Failed")?.imageId ?? "")}?tab=newer-tags`,
  );
  await expect(page.getByText("Newer tags are not looked up")).toBeVisible();
  await expectFits(page);
  fails = true;
  await page.reload();
  await expect(page.getByRole("alert").filter({ hasText: "Try again" })).toBeVisible();
});

test("the newer tag of an image is beside its fixes", async ({ page, open }) => {
  await open({}, "/fixes");
  await page
    .getByRole("button", { name: /^Details of Update/ })
    .first()
    .click();
  await expect(page.getByText("of the same image is recommended")).toBeVisible();
  await page.getByRole("link", { name: "1.27.5-alpine" }).click();
  await expect(page.getByRole("tab", { name: "Newer tags", selected: true })).toBeVisible();
});
