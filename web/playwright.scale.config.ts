import { defineConfig } from "@playwright/test";
import base, { unoptimized } from "./playwright.config.ts";

/** Tests with thousands of images in a real server, which test/uiscale starts. One after the other: they measure. */
export default defineConfig({
  ...base,
  testDir: "e2e-scale",
  fullyParallel: false,
  workers: 1,
  timeout: 10 * 60_000,
  // In another browser, and only if Chromium drew no frames: see e2e-scale/fixtures.ts.
  retries: 1,
  // What is measured is the browser of users.
  use: {
    ...base.use,
    launchOptions: {
      ...base.use?.launchOptions,
      args: base.use?.launchOptions?.args?.filter((flag) => flag !== unoptimized),
    },
  },
});
