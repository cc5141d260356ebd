import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "@/app/app";
import { createQueryClient } from "@/app/query-client";
import { reloadOnce } from "@/app/reload";
import { createRouter } from "@/app/router";
import { movedTo } from "@/lib/base-path";
import { watchTheme } from "@/lib/theme";
import "@/app/styles.css";

const root = document.getElementById("root");
if (!root) throw new Error("the page lacks its root element");

// Cookies and addresses are those below the base path: a port-forward shows the page without it.
const moved = movedTo(window.location);
if (moved !== undefined) {
  window.location.replace(moved);
} else {
  // Vite's event for parts that cannot be loaded.
  window.addEventListener("vite:preloadError", () => reloadOnce());
  watchTheme();
  createRoot(root).render(
    <StrictMode>
      <App client={createQueryClient()} router={createRouter()} />
    </StrictMode>,
  );
}
