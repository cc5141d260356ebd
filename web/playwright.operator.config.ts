import { defineConfig } from "@playwright/test";
import base from "./playwright.config.ts";

/** Tests of an operator with an API server, which internal/setup/setuptest/decisions starts. */
export default defineConfig({ ...base, testDir: "e2e-operator", workers: 1, expect: { timeout: 30_000 } });
