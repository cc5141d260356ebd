import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "@/app/app";
import { createQueryClient } from "@/app/query-client";
import { createRouter } from "@/app/router";
import { watchTheme } from "@/lib/theme";
import "@/app/styles.css";

const root = document.getElementById("root");
if (!root) throw new Error("the page lacks its root element");

watchTheme();
createRoot(root).render(
  <StrictMode>
    <App client={createQueryClient()} router={createRouter()} />
  </StrictMode>,
);
