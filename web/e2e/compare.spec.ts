import { detailPath, expect, expectFits, test } from "./fixtures.ts";

test("an image is compared with another one that is searched, and the other way round", async ({
  page,
  open,
}) => {
  const operator = await open({}, ({ images }) =>
    detailPath(images.find(({ state }) => state === "Scanned")?.imageId ?? ""),
  );
  const scanned = operator.images.filter(({ state }) => state === "Scanned");
  const [from, to] = [
    scanned[0],
    scanned.find(({ counts }) => counts.critical > 0 && counts !== scanned[0]?.counts),
  ];
  await page.getByRole("link", { name: "Compare" }).click();
  await expect(page).toHaveTitle(/^Compare/);
  const search = page.getByRole("searchbox", { name: 'Search the image "To"' });
  await search.fill(to?.imageId ?? "none");
  const found = page.getByRole("region", { name: "To" }).getByRole("listitem");
  await expect(found).toHaveCount(1);
  await found.getByRole("button").click();
  await expect(page).toHaveURL(
    (url) => url.searchParams.get("from") === from?.imageId && url.searchParams.get("to") === to?.imageId,
  );
  expect(new URL(page.url()).searchParams.get("platform")).toBe(from?.platform);
  const compared = () =>
    operator.queries
      .map((query) => new URLSearchParams(query))
      .find((query) => query.get("to") === to?.imageId);
  await expect.poll(() => compared()?.get("platform")).toBe(to?.platform);
  await expect(page.getByRole("region", { name: "From" })).toContainText("Scanned");
  const opened = page.getByRole("region", { name: "Opened" });
  const closed = page.getByRole("region", { name: "Closed" });
  const total = await opened.getByText(/^\d+ findings?$/).textContent();
  await page.getByRole("button", { name: "Swap the images" }).click();
  await expect(page).toHaveURL((url) => url.searchParams.get("from") === to?.imageId);
  await expect(closed.getByText(total ?? "none", { exact: true })).toBeVisible();
  await page.getByRole("button", { name: 'Change the image "from"' }).click();
  await expect(page.getByRole("region", { name: "From" })).toBeVisible();
  await expectFits(page);
});

test("an image of which a report was uploaded is offered once it is matched", async ({ page, open }) => {
  const operator = await open({}, ({ images }) => {
    const [from, matched, waiting] = images.filter(({ state }) => state === "Scanned");
    if (!from || !matched || !waiting) throw new Error("too few images");
    for (const image of [from, matched, waiting]) image.platform = "linux/amd64";
    Object.assign(matched, { state: "Reported", fromReport: true });
    Object.assign(waiting, { state: "Reported", fromReport: true, matchedAt: undefined });
    matched.imageId = "example.com/reported@sha256:1";
    waiting.imageId = "example.com/reported@sha256:2";
    return `/compare?from=${encodeURIComponent(from.imageId)}`;
  });
  expect(operator.images.some(({ state }) => state === "Reported")).toBe(true);
  await page.getByRole("searchbox", { name: 'Search the image "To"' }).fill("example.com/reported");
  const found = page.getByRole("region", { name: "To" }).getByRole("listitem");
  await expect(found).toHaveCount(1);
  await found.getByRole("button").click();
  await expect(page).toHaveURL((url) => url.searchParams.get("to") === "example.com/reported@sha256:1");
  await expect(page.getByRole("region", { name: "Opened" })).toBeVisible();
});

test("images of another platform are offered when all platforms are asked for", async ({ page, open }) => {
  const operator = await open({}, ({ images }) => {
    const scanned = images.filter(({ state }) => state === "Scanned");
    for (const image of scanned) image.platform = image === scanned[1] ? "linux/arm64" : "linux/amd64";
    return detailPath(scanned[0]?.imageId ?? "");
  });
  const [, other] = operator.images.filter(({ state }) => state === "Scanned");
  await page.getByRole("link", { name: "Compare" }).click();
  await expect(page).toHaveURL((url) => url.searchParams.get("platform") === "linux/amd64");
  await page.getByRole("searchbox", { name: 'Search the image "To"' }).fill(other?.imageId ?? "none");
  await expect(page.getByText("No other scanned image matches.")).toBeVisible();
  await page.getByRole("button", { name: "show images of all platforms" }).click();
  const found = page.getByRole("region", { name: "To" }).getByRole("listitem");
  await expect(found).toContainText("linux/arm64");
  await found.getByRole("button").click();
  await expect(page).toHaveURL((url) => url.searchParams.get("platform") === "linux/arm64");
  await expect(page.getByText("no container runs it any longer on the platform linux/arm64")).toBeVisible();
  await expectFits(page);
});

test("an image that is not scanned, and one that is not known", async ({ page, open }) => {
  const operator = await open({}, ({ images }) => {
    const [scanned, pending] = ["Scanned", "Pending"].map((wanted) =>
      images.find(({ state }) => state === wanted),
    );
    return `/compare?${new URLSearchParams({ from: scanned?.imageId ?? "", to: pending?.imageId ?? "" }).toString()}`;
  });
  await expect(page.getByText("Waiting until both images are scanned")).toBeVisible();
  await expectFits(page);
  await page.goto(new URL("/compare?from=gone&to=gone", page.url()).href);
  await expect(page.getByRole("heading", { name: "Image not found" })).toBeVisible();
  expect(operator.requests).toContain("GET /api/v1/compare");
});

for (const width of [360, 1440]) {
  test(`the comparison of hostile images fits ${width} px`, async ({ page, open }) => {
    await page.setViewportSize({ width, height: 900 });
    await open({ hostile: true }, ({ images }) => {
      const [from, to] = images;
      return `/compare?${new URLSearchParams({ from: from?.imageId ?? "", to: to?.imageId ?? "" }).toString()}`;
    });
    await expect(page.getByRole("region", { name: "Opened" })).toBeVisible();
    await expectFits(page);
  });
}
