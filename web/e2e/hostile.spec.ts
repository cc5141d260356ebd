import type { Page, Route } from "@playwright/test";
import { generator } from "../mock/data.ts";
import type { RolloutOperator } from "../mock/operator.ts";
import { detailPath, expect, test } from "./fixtures.ts";

// Part of the hostile corpus: "make hostile" counts these tests. Every string of every answer of the API is replaced.

/** What images, registries, databases and other tenants may make of a string. */
const texts = Object.values({
  scripts: [
    "<script>window.__xss = 1</script>",
    `"><img src=x onerror="window.__xss = 1">`,
    "<svg/onload=window.__xss=1>",
    `</title></textarea><iframe srcdoc="<script>parent.__xss=1</script>">`,
    "javascript:window.__xss=1",
    "data:text/html,<script>window.__xss=1</script>",
    "https://evil.example/'onmouseover='window.__xss=1",
    "{{constructor.constructor('window.__xss=1')()}}",
    "__proto__",
    "constructor",
    "../../../api/v1/session?x=#y",
    "%2e%2e%2f%00%zz",
  ],
  "entities and styles": [
    "&lt;b&gt;bold&lt;/b&gt;",
    "&amp;amp;&#x3c;&#60;&nbsp;&shy;",
    "<b>bold</b><style>*{display:none}</style>",
    "</div></main></body></html>",
    "<!-- ",
    "<![CDATA[",
    "url(//evil.example)",
    "expression(alert(1))",
  ],
  directions: [
    "\u202egnp.exe",
    "\u2066\u2067isolated\u2068",
    "\u200f\u061c\u200e",
    "مرحبا بالعالم " + "א".repeat(80),
    "abc\u202dאבג\u202ecba",
  ],
  "control characters": [
    "a\u0000b\u0007c\u001b[31mred",
    "line\nline\r\nline\ttab\u2028\u2029",
    "zero\u200bwidth\u200d\ufeff\u00ad\u2060",
    "\ud800 half of a pair \udfff",
    "\uffff\ufffe",
    "\u0085\u009b",
  ],
  "long words": ["W".repeat(300), "i".repeat(5000), "_".repeat(1200), "界".repeat(2000), "/a".repeat(1500)],
  "long sentences": ["many words ".repeat(600), "- ".repeat(2000), "a\n".repeat(1500), "\u00a0".repeat(3000)],
  "emoji and marks": [
    "👩‍👩‍👧‍👦".repeat(200),
    "🏴‍☠️💣🧨",
    "Z" + "\u0300\u0301\u0302\u0303\u0304".repeat(200),
    "\u{1f1e6}".repeat(301),
    "\u{e0001}\u{e0020}\u{e007f}",
    "﷽".repeat(100),
  ],
  nothing: ["", " ", "\u00a0", "0", "null", "undefined", "NaN", "-1"],
}).flat();

/** What the operator itself chooses: not even a hostile image has a say in it. */
const own = new Set(["auth", "nextPageToken", "state", "severity", "source", "stage", "day", "from", "to"]);
const kinds = new Set(["opened", "closed", "changed"]);

/** Replaces all strings of a document, in each place by another one of them. */
function fill(value: unknown, random: () => number, key = ""): unknown {
  if (typeof value === "string") {
    if (own.has(key) || (key === "kind" && kinds.has(value))) return value;
    return texts[Math.floor(random() * texts.length)];
  }
  if (Array.isArray(value)) return value.map((item) => fill(item, random));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, fill(member, random, name)]),
  );
}

/** Makes the API hostile for as long as the page shows it, and counts what it asks of anybody else. */
async function poison(page: Page) {
  const faults: string[] = [];
  const random = generator(12);
  const handle = async (route: Route) => {
    const response = await route.fetch();
    const body: unknown = await response.json().catch(() => undefined);
    await (body === undefined
      ? route.fulfill({ response })
      : route.fulfill({ response, json: fill(body, random) }));
  };
  await page.route(/\/api\/v1\//, handle);
  const { host } = new URL(page.url());
  page.on("request", (request) => {
    if (![host, ""].includes(new URL(request.url()).host)) faults.push(`request for ${request.url()}`);
  });
  page.on("dialog", (dialog) => {
    faults.push(`dialog ${dialog.message()}`);
    void dialog.dismiss();
  });
  return async () => {
    await page.unrouteAll({ behavior: "ignoreErrors" });
    page.removeAllListeners("request");
    page.removeAllListeners("dialog");
    expect(faults).toEqual([]);
  };
}

/** Asserts that nothing of the text became markup, none of it is hidden, and all of it stays in its place. */
async function expectHarmless(page: Page) {
  const found = await page.evaluate(() => {
    const hidden =
      /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/; // eslint-disable-line no-control-regex
    const shown: string[] = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const text = (node.textContent ?? "").replaceAll("\u200d", "");
      if (hidden.test(text)) shown.push(text.slice(0, 60));
    }
    const rows = Array.from(document.querySelectorAll("[role=row], main li, main article, h1"));
    return {
      executed: "__xss" in window,
      markup: document.querySelectorAll(
        "a[href^='javascript' i], a[href^='data' i], main img, iframe, main script, main style, main textarea",
      ).length,
      hidden: shown,
      wide: document.documentElement.scrollWidth - window.innerWidth,
      high: rows
        .map((row) => ({ height: row.getBoundingClientRect().height, text: row.textContent.slice(0, 60) }))
        .filter(({ height }) => height > 2 * window.innerHeight),
      header: document.querySelector("header")?.getBoundingClientRect().height ?? 0,
    };
  });
  expect(found.executed).toBe(false);
  expect(found.markup).toBe(0);
  expect(found.hidden).toEqual([]);
  expect(found.wide).toBeLessThanOrEqual(0);
  expect(found.high).toEqual([]);
  expect(found.header).toBeLessThan(300);
}

const pages: Record<string, (operator: RolloutOperator) => string> = {
  overview: () => "/",
  images: () => "/images",
  "an image": ({ images }) => detailPath(images[0]?.imageId ?? ""),
  "a failed image": ({ images }) => detailPath(images.find(({ state }) => state === "Failed")?.imageId ?? ""),
  "where an image ran": ({ images }) => `${detailPath(images[0]?.imageId ?? "")}?tab=presences`,
  "packages of an image": ({ images }) => {
    const image = images.find(({ source, base }) => source === "Registry" && base);
    return `${detailPath(image?.imageId ?? "")}?tab=packages&layer=${image?.base?.layers ?? 1}`;
  },
  "newer tags of an image": ({ images }) =>
    `${detailPath(images.find(({ state }) => state === "Scanned")?.imageId ?? "")}?tab=newer-tags`,
  ...Object.fromEntries(
    ["layers", "history", "sbom"].map((tab) => [
      `the tab ${tab} of an image`,
      ({ images }: RolloutOperator) =>
        `${detailPath(images.find(({ source, base }) => source === "Registry" && base)?.imageId ?? "")}?tab=${tab}`,
    ]),
  ),
  vulnerabilities: () => "/vulnerabilities",
  "a vulnerability": () => "/vulnerabilities/CVE-2021-44228",
  "the timeline of a vulnerability by workload": () =>
    "/vulnerabilities/CVE-2021-44228?time=timeline&by=workload",
  "the timeline of a vulnerability": () => "/vulnerabilities/CVE-2021-44228?time=timeline",
  packages: () => "/packages",
  workloads: () => "/workloads",
  coverage: () => "/coverage",
  fixes: () => "/fixes",
  database: () => "/database",
  rollouts: () => "/rollouts",
  "a rollout": ({ rollouts }) => `/rollouts/${rollouts[0]?.id ?? 0}`,
};

for (const [name, path] of Object.entries(pages)) {
  test(`hostile text in every field: ${name}`, async ({ page, open }) => {
    const few = { vulnerabilities: 24, packages: 24, workloads: 24, containers: 24 };
    const update = { stale: true, lastError: "refused", stage: "download" as const, done: 1, total: 3 };
    const operator = await open({ images: 24, changes: 24, rollouts: 24, sums: few, update });
    const end = await poison(page);
    for (const width of [1440, 390]) {
      await page.setViewportSize({ width, height: 900 });
      await page.goto(new URL(path(operator), page.url()).href);
      await expect(page.getByRole("main")).toBeVisible();
      await expect(page.locator("[aria-busy=true]")).toHaveCount(0);
      const details = page.getByRole("button", { name: /^Details of/, expanded: false }).first();
      if (await details.isVisible()) await details.click();
      await expect(page.locator("[aria-busy=true]")).toHaveCount(0);
      await expectHarmless(page);
    }
    await end();
  });
}

for (const status of [400, 401]) {
  test(`hostile text in a refusal: ${status}`, async ({ page, open }) => {
    await open({ fail: (path) => (path.includes("session") ? undefined : status) });
    const end = await poison(page);
    await page.reload();
    await expect(page.getByRole("alert").or(page.getByLabel("Token"))).toBeVisible();
    await expectHarmless(page);
    await end();
  });
}
