import { useSyncExternalStore } from "react";

const interval = 15_000;
const listeners = new Set<() => void>();
let now = Date.now();
let timer: number | undefined;

function tick() {
  now = Date.now();
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void) {
  listeners.add(listener);
  if (timer === undefined) {
    now = Date.now();
    timer = window.setInterval(tick, interval);
  }
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      window.clearInterval(timer);
      timer = undefined;
    }
  };
}

/** The time, one shared tick for all relative times on the page. */
export const useNow = () => useSyncExternalStore(subscribe, () => now);
