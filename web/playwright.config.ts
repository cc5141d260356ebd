import { existsSync } from "node:fs";
import { defineConfig } from "@playwright/test";

// The browser comes from the distribution; CHROMIUM names another one. The one without a user interface needs half the time.
const installed = ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium"];
const browser = process.env.CHROMIUM ?? installed.find(existsSync);

/** Pages of these tests live for seconds: V8's optimizing compiler takes more processor time than it saves. */
export const unoptimized = "--js-flags=--no-opt";

/** Tests of the pictures in docs/images. */
const documentation = /the documentation shows/;

export default defineConfig({
  testDir: "e2e",
  fullyParallel: true,
  workers: "100%",
  // Tests take up to 24 seconds on two processors, those that are slow up to 32; no limit is nearer than four times that.
  timeout: 120_000,
  forbidOnly: Boolean(process.env.CI),
  reporter: "list",
  // Beside other steps of "make test", as the hostile corpus is, Chromium has stood still for more than ten seconds.
  expect: {
    timeout: 30_000,
    toHaveScreenshot: { maxDiffPixelRatio: 0.001 },
  },
  snapshotPathTemplate: "{testDir}/screenshots/{arg}{ext}",
  projects: [
    { name: "ui", grepInvert: documentation },
    {
      name: "documentation",
      grep: documentation,
      testMatch: "screenshots.spec.ts",
      snapshotPathTemplate: "{testDir}/../../docs/images/{arg}{ext}",
    },
  ],
  use: {
    browserName: "chromium",
    viewport: { width: 1440, height: 900 },
    // Traces double the time of all tests: "npm run e2e -- --trace retain-on-failure" makes them.
    trace: "off",
    launchOptions: {
      executablePath: browser,
      args: [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        unoptimized,
      ],
    },
  },
});
