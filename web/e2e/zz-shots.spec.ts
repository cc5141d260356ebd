import { test } from "./fixtures.ts";
const owned = { sums: { owners: true } };
for (const [name, path] of [
  ["workloads", "/workloads"],
  ["filtered", "/workloads?owner=Payments"],
  ["none", "/workloads?noOwner=true"],
  ["owners", "/workloads?group=owners"],
  ["coverage", "/coverage"],
  ["affected", "/vulnerabilities/CVE-2021-44228"],
] as const)
  test(`shot ${name}`, async ({ page, open }) => {
    for (const [mode, width, scheme] of [
      ["light", 1280, "light"],
      ["dark", 1280, "dark"],
      ["narrow", 390, "light"],
    ] as const) {
      await page.setViewportSize({ width, height: 800 });
      await page.emulateMedia({ colorScheme: scheme });
      await open(owned, path);
      await page.waitForTimeout(1500);
      if (name === "affected") await page.getByText("Affected images").first().scrollIntoViewIfNeeded();
      await page.screenshot({ path: `/tmp/ow/shot-${name}-${mode}.png` });
    }
  });
