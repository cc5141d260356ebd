import { expect, expectFits, test } from "./fixtures.ts";

const path = "/notifications";

test("rules are listed with what became of their messages", async ({ page, open }) => {
  await open({}, path);
  const team = page.getByRole("region", { name: "security-team" });
  await expect(team).toContainText("ClusterNotificationRule");
  await expect(team).toContainText("Delivering");
  await expect(team).toContainText("One message for each owner, at 0 8 * * 1-5 (Europe/Budapest)");
  await expect(team.getByRole("row", { name: /^mail/ })).toContainText("1,204");
  const exploited = page.getByRole("region", { name: "shop/exploited" });
  await expect(exploited).toContainText("Delivery fails");
  await expect(exploited).toContainText("Sink chat: the receiver answers with status 503");
  await expect(exploited).toContainText("due 40 minutes ago");
  const wrong = page.getByRole("region", { name: "shop/typing-error" });
  await expect(wrong).toContainText("Not in effect");
  await expect(wrong).toContainText("undefined field 'severty'");
});

test("a test message says what became of it", async ({ page, open }) => {
  const operator = await open({}, path);
  const send = (name: string) => page.getByRole("button", { name: `Send test message of ${name}` }).click();
  await send("security-team");
  await expect(page.getByText("All sinks of security-team accepted it.")).toBeVisible();
  await expect(
    page.getByRole("region", { name: "security-team" }).getByText("Test message accepted"),
  ).toHaveCount(2);
  await send("shop/exploited");
  await expect(page.getByText("Test failed: the receiver answers with status 503")).toBeVisible();
  await send("shop/typing-error");
  await expect(page.getByText("Could not send a test message").first()).toBeVisible();
  expect(operator.notifications.tested).toEqual([
    { name: "security-team" },
    { name: "exploited", namespace: "shop" },
    { name: "typing-error", namespace: "shop" },
  ]);
});

test("without rules the page says how to get some", async ({ page, open }) => {
  await open({ rules: [] }, path);
  await expect(page.getByText("No notification rules")).toBeVisible();
  await open({ fail: (asked) => (asked === "/api/v1/notification-rules" ? 501 : undefined) }, path);
  await expect(page.getByRole("button", { name: "Try again" })).toBeVisible();
});

for (const width of [390, 1040, 1440])
  test(`the page fits ${width} px`, async ({ page, open }) => {
    await page.setViewportSize({ width, height: 900 });
    await open({}, path);
    await expect(page.getByRole("region", { name: "shop/exploited" })).toBeVisible();
    await expectFits(page);
  });

test("hostile rules do nothing", async ({ page, open }) => {
  await open({ hostile: true }, path);
  await expect(page.getByText("<script>").first()).toBeVisible();
  expect(await page.evaluate(() => "__xss" in window)).toBe(false);
  expect(await page.locator("main img, main iframe").count()).toBe(0);
});
