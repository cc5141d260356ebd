import { useSyncExternalStore } from "react";

export type Theme = "light" | "dark" | "system";

const storageKey = "scanner-operator.theme";
const listeners = new Set<() => void>();
const systemDark = () => window.matchMedia("(prefers-color-scheme: dark)");

function read(): Theme {
  try {
    const value = localStorage.getItem(storageKey);
    return value === "light" || value === "dark" ? value : "system";
  } catch {
    return "system";
  }
}

function apply() {
  const theme = read();
  const dark = theme === "dark" || (theme === "system" && systemDark().matches);
  document.documentElement.classList.toggle("dark", dark);
  for (const listener of listeners) listener();
}

export function setTheme(theme: Theme) {
  try {
    localStorage.setItem(storageKey, theme);
  } catch {
    // Private windows may refuse storage: the choice then lasts as long as the page.
    document.documentElement.classList.toggle("dark", theme === "dark");
    return;
  }
  apply();
}

/** Follows the system and other tabs; returns how to stop. */
export function watchTheme(): () => void {
  const media = systemDark();
  const onStorage = (event: StorageEvent) => {
    if (event.key === storageKey) apply();
  };
  media.addEventListener("change", apply);
  window.addEventListener("storage", onStorage);
  return () => {
    media.removeEventListener("change", apply);
    window.removeEventListener("storage", onStorage);
  };
}

const subscribe = (listener: () => void) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};

export const useTheme = () => useSyncExternalStore(subscribe, read);
