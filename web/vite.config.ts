import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import tailwindcss from "@tailwindcss/vite";
import { defineConfig, type Plugin } from "vite";
import { mockPlugin } from "./mock/plugin.ts";

const path = (relative: string) => fileURLToPath(new URL(relative, import.meta.url));

/** Vite empties dist; .keep is tracked, so that the Go package that embeds dist builds without Node. */
const keep: Plugin = {
  name: "keep",
  apply: "build",
  closeBundle: () => writeFileSync(path("./dist/.keep"), ""),
};

// `npm run dev` talks to an operator at OPERATOR_URL; `npm run dev -- --mode mock` needs none.
const operator = process.env.OPERATOR_URL ?? "http://localhost:8000";

export default defineConfig(({ mode }) => ({
  plugins: [react(), tailwindcss(), keep, ...(mode === "mock" ? [mockPlugin()] : [])],
  resolve: { alias: { "@": path("./src") } },
  // Relative addresses: the operator puts the base path before those of the page.
  base: "./",
  build: {
    target: "es2023",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      output: {
        codeSplitting: {
          groups: [{ name: "react", test: /node_modules[\\/](react|react-dom|react-router|scheduler)[\\/]/ }],
        },
      },
    },
  },
  server:
    mode === "mock"
      ? {}
      : {
          proxy: {
            "/api": { target: operator, ws: true },
            "/scan-results": operator,
            "/subscribe": { target: operator, ws: true },
          },
        },
}));
