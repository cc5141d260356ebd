import { expect, test } from "./fixtures.ts";

const owned = { sums: { owners: true } };

test("nothing about owners is shown where there are none", async ({ page, open }) => {
  for (const path of ["/images", "/vulnerabilities", "/packages", "/workloads", "/coverage", "/rollouts"]) {
    await open({}, path);
    await expect(page.getByRole("row").nth(1)).toBeVisible();
    await expect(page.getByLabel("Namespace")).toBeVisible();
    await expect(page.getByLabel("Owner")).toHaveCount(0);
    await expect(page.getByRole("tab", { name: "By owner" })).toHaveCount(0);
    await expect(page.getByRole("columnheader", { name: "Owner" })).toHaveCount(0);
  }
});

test("an owner leads to its workloads, images and findings", async ({ page, open }) => {
  const operator = await open(owned, "/workloads");
  const of = (owner: string | undefined) =>
    operator.sums.workloads.filter(({ workload }) => workload.owner === owner).length;
  await expect(page.getByRole("columnheader", { name: "Owner" })).toBeVisible();
  await page.getByRole("tab", { name: "By owner" }).click();
  await expect(page).toHaveURL(/group=owners/);
  await expect(page.getByText("4 rows")).toBeVisible();
  await page.getByRole("link", { name: "Payments" }).click();
  await expect(page).toHaveURL(/\/workloads\?owner=Payments$/);
  await expect(page.getByText(`${of("Payments")} workloads`)).toBeVisible();
  await expect(page.getByLabel("Owner", { exact: true })).toHaveValue("Payments");

  await page.goBack();
  await page.getByRole("link", { name: "No owner" }).click();
  await expect(page.getByText(`${of(undefined)} workloads`)).toBeVisible();
  await page.getByRole("button", { name: "Show workloads with any owner" }).click();
  await expect(page.getByText("90 workloads")).toBeVisible();
});

for (const list of ["images", "vulnerabilities", "workloads"] as const) {
  test(`${list} are grouped by owner and namespace, and a group opens by keyboard`, async ({
    page,
    open,
  }) => {
    const choose = async (by: "Owner" | "Namespace") => {
      if (list === "workloads") return page.getByRole("tab", { name: `By ${by.toLowerCase()}` }).click();
      await page.getByRole("combobox", { name: "Group by" }).click();
      await page.getByRole("option", { name: by }).click();
    };
    await open(owned, `/${list}`);
    await choose("Owner");
    await expect(page).toHaveURL(new RegExp(`/${list}\\?group=owners$`));
    await expect(page.getByText("4 rows")).toBeVisible();
    await choose("Namespace");
    await expect(page).toHaveURL(new RegExp(`/${list}\\?group=namespaces$`));
    await expect(page.getByText("5 namespaces")).toBeVisible();
    await page.getByLabel("Owner", { exact: true }).fill("platform-team@example.com");
    await expect(page.getByText("2 namespaces")).toBeVisible();

    const asked = page.waitForRequest((request) => {
      const url = new URL(request.url());
      return url.pathname.endsWith(`/${list}`) && url.searchParams.get("namespace") === "platform";
    });
    const group = page.getByRole("button", { name: "First rows of platform" });
    await group.focus();
    await page.keyboard.press("Enter");
    await expect(group).toHaveAttribute("aria-expanded", "true");
    expect(new URL((await asked).url()).searchParams.get("owner")).toBe("platform-team@example.com");
    const all = page.getByRole("link", { name: new RegExp(`^List (all )?[0-9]+ ${list}`) });
    await expect(all).toBeVisible();
    await page.keyboard.press("Escape");
    await expect(group).toHaveAttribute("aria-expanded", "false");

    await page.getByRole("link", { name: "platform", exact: true }).click();
    await expect(page).toHaveURL(new RegExp(`/${list}\\?namespace=platform&owner=platform-team`));
    await expect(page.getByLabel("Namespace", { exact: true })).toHaveValue("platform");
    await expect(page.getByRole("row").nth(1)).toBeVisible();
  });
}

test("lists are filtered by owner", async ({ page, open }) => {
  for (const [path, api] of [
    ["/images", "images"],
    ["/vulnerabilities", "vulnerabilities"],
    ["/coverage", "coverage"],
    ["/fixes", "fixes"],
    ["/packages", "packages"],
    ["/rollouts", "rollouts"],
    ["/vulnerabilities/CVE-2021-44228", "affected"],
  ] as const) {
    await open(owned, path);
    const asked = page.waitForRequest(
      (request) => request.url().includes(api) && request.url().includes("owner=Payments"),
    );
    await page.getByLabel("Owner", { exact: true }).fill("Payments");
    await asked;
    await expect(page).toHaveURL(/owner=Payments/);
    await expect(page.getByRole("row").nth(1)).toBeVisible();
  }
});

test("owners are searched, sorted and shown on a narrow screen", async ({ page, open }) => {
  await open(owned, "/workloads?group=owners&sort=name");
  await expect(page.getByRole("row").nth(1)).toContainText("No owner");
  await page.getByRole("searchbox").fill("PLATFORM");
  await expect(page.getByText("1 row", { exact: true })).toBeVisible();
  await page.getByRole("searchbox").fill("nobody");
  await expect(page.getByText("No owner matches")).toBeVisible();
  await page.getByRole("button", { name: "Clear filters" }).last().click();
  await page.setViewportSize({ width: 390, height: 800 });
  await expect(page.getByText("4 rows")).toBeVisible();
  await expect(page.getByRole("link", { name: "Payments" })).toBeVisible();
  expect(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth)).toBe(true);
});

test("hostile owners do nothing", async ({ page, open }) => {
  for (const path of [
    "/workloads",
    "/workloads?group=owners",
    "/workloads?group=namespaces",
    "/coverage",
    "/rollouts",
  ]) {
    await open({ hostile: true }, path);
    await expect(page.getByText("<script>").first()).toBeVisible();
    expect(await page.evaluate(() => "__xss" in window)).toBe(false);
    expect(await page.locator("a[href^='javascript' i], main img, main iframe").count()).toBe(0);
  }
});

test("a report is about what the filters choose", async ({ page, open }) => {
  const reports = "**/api/v1/reports/**";
  await page
    .context()
    .route(reports, (route) => route.fulfill({ body: "a report", contentType: "text/plain" }));
  for (const [filters, about] of [
    ["", "cluster"],
    ["?namespace=payments", "namespaces/payments"],
    ["?owner=Payments", "owners/Payments"],
  ]) {
    await open(owned, `/workloads${filters}`);
    await page.getByRole("button", { name: "Report" }).click();
    const opened = page.context().waitForEvent("page");
    await page.getByRole("menuitem", { name: "Last 7 days" }).click();
    const report = await opened;
    await expect(report).toHaveURL(new RegExp(`/api/v1/reports/${about}\\?since=7d&format=html$`));
    await report.close();
  }
  await page.context().unroute(reports);
});
