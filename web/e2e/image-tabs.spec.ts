import type { Finding, FindingPage } from "../src/gen/model/index.ts";
import type { MockOperator } from "../mock/server.ts";
import { detailPath, expect, expectFits, test, tryAgain } from "./fixtures.ts";

const layered = ({ images }: MockOperator) =>
  [...images]
    .filter((image) => image.source === "Registry" && image.base && image.counts.kev > 0)
    .sort((a, b) => b.counts.critical - a.counts.critical)[0];

const tabPath = (operator: MockOperator, tab: string) =>
  `${detailPath(layered(operator)?.imageId ?? "")}?tab=${tab}`;

for (const width of [360, 1440]) {
  test(`the history of findings has what was opened and closed, ${width} px`, async ({ page, open }) => {
    await page.setViewportSize({ width, height: 900 });
    const operator = await open({}, (operator) => detailPath(layered(operator)?.imageId ?? ""));
    await page.getByRole("tab", { name: "Finding history" }).click();
    await expect(page).toHaveURL(/tab=history/);
    const section = page.getByRole("region", { name: "Finding history" });
    await expect(section.getByText(/^\d+ findings$/)).toBeVisible();
    // What was closed is older than what is listed first.
    const closed = await page.evaluate(
      async (path) => {
        const answer = await fetch(path);
        return (await answer.json()) as FindingPage;
      },
      `/api/v1/images/${encodeURIComponent(layered(operator)?.imageId ?? "")}/findings?closed=true`,
    );
    const [{ vulnerability, package: pkg }] = closed.items as [Finding];
    await page.getByLabel("Search the history").fill(vulnerability.id);
    await expect(page).toHaveURL(/q=CVE/);
    const row = (width === 360 ? section.locator("[data-index]") : section.getByRole("row")).filter({
      hasText: `${pkg.name} ${pkg.version}`,
    });
    await expect(row.getByText("Closed", { exact: true }).first()).toBeVisible();
    await expectFits(page);
    await page.getByLabel("Search the history").fill("nothing at all");
    await expect(page.getByText("No finding matches")).toBeVisible();
    await page.getByRole("button", { name: "Clear filters" }).first().click();
    await section.getByRole("link").first().click();
    await expect(page).toHaveURL(/\/vulnerabilities\//);
  });

  test(`layers have their sizes and lead to their packages, ${width} px`, async ({ page, open }) => {
    await page.setViewportSize({ width, height: 900 });
    const operator = await open({}, (operator) => detailPath(layered(operator)?.imageId ?? ""));
    const base = layered(operator)?.base?.layers ?? 0;
    await page.getByRole("tab", { name: "Layers" }).click();
    const section = page.getByRole("region", { name: "Layers" });
    await expect(section.getByText(`${base + 4} layers`)).toBeVisible();
    await expect(section.getByText(`Layer ${base}`, { exact: true })).toBeVisible();
    await expectFits(page);
    await section
      .getByRole("link", { name: /packages?$/ })
      .first()
      .click();
    await expect(page.getByRole("tab", { name: "Packages", selected: true })).toBeVisible();
    await expect(page).toHaveURL(/layer=\d/);
  });

  test(`the SBOM is shown as text, ${width} px`, async ({ page, open }) => {
    await page.setViewportSize({ width, height: 900 });
    const operator = await open({}, (operator) => tabPath(operator, "sbom"));
    const text = page.getByRole("region", { name: "SBOM, text" });
    await expect(text).toContainText('"artifacts": [');
    await expectFits(page);
    const started = page.waitForEvent("download");
    await page.getByRole("button", { name: "Download all" }).click();
    expect((await started).suggestedFilename()).toMatch(/\.syft\.json$/);
    operator.options.fail = (path) => (path.endsWith("/sbom") ? 400 : undefined);
    await page.reload();
    await tryAgain(page, "connection refused", () => (operator.options.fail = undefined));
    await expect(text).toContainText('"artifacts": [');
  });
}

test("an image that was never cataloged has no SBOM and no layers", async ({ page, open }) => {
  const pending = ({ images }: MockOperator) =>
    images.find(({ state, catalogedAt }) => state === "Pending" && catalogedAt === undefined);
  const operator = await open({}, (operator) => `${detailPath(pending(operator)?.imageId ?? "")}?tab=sbom`);
  await expect(page.getByText("The image has not been cataloged yet.")).toBeVisible();
  expect(operator.requests.filter((request) => request.endsWith("/sbom"))).toEqual([]);
  await page.getByRole("tab", { name: "Layers" }).click();
  await expect(page.getByText("No layers are known")).toBeVisible();
});
