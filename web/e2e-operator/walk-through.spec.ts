import { expect, test, type Page } from "@playwright/test";
import { tabTo } from "../e2e/keyboard.ts";
import type { Finding, FindingPage, ImagePage } from "../src/gen/model/index.ts";
import { setup } from "./setup.ts";

const { url, token, fill, team, image: updated } = setup;

async function get<Answer>(page: Page, path: string): Promise<Answer> {
  const response = await page.request.get(`${url}/api/v1/${path}`);
  expect(response.status(), path).toBe(200);
  return (await response.json()) as Answer;
}

const findingsOf = async (page: Page, imageId: string) =>
  (await get<FindingPage>(page, `images/${encodeURIComponent(imageId)}/findings?pageSize=1000`)).items;

/** The update that removes most risk from images of an owner, from all their findings. */
async function bestUpdate(page: Page, owner: string) {
  const images = await get<ImagePage>(
    page,
    `images?pageSize=1000&${new URLSearchParams({ owner }).toString()}`,
  );
  const updates = new Map<string, { imageId: string; findings: Finding[] }>();
  for (const { imageId } of images.items) {
    for (const finding of await findingsOf(page, imageId)) {
      if (finding.fix.state !== "fixed") continue;
      const key = `${imageId} ${finding.package.id}`;
      const before = updates.get(key)?.findings ?? [];
      updates.set(key, { imageId, findings: [...before, finding] });
    }
  }
  const riskOf = (findings: Finding[]) =>
    findings.reduce((sum, { vulnerability }) => sum + vulnerability.risk, 0);
  const [best] = [...updates.values()]
    .map((update) => ({ ...update, risk: riskOf(update.findings) }))
    .sort((a, b) => b.risk - a.risk);
  if (!best?.findings[0]) throw new Error(`nothing can be updated for ${owner}`);
  return { ...best, pkg: best.findings[0].package };
}

test("from an empty cluster to what a team does first, and what that opens, by keyboard alone", async ({
  page,
}) => {
  // The cluster is filled meanwhile.
  test.setTimeout(10 * 60_000);
  await page.goto(url);
  await tabTo(page, page.getByLabel("Token"));
  await page.keyboard.type(token);
  await page.keyboard.press("Enter");
  await expect(page.getByText("No images yet")).toBeVisible();
  await expect(page.getByText("Online")).toBeVisible();
  const answer = await page.request.post(fill, { timeout: 5 * 60_000 });
  expect(answer.status()).toBe(204);
  await expect(page.getByRole("heading", { name: "Coverage" })).toBeVisible();

  await page.keyboard.press("Control+k");
  await expect(page.getByRole("combobox", { name: "Search" })).toBeFocused();
  await page.keyboard.type("fix f");
  await expect(page.getByRole("option", { name: "Fix first" })).toBeVisible();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { level: 1, name: "Fix first" })).toBeVisible();

  const { imageId, findings, risk, pkg } = await bestUpdate(page, team);
  const most = await bestUpdate(page, "Search");
  expect(most.risk).toBeGreaterThan(risk);
  const row = page.getByRole("row").nth(1);
  await expect(row).toContainText(`Update ${most.pkg.name} from ${most.pkg.version} to `);

  await tabTo(page, page.getByRole("textbox", { name: "Owner" }));
  await page.keyboard.type(team);
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(new RegExp(`owner=${team}`));
  // The findings have one fix, and another image has the package in this version.
  const fixed = [...new Set(findings.flatMap(({ fix }) => fix.versions ?? []))];
  expect(fixed).toHaveLength(1);
  await expect(row).toContainText(`Update ${pkg.name} from ${pkg.version} to ${fixed[0] ?? ""}`);
  await expect(row).toContainText(risk.toFixed(1));
  await expect(row.getByRole("link").first()).toHaveAttribute(
    "href",
    new RegExp(encodeURIComponent(imageId)),
  );

  const had = new Set(
    (await findingsOf(page, imageId))
      .filter(({ package: { id } }) => id === pkg.id)
      .map(({ vulnerability }) => vulnerability.id),
  );
  const opened = (await findingsOf(page, updated)).filter(
    ({ package: { name }, vulnerability }) => name === pkg.name && !had.has(vulnerability.id),
  );
  const [first] = opened;
  expect(opened).toHaveLength(1);
  if (!first) return;
  expect(first.package.version.replace(/^v/, "")).toBe(fixed[0]?.replace(/^v/, ""));
  await tabTo(page, row.getByRole("button", { name: /^Details of/ }));
  await page.keyboard.press("Enter");
  const changes = page.getByRole("definition");
  await expect(changes.first()).toContainText(new RegExp(`${findings.length} [a-z]+`));
  await expect(changes.nth(1)).toContainText(`1 ${first.vulnerability.severity.toLowerCase()}`);
  const finding = page.getByRole("link", { name: first.vulnerability.id });
  await tabTo(page, finding);
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(new RegExp(`/vulnerabilities/${first.vulnerability.id}$`));
});
