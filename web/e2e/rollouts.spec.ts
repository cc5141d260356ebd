import type { Page } from "@playwright/test";
import { detailPath, expect, expectFits, test, tryAgain } from "./fixtures.ts";
import { ageOf } from "../mock/rollouts.ts";

const rows = "[role=table] [role=row]";

test("rollouts come latest first, and lead to what they brought and to their images", async ({
  page,
  open,
}) => {
  const operator = await open({}, "/workloads");
  await page.getByRole("navigation").getByRole("link", { name: "Rollouts" }).click();
  await expect(page).toHaveTitle(/^Rollouts/);
  await expect(page.getByText("60 rollouts")).toBeVisible();
  const [first] = operator.rollouts;
  const row = page.getByRole("row").nth(1);
  await expect(row).toContainText("1 hour ago");
  await expect(row).toContainText(first?.workload.name ?? "none");
  await page.keyboard.press("j");
  await expect(row.getByRole("link", { name: first?.workload.name })).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(new RegExp(`/rollouts/${first?.id ?? 0}$`));
  await expect(page.getByRole("heading", { level: 1, name: first?.workload.name })).toBeVisible();
  const opened = page.getByRole("region", { name: "Opened" });
  await expect(opened.getByRole("listitem")).toHaveCount(first?.opened.length ?? -1);
  await expect(opened.getByText(/^and \d+ more$/)).toBeVisible();
  await page.keyboard.press("Escape");
  await expect(page).toHaveURL(/\/rollouts$/);
  await row.getByRole("link").nth(2).click();
  await expect(page).toHaveURL((url) => url.pathname.endsWith(encodeURIComponent(first?.to.imageId ?? "")));
});

test("what was opened stands out, and what is waited for is named", async ({ page, open }) => {
  const operator = await open({}, "/rollouts");
  const critical = operator.rollouts.findIndex(({ evaluation }) => (evaluation.opened?.critical ?? 0) > 0);
  const row = (index: number) => page.getByRole("row").nth(index + 1);
  await expect(row(critical).getByText("Opened")).toHaveClass(/text-danger/);
  await expect(row(critical)).toContainText(
    `${operator.rollouts[critical]?.evaluation.opened?.critical ?? 0} critical`,
  );
  await expect(row(1)).toContainText("The image has no SBOM yet");
  await expect(row(3)).toContainText("Timed out: an image was not scanned in time");
  await row(1).getByRole("link").first().click();
  await expect(page.getByText("Waiting until both images are scanned")).toBeVisible();
});

test("filters live in the address", async ({ page, open }) => {
  const operator = await open({}, "/rollouts");
  await page.getByLabel("Namespace").fill("payments");
  await page.getByLabel("Workload").fill("checkout-api");
  await expect(page).toHaveURL(/namespace=payments&workload=checkout-api$/);
  const kept = operator.rollouts.filter(
    ({ workload }) => workload.namespace === "payments" && workload.name === "checkout-api",
  );
  await expect(page.getByText(`${kept.length} rollouts`)).toBeVisible();
  await page.reload();
  await expect(page.getByText(`${kept.length} rollouts`)).toBeVisible();
  await page.getByRole("button", { name: "Clear filters" }).click();
  const day = new Date(Date.now() - ageOf(30)).toISOString().slice(0, 10);
  await page.getByLabel("From", { exact: true }).fill(day);
  await page.getByLabel("To", { exact: true }).fill(day);
  await expect(page).toHaveURL(new RegExp(`since=${day}&until=${day}$`));
  const ofDay = operator.rollouts.filter(({ at }) => at.startsWith(day)).length;
  await expect(page.getByText(new RegExp(`^${ofDay} rollouts?$`))).toBeVisible();
  await page.getByLabel("From", { exact: true }).fill("");
  await page.getByLabel("To", { exact: true }).fill("");
  await expect(page.getByText("60 rollouts")).toBeVisible();
  await page.getByLabel("Workload").fill("none-such");
  await expect(page.getByText("No rollout matches")).toBeVisible();
});

test("images and workloads lead to their rollouts", async ({ page, open }) => {
  const operator = await open({}, ({ rollouts }) => detailPath(rollouts[0]?.to.imageId ?? ""));
  const imageId = operator.rollouts[0]?.to.imageId ?? "";
  const count = operator.rollouts.filter(({ from, to }) => [from.imageId, to.imageId].includes(imageId));
  await page.getByRole("main").getByRole("link", { name: "Rollouts" }).click();
  await expect(page.getByText(new RegExp(`^${count.length} rollouts?$`))).toBeVisible();
  await page.getByRole("button", { name: "Show rollouts of all images" }).click();
  await expect(page.getByText("60 rollouts")).toBeVisible();
  await page.getByRole("link", { name: "Workloads" }).click();
  await page
    .getByRole("button", { name: /^Details of/ })
    .first()
    .click();
  await page.getByRole("link", { name: "Rollouts of this workload" }).click();
  await expect(page).toHaveURL(/\/rollouts\?namespace=.+&workload=.+/);
});

test("events change the list and the detail by themselves", async ({ page, open }) => {
  const operator = await open({}, "/rollouts");
  await expect(page.getByText("60 rollouts")).toBeVisible();
  const following = "/api/v1/events?kind=rollout.changed&kind=rollout.evaluated";
  await expect.poll(() => operator.dialled).toContain(following);
  const [latest, waiting] = operator.rollouts;
  if (!latest || !waiting) throw new Error("no rollout");
  operator.rollouts = [{ ...latest, id: 1000 }, ...operator.rollouts];
  // Each event is told until it is seen to work: the WebSocket may stand a moment later than it was asked for.
  await expect
    .poll(async () => {
      operator.event("rollout.changed");
      return page.getByText("61 rollouts").isVisible();
    })
    .toBe(true);
  await page.goto(new URL(`/rollouts/${waiting.id}`, page.url()).href);
  await expect(page.getByText("Waiting until both images are scanned")).toBeVisible();
  operator.rollouts = operator.rollouts.map((row) =>
    row.id === waiting.id
      ? { ...row, evaluation: latest.evaluation, opened: latest.opened, closed: latest.closed }
      : row,
  );
  await expect
    .poll(async () => {
      operator.event("rollout.evaluated");
      return page.getByRole("region", { name: "Opened" }).isVisible();
    })
    .toBe(true);
});

test("a burst of events costs few requests", async ({ page, open }) => {
  const operator = await open({}, "/rollouts");
  await expect(page.getByText("60 rollouts")).toBeVisible();
  await expect.poll(() => operator.dialled.some((url) => url.startsWith("/api/v1/events"))).toBe(true);
  operator.requests.length = 0;
  for (let count = 0; count < 500; count++) operator.event("rollout.evaluated");
  operator.rollouts = operator.rollouts.slice(1);
  await expect
    .poll(async () => {
      operator.event("rollout.changed");
      return page.getByText("59 rollouts").isVisible();
    })
    .toBe(true);
  expect(operator.requests.filter((request) => request.includes("rollouts")).length).toBeLessThan(6);
});

test("says what is loading, missing, and what failed", async ({ page, open }) => {
  const slow = await open({ latency: 3000 }, "/rollouts");
  await expect(page.getByText("Loading: Rollouts")).toBeAttached();
  slow.options.latency = 0;
  await open({ rollouts: 0 }, "/rollouts");
  await expect(page.getByText("No rollouts yet")).toBeVisible();
  let broken = true;
  await open({ fail: (path) => (broken && path === "/api/v1/rollouts" ? 400 : undefined) }, "/rollouts");
  await tryAgain(page, "connection refused", () => (broken = false));
  await expect(page.getByText("60 rollouts")).toBeVisible();
  for (const id of ["4711", "none", "0"]) {
    await page.goto(new URL(`/rollouts/${id}`, page.url()).href);
    await expect(page.getByText("Rollout not found")).toBeVisible();
  }
});

test("10,000 rollouts scroll to the end with few rows in the document", async ({ page, open }) => {
  test.slow();
  await open({ rollouts: 10_000 }, "/rollouts");
  await expect(page.getByText("10,000 rollouts")).toBeVisible();
  await expect
    .poll(
      async () => {
        await page.evaluate(() => window.scrollTo(0, document.body.scrollHeight));
        return page.locator(rows).last().getAttribute("aria-rowindex");
      },
      { timeout: 180_000, intervals: [30] },
    )
    .toBe("10001");
  expect(await page.locator(rows).count()).toBeLessThan(70);
});

test("hostile text does nothing", async ({ page, open }) => {
  const operator = await open(
    { hostile: true, feed: ["<img src=x onerror='window.__xss = 1'>"] },
    "/rollouts",
  );
  await expect(page.getByText("10 rollouts")).toBeVisible();
  for (const path of [
    ...operator.rollouts.slice(0, 2).map(({ id }) => `/rollouts/${id}`),
    "/rollouts?tab=live",
  ]) {
    await page.goto(new URL(path, page.url()).href);
    await expect(page.getByText("<").first()).toBeVisible();
    expect(await page.evaluate(() => "__xss" in window)).toBe(false);
    expect(await page.locator("a[href^='javascript' i], main img, main iframe").count()).toBe(0);
  }
});

test.describe("Live Deployments", () => {
  const live = "/rollouts?tab=live";
  const messages = (page: Page) =>
    page.getByRole("list", { name: "Messages, the newest first" }).getByRole("listitem");
  const processed = (name: string) => `Successfully processed deployment: ${name}`;

  test("messages come as they are told, the newest first", async ({ page, open }) => {
    const operator = await open({ feed: [processed("web"), processed("shop")] }, "/rollouts");
    await page.getByRole("tab", { name: "Live Deployments" }).click();
    await expect(page).toHaveURL(/tab=live$/);
    await expect(messages(page).first()).toContainText(processed("shop"));
    operator.tell(
      '{"timestamp":"2026-01-31T12:00:00Z","message":"Deployment web updated - Replicas changed: 3"}',
    );
    operator.tell("Deployment web deleted");
    await expect(messages(page)).toContainText([
      "Deployment web deleted",
      "Replicas changed: 3",
      processed("shop"),
      processed("web"),
      "Connected",
    ]);
    await expect(page.getByText("4 messages")).toBeVisible();
    await expect(messages(page).nth(1).locator("time")).toHaveAttribute("datetime", "2026-01-31T12:00:00Z");
  });

  test("one namespace and one Deployment are asked for, and no name that there cannot be", async ({
    page,
    open,
  }) => {
    const operator = await open({ feed: [processed("web")] }, `${live}&namespace=shop`);
    await expect.poll(() => operator.dialled).toContain("/api/wds/logs?namespace=shop");
    await page.getByLabel("Deployment", { exact: true }).fill("web");
    await expect(page).toHaveURL(/workload=web/);
    await expect.poll(() => operator.dialled).toContain("/api/wds/logs?namespace=shop&deployment=web");
    await expect(page.getByText("1 message", { exact: true })).toBeVisible();
    await page.getByLabel("Deployment", { exact: true }).fill("No_Name");
    await expect(page.getByText("Invalid Deployment name")).toBeVisible();
    expect(operator.dialled.filter((url) => url.includes("No_Name"))).toEqual([]);
    await page.getByRole("button", { name: "Clear filters" }).click();
    await expect(page.getByText("Following")).toBeVisible();
    expect(operator.dialled.at(-1)).toBe("/api/wds/logs");
  });

  test("a pause holds what is shown, and nothing is lost by it", async ({ page, open }) => {
    const operator = await open({ feed: [processed("web")] }, live);
    await expect(messages(page)).toHaveCount(2);
    await page.getByRole("button", { name: "Pause" }).click();
    operator.tell("Deployment web deleted");
    await expect(page.getByText("1 message, 1 more since the pause")).toBeVisible();
    await expect(messages(page)).toHaveCount(2);
    await page.getByRole("button", { name: "Resume" }).click();
    await expect(messages(page).first()).toContainText("Deployment web deleted");
  });

  test("the newest 500 messages are kept", async ({ page, open }) => {
    await open({ feed: Array.from({ length: 3000 }, (_, index) => processed(`web-${index}`)) }, live);
    await expect(page.getByText("the newest 500 of 3,000 messages")).toBeVisible();
    await expect(messages(page)).toHaveCount(500);
    await expect(messages(page).first()).toContainText("web-2999");
  });

  test("goes on by itself when it was cut off", async ({ page, open }) => {
    const operator = await open({ feed: [processed("web")] }, live);
    await expect(page.getByText("Following")).toBeVisible();
    operator.options.refuseFeed = 503;
    operator.cutFeed();
    await expect(page.getByRole("alert")).toContainText("Not ready yet");
    await expect(page.getByRole("alert")).toContainText("the Deployments have not been listed yet");
    await expect(messages(page)).toHaveCount(2);
    operator.options.refuseFeed = undefined;
    await expect(page.getByText("Following")).toBeVisible();
    await expect(page.getByRole("alert")).toBeHidden();
    await expect(page.getByText("Reconnected: all existing Deployments are listed first")).toBeVisible();
  });

  test("says that it is switched off, and asks again when told to", async ({ page, open }) => {
    const operator = await open({ refuseFeed: 404, feed: [processed("web")] }, live);
    await expect(page.getByRole("alert")).toContainText("The live feed is disabled");
    operator.options.refuseFeed = undefined;
    await page.getByRole("button", { name: "Try again" }).click();
    await expect(page.getByText("Following")).toBeVisible();
    expect(operator.dialled.filter((url) => url.startsWith("/api/wds/logs"))).toHaveLength(2);
  });
});

for (const width of [390, 1024, 1440]) {
  test.describe(`${width} px, light and dark`, () => {
    test.use({ viewport: { width, height: 900 } });

    test("rollouts, one of each state, and none", async ({ page, open }) => {
      const operator = await open({}, "/rollouts");
      await expect(page.getByText("60 rollouts")).toBeVisible();
      await expectFits(page);
      for (const state of ["evaluated", "waiting", "timedOut"]) {
        const id = operator.rollouts.find(({ evaluation }) => evaluation.state === state)?.id ?? 0;
        await page.goto(new URL(`/rollouts/${id}`, page.url()).href);
        await expect(page.getByRole("region", { name: "From" })).toBeVisible();
        await expectFits(page);
      }
      await open({ rollouts: 0 }, "/rollouts");
      await expect(page.getByText("No rollouts yet")).toBeVisible();
      await expectFits(page);
    });

    test("Live Deployments", async ({ page, open }) => {
      const image = `registry.example.com/payments/checkout-api@sha256:${"ab".repeat(32)}`;
      const change = { timestamp: "2026-01-31T12:00:00Z", message: `Image changed: ${image}` };
      const operator = await open(
        { feed: ["Deployment web deleted", JSON.stringify(change)] },
        "/rollouts?tab=live",
      );
      await expect(page.getByText("2 messages")).toBeVisible();
      await expectFits(page);
      operator.options.refuseFeed = 503;
      operator.cutFeed();
      await expect(page.getByText("Not ready yet")).toBeVisible();
      await expectFits(page);
      await open({ refuseFeed: 404 }, "/rollouts?tab=live");
      await expect(page.getByText("The live feed is disabled")).toBeVisible();
      await expectFits(page);
    });
  });
}
