import { expect, test, type Page } from "@playwright/test";
import { setup } from "./setup.ts";

const { url, token, image, vulnerability } = setup;

async function signIn(page: Page, path: string) {
  await page.goto(url + path);
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByText("Online")).toBeVisible();
}

test("decides about a finding", async ({ page }) => {
  await signIn(page, `/images/${encodeURIComponent(image)}`);
  const finding = page.getByRole("button", { name: new RegExp(`^Details of ${vulnerability}`) });
  await finding.click();
  await page.getByRole("button", { name: "Decide", exact: true }).click();
  const dialog = page.getByRole("dialog", { name: /^Decide about/ });
  await dialog.getByRole("textbox", { name: "Comment" }).fill("Not reachable.");
  await expect(dialog.getByText("1 finding will no longer count, in 1 image.")).toBeVisible();
  await dialog.getByRole("button", { name: "Save" }).click();
  await expect(page.getByText("Exception saved")).toBeVisible();
  await expect(finding).toHaveCount(0);
});

test("ends the decision", async ({ page }) => {
  await signIn(page, "/decisions");
  await page.getByRole("button", { name: /^Details of ClusterVulnerabilityException/ }).click();
  await page.getByRole("button", { name: "End now" }).click();
  await page.getByRole("alertdialog").getByRole("button", { name: "Delete the exception" }).click();
  await expect(page.getByText("No decisions yet")).toBeVisible();
});
