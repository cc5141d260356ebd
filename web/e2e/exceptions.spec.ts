import type { Page } from "@playwright/test";
import type { RolloutOperator } from "../mock/operator.ts";
import { detailPath, expect, expectFits, test } from "./fixtures.ts";

const worst = ({ images }: RolloutOperator) =>
  [...images].sort((a, b) => b.counts.kev - a.counts.kev)[0]?.imageId ?? "";

test("lists suppressed vulnerabilities on request, and leads to why", async ({ page, open }) => {
  await open({}, "/vulnerabilities");
  await page.getByRole("button", { name: "Show suppressed" }).click();
  await expect(page).toHaveURL(/vulnerabilities\?suppressed=true$/);
  await page.getByRole("link", { name: /^CVE-/ }).first().click();
  await expect(page).toHaveURL(/vulnerabilities\/CVE-[\d-]+\?suppressed=true$/);
  await expect(page.getByRole("button", { name: "Show suppressed" })).toHaveAttribute("aria-pressed", "true");
});

test("shows suppressed findings on request, and why", async ({ page, open }) => {
  await open({}, (operator) => detailPath(worst(operator)));
  await expect(page.getByRole("button", { name: /^Details of/ }).first()).toBeVisible();
  await page.getByRole("searchbox", { name: "Search findings" }).fill("CVE-2020-900");
  await expect(page.getByText("No finding matches")).toBeVisible();
  await page.getByRole("button", { name: "Show suppressed" }).click();
  await expect(page).toHaveURL(/suppressed=true/);
  await expect(page.getByText("2 findings", { exact: true })).toBeVisible();
  await expect(page.getByTitle("Suppressed: Not affected")).toHaveCount(2);
  await page.getByRole("button", { name: /^Details of CVE-2020-9000/ }).click();
  await expect(page.getByRole("heading", { name: "Suppressed" })).toBeVisible();
  await expect(page.getByText("Vulnerable code not in execute path")).toBeVisible();
  await expect(page.getByText(/The parser is not reachable/)).toBeVisible();
  await expect(page.getByText(/ClusterVulnerabilityException parser-not-reachable/)).toBeVisible();
  await expect(page.getByText(/does not suppress the finding/)).toBeVisible();
  await expectFits(page);
  await page.setViewportSize({ width: 390, height: 844 });
  await expectFits(page);
  await page.reload();
  await expect(page.getByText("2 findings", { exact: true })).toBeVisible();
});

test("shows what an exception suppresses of a vulnerability", async ({ page, open }) => {
  await open({}, "/vulnerabilities/CVE-2021-44228");
  await page.getByRole("button", { name: "Show suppressed" }).click();
  await expect(page).toHaveURL(/suppressed=true/);
  await page.getByRole("button", { name: "Suppressed: Not affected" }).click();
  await expect(page.getByRole("dialog")).toContainText("parser-not-reachable");
  await expectFits(page);
  await page.keyboard.press("Escape");
  await page.getByRole("tab", { name: "Closed" }).click();
  await expect(page.getByRole("button", { name: "Show suppressed" })).toBeHidden();
});

const decide = (page: Page) => page.getByRole("dialog", { name: /^Decide about/ });

test("decides about a finding, and the list follows", async ({ page, open }) => {
  const operator = await open({}, (operator) => detailPath(worst(operator)));
  await expect.poll(() => operator.dialled.some((url) => url.includes("decision.expired"))).toBe(true);
  const first = page.getByRole("button", { name: /^Details of CVE/ }).first();
  const [, id = ""] = /^Details of (\S+)/.exec((await first.getAttribute("aria-label")) ?? "") ?? [];
  await first.click();
  await page.getByRole("button", { name: "Decide", exact: true }).click();
  const dialog = decide(page);
  await expect(dialog.getByText("12 findings will no longer count, in 3 images.")).toBeVisible();
  await expect(
    dialog.getByText("2 more findings match and are suppressed by other exceptions."),
  ).toBeVisible();
  await expect(dialog.getByText("3 workloads in 2 namespaces run them.")).toBeVisible();
  await expectFits(page);
  await dialog.getByRole("button", { name: "Save" }).click();
  await expect(dialog.getByText("State why the risk is accepted.")).toBeVisible();
  await dialog.getByRole("textbox", { name: "Comment" }).fill("Not reachable.");
  await dialog.getByRole("combobox", { name: /^Ends/ }).click();
  await page.getByRole("option", { name: "In 30 days" }).click();
  await dialog.getByRole("combobox", { name: /^Matches/ }).click();
  await page.getByRole("option", { name: "This vulnerability in all packages" }).click();
  await expect.poll(() => operator.exceptions.previews.at(-1)?.spec.match.packages).toBeUndefined();
  await dialog.getByRole("button", { name: "Save" }).click();
  await expect(page.getByText("Exception saved")).toBeVisible();
  await expect(dialog).toBeHidden();
  await expect(page.getByRole("link", { name: id, exact: true })).toHaveCount(0);
  const [saved] = [...operator.exceptions.items.values()];
  expect(saved?.spec).toMatchObject({
    match: { vulnerabilities: [id] },
    status: "AcceptedRisk",
    comment: "Not reachable.",
  });
});

test("keeps what was entered when the window gets another width", async ({ page, open }) => {
  await open({}, (operator) => detailPath(worst(operator)));
  await page
    .getByRole("button", { name: /^Details of CVE/ })
    .first()
    .click();
  await page.getByRole("button", { name: "Decide", exact: true }).click();
  const comment = decide(page).getByRole("textbox", { name: "Comment" });
  await comment.fill("Accepted until the next release.");
  for (const width of [1000, 390, 1280]) {
    await page.setViewportSize({ width, height: 844 });
    // The list has been drawn for this width.
    await expect(page.locator('[role="table"]')).toHaveCount(width < 1024 ? 0 : 1);
    await expect(comment).toHaveValue("Accepted until the next release.");
  }
  await decide(page).getByRole("button", { name: "Save" }).click();
  await expect(page.getByText("Exception saved")).toBeVisible();
});

test("decides for the workloads of one namespace", async ({ page, open }) => {
  const operator = await open({}, "/vulnerabilities/CVE-2021-44228");
  await page.getByRole("button", { name: "Decide", exact: true }).click();
  const dialog = decide(page);
  await dialog.getByRole("combobox", { name: /^Applies in/ }).click();
  await page.getByRole("option", { name: "One namespace" }).click();
  await expectFits(page);
  await page.setViewportSize({ width: 390, height: 844 });
  await expectFits(page);
  await dialog.getByRole("textbox", { name: "Comment" }).fill("Not reachable.");
  await dialog.getByRole("button", { name: "Save" }).click();
  await expect(dialog.getByText("Name a namespace.")).toBeVisible();
  await dialog.getByLabel("Namespace", { exact: true }).fill("shop-1");
  await expect(dialog.getByText("3 workloads in 1 namespace run them.")).toBeVisible();
  await dialog.getByRole("textbox", { name: "Labels of workloads" }).fill("app web");
  await expect(dialog.getByText(/Write labels as kubectl takes them/)).toBeVisible();
  await dialog.getByRole("textbox", { name: "Labels of workloads" }).fill("app=web");
  await expect
    .poll(() => operator.exceptions.previews.at(-1))
    .toMatchObject({
      kind: "VulnerabilityException",
      namespace: "shop-1",
      spec: { match: { workloadSelector: { matchLabels: { app: "web" } } } },
    });
  await dialog.getByText("Manifest", { exact: true }).click();
  await expect(dialog.getByLabel("Manifest of the exception")).toContainText("kind: VulnerabilityException");
  await dialog.getByRole("button", { name: "Save" }).click();
  await expect(dialog).toBeHidden();
  expect(operator.exceptions.items.get("shop-1/cve-2021-44228")?.spec.match.workloadSelector).toEqual({
    matchLabels: { app: "web" },
  });
});

test("decides for the namespaces with labels", async ({ page, open }) => {
  const operator = await open({}, "/vulnerabilities/CVE-2021-44228");
  await page.getByRole("button", { name: "Decide", exact: true }).click();
  const dialog = decide(page);
  await dialog.getByRole("combobox", { name: /^Applies in/ }).click();
  await page.getByRole("option", { name: "Namespaces with labels" }).click();
  await dialog.getByRole("textbox", { name: "Labels of namespaces" }).fill("team in (a,b)");
  await dialog.getByRole("textbox", { name: "Comment" }).fill("Not reachable.");
  await expectFits(page);
  await dialog.getByRole("button", { name: "Save" }).click();
  await expect(dialog).toBeHidden();
  expect(operator.exceptions.items.get("cve-2021-44228")?.spec.match.namespaceSelector).toEqual({
    matchExpressions: [{ key: "team", operator: "In", values: ["a", "b"] }],
  });
});

test("decides about several findings at once", async ({ page, open }) => {
  const operator = await open({}, (operator) => detailPath(worst(operator)));
  const boxes = page.getByRole("checkbox", { name: /^Select CVE/ });
  await boxes.nth(0).check();
  await boxes.nth(1).check();
  const bar = page.getByRole("region", { name: "Selected findings" });
  await expect(bar.getByText("2 findings selected")).toBeVisible();
  await expectFits(page);
  await bar.getByRole("button", { name: "Decide about these" }).click();
  await expect(decide(page)).toHaveAccessibleName("Decide about 2 findings");
  await expect(decide(page).getByText(/will no longer count/)).toBeVisible();
  await decide(page).getByRole("textbox", { name: "Comment" }).fill("Accepted until the next release.");
  await decide(page).getByRole("button", { name: "Save" }).click();
  await expect(bar).toBeHidden();
  const [saved] = [...operator.exceptions.items.values()];
  expect(saved?.spec.match.vulnerabilities?.length).toBeGreaterThan(0);
  await page.setViewportSize({ width: 390, height: 844 });
  await boxes.nth(0).check();
  await expect(bar).toBeVisible();
  await expectFits(page);
  await page.getByRole("button", { name: "Clear selection" }).click();
  await expect(bar).toBeHidden();
});

test("decides with the keyboard alone", async ({ page, open }) => {
  await open({}, "/vulnerabilities/CVE-2021-44228");
  await page.getByRole("button", { name: "Decide", exact: true }).focus();
  await page.keyboard.press("Enter");
  const dialog = decide(page);
  // The dialog takes the focus after it is drawn, and so do its lists.
  await expect(dialog.locator(":focus")).toHaveCount(1);
  await dialog.getByRole("combobox", { name: /^Status/ }).focus();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("option", { selected: true })).toBeFocused();
  await page.keyboard.press("ArrowUp");
  await expect(page.getByRole("option", { name: "False positive" })).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(dialog.getByRole("combobox", { name: "Status: False positive" })).toBeVisible();
  await page.keyboard.press("Escape");
  await expect(dialog).toBeHidden();
  await expect(page.getByRole("button", { name: "Decide", exact: true })).toBeFocused();
});

for (const [noSaving, message] of [
  ["Disabled", "chart value api.writeExceptions"],
  ["NotPermitted", "you need the permission to create"],
] as const)
  test(`offers the manifest to who cannot save: ${noSaving}`, async ({ page, open }) => {
    await open({ noSaving }, "/vulnerabilities/CVE-2021-44228");
    await page.getByRole("button", { name: "Decide", exact: true }).click();
    const dialog = decide(page);
    await expect(dialog.getByText(message)).toBeVisible();
    await expect(dialog.getByRole("button", { name: "Save" })).toBeHidden();
    const manifest = dialog.getByLabel("Manifest of the exception");
    await expect(manifest).toContainText("kind: ClusterVulnerabilityException");
    await expect(manifest).toContainText('- "CVE-2021-44228"');
    await expectFits(page);
    await page.setViewportSize({ width: 390, height: 844 });
    await expectFits(page);
  });

test("says why a preview or a decision fails", async ({ page, open }) => {
  const answers = { preview: false };
  const operator = await open(
    { fail: (path) => (path.endsWith("/preview") && !answers.preview ? 503 : undefined) },
    "/vulnerabilities/CVE-2021-44228",
  );
  await page.getByRole("button", { name: "Decide", exact: true }).click();
  await expect(decide(page).getByText(/Could not compute the preview/)).toBeVisible();
  answers.preview = true;
  await decide(page).getByRole("button", { name: "Dry run" }).click();
  await expect(decide(page).getByText(/They continue to count/)).toBeVisible();
  operator.exceptions.add("cve-2021-44228", { match: { vulnerabilities: ["CVE-1-1"] }, status: "Fixed" });
  await decide(page).getByRole("textbox", { name: "Comment" }).fill("why");
  await decide(page).getByRole("button", { name: "Save" }).click();
  await expect(decide(page).getByText(/exists already; choose another name/)).toBeVisible();
  await expectFits(page);
});

test("a new exception takes its findings from the lists", async ({ page, open }) => {
  const operator = await open({}, (operator) => detailPath(worst(operator)));
  await expect.poll(() => operator.dialled.some((url) => url.includes("decision.expired"))).toBe(true);
  const first = page.getByRole("button", { name: /^Details of/ }).first();
  const [, id = ""] = /^Details of (\S+)/.exec((await first.getAttribute("aria-label")) ?? "") ?? [];
  expect(id).not.toBe("");
  await expect(page.getByRole("link", { name: id, exact: true }).first()).toBeVisible();
  operator.suppressed.add(id);
  operator.event("decision.changed");
  await expect(page.getByRole("link", { name: id, exact: true })).toHaveCount(0);
});
