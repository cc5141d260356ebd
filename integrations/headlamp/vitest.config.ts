import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    environment: "jsdom",
    include: ["src/**/*.test.{ts,tsx}"],
    // Testing Library unmounts what a test rendered.
    globals: true,
    // The storage of Node.js hides that of jsdom.
    pool: "forks",
    poolOptions: { forks: { execArgv: ["--no-experimental-webstorage"] } },
    restoreMocks: true,
    testTimeout: 60_000,
    // Headlamp's modules import each other without file extensions, which Node.js does not resolve.
    server: { deps: { inline: [/@kinvolk\/headlamp-plugin/] } },
  },
});
