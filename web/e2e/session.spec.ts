import { token } from "../mock/server.ts";
import { expect, test } from "./fixtures.ts";

test("signs in with a token and out again", async ({ page, open }) => {
  await open({ auth: "kubernetes" }, "/?q=nginx");
  await expect(page.getByText("kubectl create token NAME --audience scanner-operator")).toBeVisible();
  await page.getByLabel("Token").fill("wrong");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("alert")).toContainText("The token was not accepted");
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByRole("searchbox")).toHaveValue("nginx");
  await expect(page.getByText("Online")).toBeVisible();
  await page.getByRole("button", { name: "Account" }).click();
  await page.getByRole("menuitem", { name: "Sign out" }).click();
  await expect(page.getByLabel("Token")).toBeVisible();
});

test("a 401 anywhere leads to the sign-in page", async ({ page, open }) => {
  const operator = await open({ auth: "kubernetes" });
  await page.getByLabel("Token").fill(token);
  await page.keyboard.press("Enter");
  await expect(page.getByText("120 images")).toBeVisible();
  await page.context().clearCookies();
  operator.publish(operator.images[0]?.imageId ?? "");
  await expect(page.getByLabel("Token")).toBeVisible();
});
