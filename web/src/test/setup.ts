import "@testing-library/jest-dom/vitest";
import { cleanup, configure } from "@testing-library/react";
import { afterEach, vi } from "vitest";

// Slow machines take longer than the second of the default.
configure({ asyncUtilTimeout: 10_000 });

afterEach(() => cleanup());

// Files share a window: each begins with one in which others have left nothing.
vi.restoreAllMocks();
vi.unstubAllGlobals();
vi.useRealTimers();
document.body.replaceChildren();
document.documentElement.removeAttribute("class");
window.history.replaceState(null, "", "/");
window.localStorage.clear();
window.sessionStorage.clear();

// jsdom lays nothing out: these are what the page asks a browser for.
vi.stubGlobal("matchMedia", (query: string) => ({
  matches: false,
  media: query,
  addEventListener: () => undefined,
  removeEventListener: () => undefined,
}));
vi.stubGlobal(
  "ResizeObserver",
  class {
    observe() {
      return undefined;
    }
    unobserve() {
      return undefined;
    }
    disconnect() {
      return undefined;
    }
  },
);
window.scrollTo = () => undefined;
