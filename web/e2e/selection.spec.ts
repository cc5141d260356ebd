import { readFile } from "node:fs/promises";
import type { Page } from "@playwright/test";
import { expect, expectFits, test } from "./fixtures.ts";

const boxes = (page: Page) => page.getByRole("checkbox", { name: /^Select (?!all)/ });
const bar = (page: Page) => page.getByRole("region", { name: /^Selected/ });
const rowFocus = (page: Page, index: number) => page.locator(`[data-index='${index}'] [data-row-focus]`);

async function downloaded(page: Page) {
  const started = page.waitForEvent("download");
  await bar(page).getByRole("button", { name: "CSV of selected" }).click();
  const download = await started;
  return [download.suggestedFilename(), await readFile(await download.path(), "utf8")] as const;
}

test("the address keeps the columns that a user chooses", async ({ page, open }) => {
  await open({}, "/images?columns=size,<img>,owners&sort=imageId");
  const headers = () => page.getByRole("columnheader");
  await expect(headers()).toHaveText(["Select all loaded rows", "Image", "Size", "Owners", "Actions"]);
  await page.getByRole("button", { name: "Columns" }).click();
  await page.getByRole("menuitemcheckbox", { name: "Size" }).click();
  await page.getByRole("menuitemcheckbox", { name: "Findings" }).click();
  await expect(page).toHaveURL(/sort=imageId&columns=image%2Cfindings%2Cowners$/);
  await page.keyboard.press("Escape");
  await page.reload();
  await expect(headers()).toHaveText(["Select all loaded rows", "Image", "Findings", "Owners", "Actions"]);
  await page.getByRole("button", { name: "Columns" }).click();
  await page.getByRole("menuitem", { name: "Reset to default" }).click();
  await expect(page).not.toHaveURL(/columns/);
  await expect(headers().nth(3)).toHaveText("State");
  // As many columns as there are do not make the page wider than its window.
  for (const path of [
    "/images?columns=image,platform,state,findings,fixable,kev,overdue,packages,size,endOfLife,created,firstSeen,cataloger,scanned",
    "/workloads?columns=name,namespace,kind,images,containers,findings,fixable,kev,overdue,since",
  ]) {
    await page.goto(new URL(path, page.url()).href);
    await page.setViewportSize({ width: 1024, height: 800 });
    await expect(page.getByRole("row").nth(20)).toBeAttached();
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(1024);
  }
});

test("rows are selected by mouse and keyboard, and stay so while they change", async ({ page, open }) => {
  const operator = await open({ images: 300 }, "/images?sort=imageId");
  await boxes(page).nth(1).click();
  await boxes(page)
    .nth(4)
    .click({ modifiers: ["Shift"] });
  await expect(bar(page)).toContainText("4 images selected");
  await expectFits(page);
  // From the box, the keys go on to other rows.
  await page.keyboard.press("j");
  await expect(rowFocus(page, 5)).toBeFocused();
  await page.keyboard.press("Space");
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await expect(rowFocus(page, 7)).toBeFocused();
  await page.keyboard.press("Shift+X");
  await expect(bar(page)).toContainText("7 images selected");
  expect(await page.evaluate(() => window.scrollY)).toBe(0);

  const [first, second] = [...operator.images].sort((a, b) => (a.imageId < b.imageId ? -1 : 1));
  if (!first || !second) throw new Error("no images");
  second.packages = 123_456;
  operator.images.push({ ...first, imageId: "a.example/first" });
  operator.publish(second.imageId);
  await expect(page.getByText("123,456")).toBeVisible();
  await expect(boxes(page).nth(0)).toHaveAccessibleName(/a\.example/);
  await expect(boxes(page).nth(2)).toBeChecked();
  await expect(boxes(page).nth(0)).not.toBeChecked();
  await expect(bar(page)).toContainText("7 images selected");

  await page.getByRole("checkbox", { name: "Select all loaded rows" }).check();
  await expect(bar(page)).toContainText("100 images selected, the maximum");
  await page.getByRole("searchbox").fill("a.example/first");
  await expect(bar(page)).toContainText("100 images selected, the maximum, 99 not in this list");
  await rowFocus(page, 0).focus();
  await page.keyboard.press("a");
  await expect(bar(page).getByRole("button").first()).toBeFocused();
  await bar(page).getByRole("button", { name: "Clear selection" }).click();
  await expect(bar(page)).toBeHidden();
});

test("images are removed and scanned again, and what fails is told", async ({ page, open }) => {
  const operator = await open({}, "/images?sort=imageId");
  const ids = [...new Set(operator.images.map(({ imageId }) => imageId))].sort();
  const [gone = "", refused = "", running = ""] = ids;
  operator.stopped.add(gone).add(refused);
  await boxes(page).nth(0).click();
  await boxes(page)
    .nth(2)
    .click({ modifiers: ["Shift"] });
  operator.options.fail = (path) =>
    path === `/scan-results/${encodeURIComponent(refused)}` ? 403 : undefined;
  await bar(page).getByRole("button", { name: "Remove" }).click();
  const dialog = page.getByRole("alertdialog");
  await expect(dialog).toHaveAccessibleName("Remove the scan results of 2 images?");
  await expect(dialog.getByText("1 of the images still runs")).toBeVisible();
  await dialog.getByRole("button", { name: "Remove" }).click();
  await expect(dialog.getByRole("alert")).toContainText("Could not remove the results of 1 image");
  await expectFits(page);
  expect(operator.images.map(({ imageId }) => imageId)).not.toContain(gone);
  operator.options.fail = undefined;
  await dialog.getByRole("button", { name: "Remove" }).click();
  await expect(dialog).toBeHidden();
  await expect(page.getByText("118 images")).toBeVisible();
  await expect(bar(page)).toContainText("1 image selected");
  await bar(page).getByRole("button", { name: "Scan again" }).click();
  await expect(dialog).toHaveAccessibleName("Scan 1 image again?");
  operator.requests.length = 0;
  await dialog.getByRole("button", { name: "Scan again" }).click();
  await expect(page.getByText("1 image will be scanned again")).toBeVisible();
  expect(operator.requests).toContain(`POST /api/v1/images/${encodeURIComponent(running)}/scan`);
  await expect(page.getByText("118 images")).toBeVisible();
  await expect(bar(page)).toBeHidden();
});

test("images are decided about and exported, also by who may only read", async ({ page, open }) => {
  const operator = await open({ readOnly: true }, "/images?sort=imageId");
  await page.setViewportSize({ width: 360, height: 800 });
  await boxes(page).nth(0).check();
  await boxes(page).nth(1).check();
  await expect(bar(page).getByRole("button")).toHaveText(["Decide", "CSV of selected", "Clear selection"]);
  await expectFits(page);
  const ids = [...operator.images].sort((a, b) => (a.imageId < b.imageId ? -1 : 1)).slice(0, 2);
  const [name, csv] = await downloaded(page);
  expect(name).toBe("images-selected.csv");
  expect(csv.split("\r\n").map((line) => line.split(",")[0])).toEqual([
    "image_id",
    ...ids.map(({ imageId }) => imageId),
    "",
  ]);
  await bar(page).getByRole("button", { name: "Decide" }).click();
  const dialog = page.getByRole("dialog", { name: "Decide about vulnerabilities of 2 images" });
  await dialog.getByLabel("Vulnerabilities").fill("CVE-2021-44228 bogus!");
  await expect(dialog.getByText(/^Name vulnerabilities by their IDs/)).toBeVisible();
  await dialog.getByLabel("Vulnerabilities").fill("CVE-2021-44228, CVE-2024-3094");
  await dialog.getByRole("textbox", { name: "Comment" }).fill("Not reachable.");
  await dialog.getByRole("button", { name: "Save" }).click();
  await expect(dialog).toBeHidden();
  expect(operator.exceptions.items.get("cve-2021-44228-1-more-in-2-images")?.spec.match).toEqual({
    vulnerabilities: ["CVE-2021-44228", "CVE-2024-3094"],
    images: ids.map(({ imageId }) => imageId),
  });
});

test("vulnerabilities are decided about together, and workloads exported", async ({ page, open }) => {
  const operator = await open({}, "/vulnerabilities?sort=id");
  const ids = operator.sums.vulnerabilities.map(({ id }) => id).sort();
  await boxes(page).nth(0).click();
  await boxes(page)
    .nth(2)
    .click({ modifiers: ["Shift"] });
  await bar(page).getByRole("button", { name: "Decide" }).click();
  const dialog = page.getByRole("dialog", { name: "Decide about 3 vulnerabilities" });
  await dialog.getByRole("textbox", { name: "Comment" }).fill("Not reachable.");
  await dialog.getByRole("button", { name: "Save" }).click();
  await expect(dialog).toBeHidden();
  expect([...operator.exceptions.items.values()][0]?.spec.match).toEqual({
    vulnerabilities: ids.slice(0, 3),
  });
  await expect(bar(page)).toBeHidden();

  await page.goto(new URL("/workloads?sort=name", page.url()).href);
  await boxes(page).nth(1).check();
  const [, csv] = await downloaded(page);
  const [, row = ""] = csv.split("\r\n");
  const [namespace = "", kind = "", workload = ""] = row.split(",");
  await expect(boxes(page).nth(1)).toHaveAccessibleName(`Select ${namespace}/${kind}/${workload}`);
});

test("workloads are decided about by their images, in their namespaces", async ({ page, open }) => {
  const operator = await open({}, "/workloads?sort=name");
  const chosen = [0, 1].map((index) => operator.sums.workloads[index]);
  for (const row of chosen) {
    const { namespace, kind, name } = row?.workload ?? { namespace: "", kind: "", name: "" };
    await page.getByRole("checkbox", { name: `Select ${namespace}/${kind}/${name}`, exact: true }).check();
  }
  const region = page.getByRole("region", { name: "Selected workloads" });
  await expect(region.getByText("Results of images that run cannot be removed.")).toBeVisible();
  await expect(region.getByRole("button", { name: "Remove" })).toHaveCount(0);
  await region.getByRole("button", { name: "Decide" }).click();
  const dialog = page.getByRole("dialog", { name: "Decide about vulnerabilities of 2 workloads" });
  await dialog.getByRole("textbox", { name: "Vulnerabilities" }).fill("CVE-2021-44228");
  await dialog.getByRole("textbox", { name: "Comment" }).fill("Not reachable.");
  await dialog.getByRole("button", { name: "Save" }).click();
  await expect(dialog).toBeHidden();
  const saved = [...operator.exceptions.items.values()].at(-1);
  expect(saved?.spec.match.namespaceSelector).toEqual({
    matchExpressions: [
      {
        key: "kubernetes.io/metadata.name",
        operator: "In",
        values: chosen.map((row) => row?.workload.namespace),
      },
    ],
  });
  const images = new Set(chosen.flatMap((row) => row?.images.map(({ imageId }) => imageId) ?? []));
  expect(new Set(saved?.spec.match.images)).toEqual(images);
  await expect(region).toBeHidden();
});

test("workloads are not decided about while some of their images are not known", async ({ page, open }) => {
  const operator = await open({}, "/workloads?sort=name");
  const names = [0, 1].map((index) => {
    const { namespace, kind, name } = operator.sums.workloads[index]?.workload ?? {
      namespace: "",
      kind: "",
      name: "",
    };
    return { label: `${namespace}/${kind}/${name}`, name };
  });
  for (const { label } of names) {
    await page.getByRole("checkbox", { name: `Select ${label}`, exact: true }).check();
  }
  const unread = (url: URL) =>
    url.pathname === "/api/v1/images" && url.searchParams.get("workload") === names[1]?.name;
  await page.route(unread, (route) => route.fulfill({ status: 500, json: { title: "Unavailable" } }));
  const decide = page
    .getByRole("region", { name: "Selected workloads" })
    .getByRole("button", { name: "Decide" });
  await decide.click();
  await expect(page.getByText(/^Could not find all images of /).first()).toBeVisible();
  await expect(page.getByRole("dialog", { name: /^Decide about/ })).toHaveCount(0);
  await page.unroute(unread);
  await decide.click();
  await expect(
    page.getByRole("dialog", { name: "Decide about vulnerabilities of 2 workloads" }),
  ).toBeVisible();
});
