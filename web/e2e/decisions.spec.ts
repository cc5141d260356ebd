import { expect, expectFits, test } from "./fixtures.ts";

test("lists decisions, what they replaced and what has ended", async ({ page, open }) => {
  await open({ decisions: 24 }, "/decisions");
  await expect(page.getByRole("heading", { name: "Decisions", level: 1 })).toBeVisible();
  await expect(page.getByText("18 decisions", { exact: true })).toBeVisible();
  await expectFits(page);
  await page
    .getByRole("button", { name: "Details of ClusterVulnerabilityException accepted-0", exact: true })
    .click();
  await expect(page.getByRole("heading", { name: "Before" })).toBeVisible();
  await expect(page.getByText("Decided by jane@example.com")).toBeVisible();
  await expect(page.getByText("ClusterVulnerabilityException accepted-0 does not exist")).toBeVisible();
  await expectFits(page);
  await page.keyboard.press("Escape");
  await page.getByRole("combobox", { name: /^State/ }).click();
  await page.getByRole("option", { name: "Ended" }).click();
  await expect(page).toHaveURL(/state=ended/);
  await expect(page.getByText("6 decisions", { exact: true })).toBeVisible();
  await page
    .getByRole("button", { name: /^Details of/ })
    .first()
    .click();
  await expect(page.getByText(/, deleted by jane@example\.com/)).toBeVisible();
  await page.setViewportSize({ width: 390, height: 844 });
  await expectFits(page);
});

test("edits and ends a decision", async ({ page, open }) => {
  const operator = await open({}, "/decisions");
  await expect(page.getByText("No decisions yet")).toBeVisible();
  await expectFits(page);
  operator.exceptions.add("mine", {
    match: { vulnerabilities: ["CVE-2021-44228"] },
    status: "AcceptedRisk",
    comment: "old",
  });
  operator.decided();
  await page.getByRole("button", { name: "Details of ClusterVulnerabilityException mine" }).click();
  await page.getByRole("button", { name: "Edit" }).click();
  const dialog = page.getByRole("dialog", { name: "Edit mine" });
  await expect(dialog.getByText(/will no longer count/)).toBeVisible();
  expect(operator.exceptions.previews.at(-1)?.name).toBe("mine");
  await dialog.getByRole("textbox", { name: "Comment" }).fill("new");
  await dialog.getByRole("button", { name: "Save" }).click();
  await expect(dialog).toBeHidden();
  expect(operator.exceptions.items.get("mine")?.spec.comment).toBe("new");
  await page.getByRole("button", { name: "End now" }).click();
  const confirm = page.getByRole("alertdialog");
  await expectFits(page);
  await confirm.getByRole("button", { name: "Delete the exception" }).click();
  await expect(page.getByText("No decisions yet")).toBeVisible();
  expect(operator.exceptions.items.size).toBe(0);
});

test("saves what the preview shows, and says that it does not apply", async ({ page, open }) => {
  const operator = await open({}, "/decisions");
  operator.exceptions.add("broad", {
    match: { packages: ["pkg:deb/*"] },
    status: "AcceptedRisk",
    comment: "old",
  });
  operator.decided();
  await page.getByRole("button", { name: "Details of ClusterVulnerabilityException broad" }).click();
  await page.getByRole("button", { name: "Edit" }).click();
  const dialog = page.getByRole("dialog", { name: "Edit broad" });
  const save = dialog.getByRole("button", { name: "Save" });
  await expect(dialog.getByText("The exception matches too many findings")).toBeVisible();
  await expect(save).toBeEnabled();
  let release: (() => void) | undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  await page.route("**/api/v1/exceptions/preview", async (route) => {
    await held;
    await route.continue();
  });
  await dialog.getByRole("textbox", { name: "Comment" }).fill("new");
  await expect(save).toBeDisabled();
  release?.();
  await save.click();
  await expect(page.getByText("Exception saved, but it does not apply")).toBeVisible();
  await expect(page.getByText(/^The exception matches too many findings\. /)).toBeVisible();
  await expectFits(page);
  expect(operator.exceptions.items.get("broad")?.spec.comment).toBe("new");
});

test("shows where a decision applies, and edits it there", async ({ page, open }) => {
  const operator = await open({}, "/decisions");
  operator.exceptions.add("mine", {
    match: { vulnerabilities: ["CVE-2021-44228"], namespaceSelector: {} },
    status: "Fixed",
  });
  operator.exceptions.add(
    "mine",
    {
      match: { vulnerabilities: ["CVE-2021-44228"], workloadSelector: { matchLabels: { app: "web" } } },
      status: "AcceptedRisk",
      comment: "why",
    },
    { namespace: "shop" },
  );
  operator.decided();
  await page.getByRole("button", { name: "Details of VulnerabilityException shop/mine" }).click();
  await expect(page.getByText("Applies in the namespace shop only")).toBeVisible();
  await expect(page.getByText("For workloads with the labels app=web")).toBeVisible();
  await expectFits(page);
  await page.getByRole("button", { name: "Edit" }).click();
  const dialog = page.getByRole("dialog", { name: "Edit mine" });
  await expect(dialog.getByLabel("Namespace", { exact: true })).not.toBeEditable();
  await dialog.getByRole("textbox", { name: "Labels of workloads" }).fill("");
  await dialog.getByRole("button", { name: "Save" }).click();
  await expect(dialog).toBeHidden();
  expect(operator.exceptions.items.get("shop/mine")?.spec.match).not.toHaveProperty("workloadSelector");
  await page.getByRole("button", { name: "End now" }).click();
  await page.getByRole("alertdialog").getByRole("button", { name: "Delete the exception" }).click();
  await expect(
    page.getByRole("button", { name: "Details of VulnerabilityException shop/mine" }),
  ).toBeHidden();
  await page.getByRole("button", { name: "Details of ClusterVulnerabilityException mine" }).click();
  await expect(page.getByText("For all namespaces")).toBeVisible();
});

test("does not change what another tool manages unless asked to", async ({ page, open }) => {
  const operator = await open({}, "/decisions");
  operator.exceptions.add(
    "from-git",
    { match: { vulnerabilities: ["CVE-2021-44228"] }, status: "AcceptedRisk", comment: "why" },
    { managedBy: [{ tool: "Argo CD", source: "security" }] },
  );
  operator.decided();
  await page.getByRole("button", { name: "Details of ClusterVulnerabilityException from-git" }).click();
  await page.getByRole("button", { name: "Edit" }).click();
  const dialog = page.getByRole("dialog", { name: "Edit from-git" });
  await expect(dialog.getByText("Managed by Argo CD (security)")).toBeVisible();
  await expect(dialog.getByRole("button", { name: "Save" })).toBeDisabled();
  await expectFits(page);
  await dialog.getByRole("button", { name: "Change it here anyway" }).click();
  await dialog.getByRole("button", { name: "Save" }).click();
  await expect(dialog).toBeHidden();
});

test("says when decisions cannot be loaded, and who may not change them", async ({ page, open }) => {
  await open(
    { decisions: 4, fail: (path) => (path === "/api/v1/decisions" ? 403 : undefined) },
    "/decisions",
  );
  await expect(page.getByText("The database cannot be reached")).toBeVisible();
  await open({ decisions: 4, noSaving: "NotPermitted" }, "/decisions");
  await page
    .getByRole("button", { name: /^Details of/ })
    .first()
    .click();
  await expect(page.getByText(/you need the permission/)).toBeVisible();
  await expectFits(page);
});

test("scrolls through ten thousand decisions", async ({ page, open }) => {
  await open({ decisions: 10_000 }, "/decisions?state=all");
  await expect(page.getByText("10,000 decisions", { exact: true })).toBeVisible();
  await page.mouse.move(400, 500);
  await expect
    .poll(async () => {
      await page.mouse.wheel(0, 20_000);
      return page.getByText(/ of 10,000 loaded/).textContent();
    })
    .not.toBe("200 of 10,000 loaded");
  expect(await page.getByRole("row").count()).toBeLessThan(200);
});

test("shows hostile decisions as text", async ({ page, open }) => {
  await open({ decisions: 12, hostile: true }, "/decisions?state=all");
  await page
    .getByRole("button", { name: /^Details of/ })
    .first()
    .click();
  await expect(page.getByRole("heading", { name: "Matches" })).toBeVisible();
  expect(await page.evaluate(() => "__xss" in window)).toBe(false);
  await expectFits(page);
});
