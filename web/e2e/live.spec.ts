import { expect, test, tryAgain } from "./fixtures.ts";

test("a new result appears by itself", async ({ page, open }) => {
  const operator = await open({ images: 30 });
  await expect(page.getByText("Online")).toBeVisible();
  const [image] = operator.images;
  if (!image) throw new Error("no image");
  operator.images.push({ ...image, imageId: `docker.io/library/brand-new@sha256:${"0".repeat(64)}` });
  operator.publish(`docker.io/library/brand-new@sha256:${"0".repeat(64)}`);
  await expect(page.getByText("31 images")).toBeVisible();
  await expect(page.getByRole("link", { name: "brand-new" })).toBeVisible();
});

test("a burst of messages costs few requests", async ({ page, open }) => {
  const operator = await open({ images: 30 });
  await expect(page.getByText("Online")).toBeVisible();
  await expect(page.getByText("30 images")).toBeVisible();
  const [image] = operator.images;
  if (!image) throw new Error("no image");
  operator.requests.length = 0;
  for (let round = 0; round < 20; round++) {
    for (const { imageId } of operator.images) operator.publish(imageId);
  }
  operator.images.push({ ...image, imageId: "docker.io/library/last-of-all" });
  operator.publish("docker.io/library/last-of-all");
  await expect(page.getByRole("link", { name: "last-of-all" })).toBeVisible();
  expect(operator.requests.length).toBeLessThan(16);
});

test("slow answers are not starved by a stream of messages", async ({ page, open }) => {
  const operator = await open({ images: 30, latency: 700 });
  await expect(page.getByText("Online")).toBeVisible();
  const [image] = operator.images;
  if (!image) throw new Error("no image");
  const stream = setInterval(() => operator.publish(image.imageId), 100);
  operator.images.push({ ...image, imageId: "docker.io/library/late" });
  await expect(page.getByRole("link", { name: "late" })).toBeVisible();
  clearInterval(stream);
});

test.describe("with a clock of its own", () => {
  test.use({ ownPage: true });

  test("goes offline, comes back and fetches what it missed", async ({ page, open }) => {
    await page.clock.install();
    const operator = await open({ images: 30 });
    await expect(page.getByText("Online")).toBeVisible();
    // With the clock stopped the page does not reconnect by itself before the button is clicked.
    await page.clock.pauseAt(await page.evaluate(() => Date.now() + 60_000));
    operator.setLive(false);
    await expect(page.getByText("Offline")).toBeVisible();
    await page.clock.runFor(3000);
    await expect(page.getByText("Live updates are interrupted")).toBeVisible();
    operator.images.length = 12;
    operator.setLive(true);
    await page.getByRole("button", { name: "Reconnect now" }).click();
    await expect(page.getByText("Online")).toBeVisible();
    await page.clock.resume();
    await expect(page.getByText("12 images")).toBeVisible();
  });
});

test("reconnects without help", async ({ page, open }) => {
  const operator = await open({ images: 5 });
  await expect(page.getByText("Online")).toBeVisible();
  operator.setLive(false);
  await expect(page.getByText("Offline")).toBeVisible();
  operator.setLive(true);
  await expect(page.getByText("Online")).toBeVisible();
});

test("says when nothing can be loaded and recovers", async ({ page, open }) => {
  let broken = true;
  await open({ fail: (path) => (broken && path === "/api/v1/images" ? 400 : undefined) });
  await expect(page.getByRole("alert")).toContainText("The database cannot be reached");
  await tryAgain(page, "connection refused", () => (broken = false));
  await expect(page.getByText("120 images")).toBeVisible();
});

test("says what to do when there are no images", async ({ page, open }) => {
  await open({ images: 0, database: "missing" }, "/");
  await expect(page.getByText("No images yet")).toBeVisible();
  await expect(page.getByText("No vulnerability database yet")).toBeVisible();
});

test("warns of the sample database", async ({ page, open }) => {
  await open({ database: "sample" });
  await expect(page.getByText("Sample vulnerability database")).toBeVisible();
});
