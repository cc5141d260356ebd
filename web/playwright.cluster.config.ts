import { defineConfig } from "@playwright/test";
import { setup } from "./e2e-cluster/setup.ts";
import base from "./playwright.config.ts";

const { launchOptions } = base.use ?? {};
const { hostname } = new URL(setup.url);

/** Tests in a cluster with an operator and an identity provider, which test/e2e prepares. */
export default defineConfig({
  ...base,
  testDir: "e2e-cluster",
  timeout: 20 * 60_000,
  expect: { timeout: setup.patience },
  use: {
    ...base.use,
    // The CA of the operator and that of the provider are not installed on this machine.
    ignoreHTTPSErrors: true,
    launchOptions: {
      ...launchOptions,
      args: [...(launchOptions?.args ?? []), `--host-resolver-rules=MAP ${hostname} ${setup.address}`],
    },
  },
});
