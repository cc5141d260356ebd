import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

export default defineConfig({
  plugins: [react()],
  resolve: { alias: { "@": fileURLToPath(new URL("./src", import.meta.url)) } },
  server: { fs: { allow: [".."] } },
  test: {
    environment: "jsdom",
    // Node's own localStorage, undefined without a file, would hide the one of jsdom.
    execArgv: ["--no-experimental-webstorage"],
    // With what the Headlamp plugin does without Headlamp; "make test-headlamp" tests the rest.
    include: ["src/**/*.test.{ts,tsx}", "../integrations/headlamp/src/**/*.test.ts"],
    setupFiles: ["./src/test/setup.ts"],
    // A window for each file took five sixths of the time; the setup resets the one that they share.
    isolate: false,
    restoreMocks: true,
    testTimeout: 60_000,
    css: false,
  },
});
