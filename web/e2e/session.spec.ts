import { token, users } from "../mock/users.ts";
import { expect, expectFits, signIn, test } from "./fixtures.ts";

const [alice, bob, carol, dora] = users.map(({ user }) => user);

test("signs in with a token and out again", async ({ page, open }) => {
  await open({ auth: "kubernetes" }, "/images?q=nginx");
  await expect(page.getByText("kubectl create token NAME --audience scanner-operator")).toBeVisible();
  await page.getByLabel("Token").fill("wrong");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("alert")).toContainText("The token was not accepted");
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByRole("searchbox")).toHaveValue("nginx");
  await expect(page.getByText("Online")).toBeVisible();
  await page.getByRole("button", { name: "Account" }).click();
  await page.getByRole("button", { name: "Sign out" }).click();
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

test("signs in with the provider, and returns to the page, the filters and the position", async ({
  page,
  open,
}) => {
  await open(
    { auth: "kubernetes", provider: "available" },
    "/coverage?namespace=payments&state=Scanned#main",
  );
  await signIn(page, alice);
  await expect(page.getByRole("tab", { name: /^Scanned/, selected: true })).toBeVisible();
  await expect(page.getByRole("textbox", { name: "Namespace" })).toHaveValue("payments");
  expect(new URL(page.url()).hash).toBe("#main");
  await page.getByRole("button", { name: "Account: Alice Example" }).click();
  const account = page.getByRole("dialog", { name: "Alice Example" });
  await expect(account).toContainText("You see 3 of 40 namespaces.");
  await expect(account).toContainText("monitoring, payments, web");
  await expect(account).toContainText("oidc:payments, oidc:staff");
  await page.keyboard.press("Escape");
  await expect(account).toBeHidden();
});

test("shows who is signed in at a front proxy, and leaves signing out to it", async ({ page, open }) => {
  const frontProxy = users[0];
  await open({ auth: "kubernetes", frontProxy });
  await page.getByRole("button", { name: "Account: Alice Example" }).click();
  const account = page.getByRole("dialog", { name: "Alice Example" });
  await expect(account).toContainText("the proxy in front of the operator");
  await expect(account).toContainText("Sign out there");
  await expect(account.getByRole("button", { name: /Sign out/ })).toHaveCount(0);
});

test("offers what the user may do", async ({ page, open }) => {
  await open({ auth: "kubernetes", provider: "available" }, "/database");
  await signIn(page, alice);
  await expect(page.getByRole("heading", { name: "Vulnerability database" })).toBeVisible();
  await expect(page.getByRole("heading", { name: "What changed" })).toBeVisible();
  await expect(page.getByRole("button", { name: "Match again" })).toHaveCount(0);
  await page.getByRole("button", { name: /^Account/ }).click();
  await page.getByRole("button", { name: "Sign out", exact: true }).click();
  await signIn(page, dora);
  await expect(page.getByRole("button", { name: "Match again" })).toBeVisible();
});

test("says why lists are empty", async ({ page, open }) => {
  await open({ auth: "kubernetes", provider: "available" });
  await signIn(page, bob);
  await expect(page.getByRole("heading", { name: "No images in your namespaces" })).toBeVisible();
  await expect(page.getByText("You see 1 of 40 namespaces: sandbox.")).toBeVisible();
  for (const [path, title] of [
    ["vulnerabilities", "No vulnerabilities in your namespaces"],
    ["packages", "No packages in your namespaces"],
    ["workloads", "No workloads in your namespaces"],
    ["rollouts", "No rollouts in your namespaces"],
    ["coverage", "No containers in your namespaces"],
    ["coverage?state=Failed", "No container in your namespaces is Failed"],
    ["workloads?namespace=payments", "No workload matches"],
    ["images/nothing", "Image not found"],
  ] as const) {
    await page.goto(new URL(`/${path}`, page.url()).href);
    await expect(page.getByRole("heading", { name: title })).toBeVisible();
  }
  await expect(page.getByText("You see 1 of 40 namespaces: sandbox.")).toBeVisible();
});

test("says which permission is missing", async ({ page, open }) => {
  const operator = await open({ auth: "kubernetes", provider: "available" }, "/workloads");
  await signIn(page, carol);
  await expect(page.getByRole("heading", { name: "You have no access to results" })).toBeVisible();
  await expect(page.getByText("--as=carol@example.com --as-group=oidc:new")).toBeVisible();
  expect(operator.requests.filter((request) => !request.includes("/session"))).toEqual([]);
  // The permission is granted.
  operator.users.grant(carol, { user: carol ?? "", namespaces: ["payments"] });
  await page.getByRole("button", { name: "Check again" }).click();
  await expect(page.getByRole("heading", { name: "Workloads", level: 1 })).toBeVisible();
});

test("offers what the user may do with each image, and says why not", async ({ page, open }) => {
  const erin = { user: "erin", namespaces: ["payments", "web"], canDelete: true, canUpdate: true };
  const operator = await open(
    { auth: "kubernetes", provider: "available", users: [{ ...erin, changesIn: ["payments"] }] },
    "/images?sort=imageId",
  );
  const runners = (imageId: string) =>
    operator.sums.workloads
      .filter(({ images }) => images.some((image) => image.imageId === imageId))
      .map(({ workload }) => workload.namespace);
  const images = operator.images.map(({ imageId }) => imageId);
  const own = images.find((imageId) => {
    const all = runners(imageId);
    return all.includes("payments") && !all.includes("web");
  });
  const other = images.find((imageId) => runners(imageId).includes("web"));
  if (!own || !other) throw new Error("no such images");
  await signIn(page, "erin");
  await expect(page.getByText(/^\d+ images$/)).toBeVisible();

  // In the list, the dialog says it.
  await page.getByRole("button", { name: `Remove the scan result of ${other}` }).click();
  const dialog = page.getByRole("alertdialog");
  await expect(dialog.getByText("You may not remove this result")).toBeVisible();
  await expect(dialog.getByRole("button", { name: "Remove" })).toBeDisabled();
  await expectFits(page);
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: `Remove the scan result of ${own}` }).click();
  await expect(dialog.getByRole("button", { name: "Remove" })).toBeEnabled();
  await page.keyboard.press("Escape");

  for (const [imageId, permitted] of [
    [own, true],
    [other, false],
  ] as const) {
    await page.goto(new URL(`/images/${encodeURIComponent(imageId)}`, page.url()).href);
    for (const name of ["Scan again", "Remove"])
      await expect(page.getByRole("button", { name })).toBeEnabled({ enabled: permitted });
    await expect(page.getByText("You may not")).toHaveCount(permitted ? 0 : 2);
  }
  await expectFits(page);
});

test("does not offer to change an image that also runs where the user sees nothing", async ({
  page,
  open,
}) => {
  const frank = { user: "frank", namespaces: ["payments"], canDelete: true, canUpdate: true };
  const operator = await open({ auth: "kubernetes", provider: "available", users: [frank] }, "/images");
  const shared = operator.images.find(({ imageId }) => {
    const runners = operator.sums.workloads
      .filter(({ images }) => images.some((image) => image.imageId === imageId))
      .map(({ workload }) => workload.namespace);
    return runners.includes("payments") && runners.some((name) => name !== "payments");
  });
  if (!shared) throw new Error("no image runs in two namespaces");
  await signIn(page, "frank");
  await expect(page.getByText(/^\d+ images$/)).toBeVisible();
  await page.goto(new URL(`/images/${encodeURIComponent(shared.imageId)}`, page.url()).href);
  for (const name of ["Scan again", "Remove"])
    await expect(page.getByRole("button", { name })).toHaveAccessibleDescription(
      /also in those that you do not see/,
    );
  await expect(page.getByRole("button", { name: "Remove" })).toBeDisabled();
});

test("signs out in all tabs and browsers", async ({ page, open, browser }) => {
  const operator = await open({ auth: "kubernetes", provider: "available" }, "/workloads");
  await signIn(page, alice);
  await expect(page.getByRole("button", { name: /^Account/ })).toBeVisible();
  const tab = await page.context().newPage();
  await tab.goto(new URL("/packages", page.url()).href);
  await expect(tab.getByRole("button", { name: /^Account/ })).toBeVisible();
  const phone = await browser.newContext();
  const other = await phone.newPage();
  await other.goto(new URL("/coverage?q=a", page.url()).href);
  await signIn(other, alice);
  await expect(other.getByText("Online")).toBeVisible();

  await page.getByRole("button", { name: /^Account/ }).click();
  await page.getByRole("button", { name: "Sign out everywhere" }).click();
  await expect(page.getByLabel("Token")).toBeVisible();
  // The other tab is told; the other browser learns it when its WebSocket is closed.
  await expect(tab.getByLabel("Token")).toBeVisible();
  operator.disconnect();
  await expect(other.getByLabel("Token")).toBeVisible();

  // Another user in one tab is the user of all tabs.
  await signIn(tab, dora);
  await expect(page.getByRole("button", { name: "Account: Dora" })).toBeVisible();
  expect(new URL(page.url()).pathname).toBe("/workloads");
  await tab.close();
  await phone.close();
});
