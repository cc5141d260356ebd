import { expect, imagePath, live, number, someRows, test } from "./fixtures.ts";
import { expected, type Counts } from "./setup.ts";

const { image } = expected;

const sum = ({ critical, high, medium, low, negligible, unknown }: Counts) =>
  critical + high + medium + low + negligible + unknown;

test("Images", async ({ page, measured }) => {
  await measured.open("/images?sort=imageId");
  const before = await live.now();
  const total = expected.images + before.images;
  await measured.shows(`${number(total)} images`);
  await measured.total("/api/v1/images?pageSize=1", total);
  const overview = await measured.get<{ images: { scanned: number } }>("/api/v1/overview");
  expect(overview.images.scanned).toBe(total);

  const seen = await measured.scrollThrough();
  const seeded = seen.filter((id) => id.includes("/team-"));
  expect(seeded).toHaveLength(expected.images);
  expect(seeded).toContain(image.id);

  // Others appear and go while all rows are loaded.
  await live.start();
  await measured.top();
  for (let row = 0; row < 15; row++) await page.keyboard.press("j");
  const after = await live.stop();
  await measured.shows(`${number(expected.images + after.images)} images`);
  await measured.total("/api/v1/images?pageSize=1", expected.images + after.images);
  await measured.watch();
});

test("Images, filtered and sorted", async ({ page, measured }) => {
  await measured.open("/images");
  await live.start();
  await page.keyboard.press("/");
  await page.keyboard.type(expected.text, { delay: 60 });
  await measured.shows(`${number(expected.textImages)} images`);
  await measured.total(
    `/api/v1/images?pageSize=1&text=${encodeURIComponent(expected.text)}`,
    expected.textImages,
  );
  await expect(page.getByRole("row").nth(1)).toContainText("team-7/");
  await page.getByRole("button", { name: "Clear filters" }).click();

  await page.getByRole("button", { name: "Known exploited" }).click();
  await expect(page).toHaveURL(/kev=true/);
  await measured.shows(`${number(expected.kevImages)} images`);
  await measured.total("/api/v1/images?pageSize=1&kev=true", expected.kevImages);
  const namespace = page.getByRole("textbox", { name: "Namespace" });
  await namespace.fill(expected.namespace);
  await namespace.press("Enter");
  await page.getByRole("button", { name: "Known exploited" }).click();
  await measured.shows(`${number(expected.namespaceImages)} images`);
  await measured.total(`/api/v1/images?pageSize=1&namespace=${expected.namespace}`, expected.namespaceImages);
  await page.getByRole("button", { name: "Clear filters" }).click();

  // In the order of the API, whatever appears meanwhile.
  for (const [option, sort] of [
    ["Image", "imageId"],
    ["Most severe", "-severity"],
  ] as const) {
    await page.getByRole("combobox", { name: "Sort" }).click();
    await page.getByRole("option", { name: option, exact: true }).click();
    await live.stop();
    await measured.settle();
    const { items } = await measured.get<{ items: { imageId: string }[] }>(
      `/api/v1/images?pageSize=3&sort=${sort}`,
    );
    for (const [index, { imageId }] of items.entries()) {
      await expect(
        page
          .getByRole("row")
          .nth(index + 1)
          .locator("bdi")
          .first(),
      ).toHaveAttribute("title", imageId);
    }
    await live.start();
  }
  await measured.scroll({ rows: someRows });
  await measured.top();
  for (let row = 0; row < 15; row++) await page.keyboard.press("j");
  await measured.watch();
});

test("An image", async ({ page, measured }) => {
  await measured.open(imagePath(image.id));
  const total = sum(image.counts);
  await expect(page.getByRole("region", { name: "Findings by severity" })).toContainText(String(total));
  await measured.shows(`${number(total)} findings`);
  const path = `/api/v1/images/${encodeURIComponent(image.id)}`;
  const { counts } = await measured.get<{ counts: Counts }>(path);
  expect(counts).toEqual(image.counts);
  await measured.total(`${path}/findings?pageSize=1`, total);
  await live.start();
  await measured.scroll();
  await measured.top();
  for (const open of [true, false]) {
    for (const index of [0, 1]) {
      await page
        .getByRole("button", { name: /^Details of/ })
        .nth(index)
        .click();
      if (open) await expect(page.getByRole("heading", { name: "Match details" }).nth(index)).toBeVisible();
    }
  }
  await page.getByRole("searchbox", { name: "Search findings" }).click();
  await page.keyboard.type(image.cve, { delay: 60 });
  await expect(page.getByRole("row").nth(1)).toContainText(image.cve);
  await page.getByRole("button", { name: "Clear filters" }).click();

  await page.getByRole("tab", { name: "Packages" }).click();
  await measured.shows(`${number(image.packages)} packages`);
  await page.getByRole("tab", { name: "Run history" }).click();
  await expect(page.getByRole("tabpanel")).toContainText(image.workload);
  await page.getByRole("tab", { name: "Findings" }).click();
  await measured.shows(`${number(total)} findings`);
  await measured.watch({ concerned: false });
});
