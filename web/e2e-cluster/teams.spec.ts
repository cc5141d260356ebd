import { execFile } from "node:child_process";
import { expect, test, type Browser, type Page } from "@playwright/test";
import { setup, type Team, type User } from "./setup.ts";

const { url, patience, platform } = setup;
const [teamA, teamB] = setup.teams;

/** How long a permission that was revoked, or a session that has ended, may still count. */
const bound = 60_000;

/** How long each step of a sign-in may take before it begins again. */
const attempt = 20_000;

function kubectl(args: string[], input = "") {
  return new Promise<void>((resolve, reject) => {
    const child = execFile("kubectl", [`--kubeconfig=${setup.kubeconfig}`, ...args], (error, _, stderr) =>
      error ? reject(new Error(stderr, { cause: error })) : resolve(),
    );
    child.stdin?.end(input);
  });
}

/** Opens a page in a browser of its own, signs in at the provider, and expects to be where the address leads. */
async function signIn(browser: Browser, user: User, path: string) {
  const context = await browser.newContext();
  const page = await context.newPage();
  const messages: string[] = [];
  page.on("websocket", (socket) =>
    socket.on("framereceived", ({ payload }) => messages.push(payload.toString())),
  );
  const account = page.getByRole("button", { name: /^Account/ });
  const link = page.getByRole("link", { name: "Sign in with Dex" });
  // Chromium ends requests when the addresses of the node change, because a pod starts or ends. Then its user opens the page again.
  await expect(async () => {
    await page.goto(url + path, { timeout: attempt });
    await expect(link.or(account)).toBeVisible({ timeout: attempt });
    if (await link.isVisible()) {
      await link.click({ timeout: attempt });
      await page.locator('input[name="login"]').fill(user.email, { timeout: attempt });
      await page.locator('input[name="password"]').fill(user.password, { timeout: attempt });
      await page.locator('button[type="submit"]').click({ timeout: attempt });
    }
    await expect(account).toBeVisible({ timeout: attempt });
  }).toPass({ timeout: patience });
  expect(page.url()).toBe(url + path);
  return { page, messages };
}

/** Asks the API as the page does: the status and the document. */
const ask = (page: Page, path: string) =>
  page.evaluate(async (path) => {
    const response = await fetch(path);
    return { status: response.status, body: (await response.json()) as unknown };
  }, path);

async function list<Row>(page: Page, path: string): Promise<Row[]> {
  const { status, body } = await ask(page, path);
  expect(status).toBe(200);
  const { items, total } = body as { items: Row[]; total: number };
  expect(items).toHaveLength(total);
  return items;
}

interface Counts {
  critical: number;
  high: number;
}

/** Expects that a team sees its own images, workloads and findings, and nothing of the other team. */
async function expectOwn(page: Page, team: Team, other: Team) {
  const images = await list<{ imageId: string; counts: Counts }>(page, "/api/v1/images");
  expect(images.map(({ imageId }) => imageId).sort()).toEqual([...team.images].sort());
  const overview = (await ask(page, "/api/v1/overview")).body as {
    images: { scanned: number };
    counts: Counts;
  };
  expect(overview.images.scanned).toBe(team.images.length);
  for (const severity of ["critical", "high"] as const)
    expect(overview.counts[severity]).toBe(images.reduce((sum, { counts }) => sum + counts[severity], 0));
  for (const kind of ["workloads", "coverage"]) {
    const rows = await list<{ workload: { namespace: string } }>(page, `/api/v1/${kind}`);
    expect(new Set(rows.map(({ workload }) => workload.namespace))).toEqual(new Set([team.namespace]));
  }
  for (const { images: affected } of await list<{ images: number }>(page, "/api/v1/vulnerabilities"))
    expect(affected).toBeLessThanOrEqual(team.images.length);
  const [foreign = ""] = other.images.filter((imageId) => !team.images.includes(imageId));
  expect((await ask(page, `/api/v1/images/${encodeURIComponent(foreign)}/findings`)).status).toBe(404);
  await page.goto(`${url}/images/${encodeURIComponent(foreign)}`);
  await expect(page.getByRole("heading", { name: "Image not found" })).toBeVisible();
  await expect(
    page.getByText(new RegExp(`^You see 1 of \\d+ namespaces: ${team.namespace}\\.`)),
  ).toBeVisible();
  await page.goto(`${url}/images`);
  await expect(page.getByText(`${team.images.length} images`, { exact: true })).toBeVisible();
  await expect(page.getByText("Online")).toBeVisible();
}

test("two teams and the platform team", async ({ browser }) => {
  const a = await signIn(browser, teamA.user, `/workloads?namespace=${teamA.namespace}&sort=name#main`);
  const b = await signIn(browser, teamB.user, "/coverage?state=Scanned");
  const all = await signIn(browser, platform, "/");
  await expectOwn(a.page, teamA, teamB);
  await expectOwn(b.page, teamB, teamA);
  const everything = await list<{ imageId: string }>(all.page, "/api/v1/images?text=teams/");
  expect(new Set(everything.map(({ imageId }) => imageId))).toEqual(
    new Set([...teamA.images, ...teamB.images]),
  );
  await expect(all.page.getByText("Online")).toBeVisible();

  await test.step("live", async () => {
    await Promise.all(
      [teamA, teamB].map(({ namespace, pod }) =>
        kubectl([`--namespace=${namespace}`, "apply", "-f", "-"], pod),
      ),
    );
    for (const [{ messages }, ...seen] of [
      [all, teamA, teamB],
      [a, teamA],
      [b, teamB],
    ] as const)
      for (const { podImage } of seen)
        await expect.poll(() => messages, { timeout: patience }).toContain(JSON.stringify(podImage));
    for (const [{ page, messages }, own, other] of [
      [a, teamA, teamB],
      [b, teamB, teamA],
    ] as const) {
      await expect(page.getByText(`${own.images.length + 1} images`, { exact: true })).toBeVisible();
      const text = messages.join("\n");
      for (const hidden of [other.podImage, other.namespace]) expect(text).not.toContain(hidden);
    }
  });

  await test.step("revoked, and signed out everywhere", async () => {
    const elsewhere = await signIn(browser, teamB.user, "/packages?name=log4j-core");
    await expect(elsewhere.page.getByText("Online")).toBeVisible();
    await kubectl([`--namespace=${teamA.namespace}`, "delete", "rolebinding", "reads-results"]);
    const revoked = expect
      .poll(async () => (await ask(a.page, "/api/v1/images")).status, { timeout: bound })
      .toBe(403);

    await b.page.getByRole("button", { name: /^Account/ }).click();
    await b.page.getByRole("button", { name: "Sign out everywhere" }).click();
    // The provider sends the browser back.
    await b.page.waitForURL(`${url}/`);
    await expect(b.page.getByRole("link", { name: "Sign in with Dex" })).toBeVisible();
    await expect
      .poll(async () => (await ask(elsewhere.page, "/api/v1/images")).status, { timeout: bound })
      .toBe(401);
    await expect(elsewhere.page.getByRole("link", { name: "Sign in with Dex" })).toBeVisible();
    expect(new URL(elsewhere.page.url()).search).toBe("?name=log4j-core");

    await revoked;
    await expect(a.page.getByRole("heading", { name: "You have no access to results" })).toBeVisible();
    await expect(a.page.getByText(`--as=${teamA.user.email}`)).toBeVisible();
  });
});
