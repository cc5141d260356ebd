import type { Page } from "@playwright/test";

/** What a page has recorded since the last reset. */
export interface Recorded {
  frames: number[];
  /** The time until the next paint of each interaction that took at least 16 ms, by its number. */
  interactions: Record<number, number>;
  /** How many interactions there were. */
  count: number;
  shifts: { value: number; at: number; what: string[] }[];
  requests: { path: string; took: number }[];
}

interface Recorder {
  recorded: Recorded;
  scrolling: boolean;
  /** The number of interactions at the last reset. */
  before: number;
  /** Waits for the next frame; false if none comes. */
  frame: () => Promise<boolean>;
}

declare global {
  interface Window {
    recorder?: Recorder;
  }
}

interface ShiftEntry extends PerformanceEntry {
  value: number;
  hadRecentInput: boolean;
  sources?: { node: Node | null; previousRect: DOMRect; currentRect: DOMRect }[];
}

interface InteractionEntry extends PerformanceEntry {
  interactionId: number;
}

/** Interactions that were shorter than the entries that browsers make: it is what they count as, in milliseconds. */
const shortest = 16;

/** Lets each document record frames, interactions, layout shifts without recent input, and requests. */
export async function record(page: Page) {
  await page.addInitScript(() => {
    const empty = (): Recorded => ({ frames: [], interactions: {}, count: 0, shifts: [], requests: [] });
    const frame = () =>
      new Promise<boolean>((resolve) => {
        requestAnimationFrame(() => resolve(true));
        setTimeout(() => resolve(false), 10_000);
      });
    const recorder: Recorder = { recorded: empty(), scrolling: false, before: 0, frame };
    window.recorder = recorder;
    const observe = (type: string, options: object, add: (entry: PerformanceEntry) => void) => {
      new PerformanceObserver((list) => list.getEntries().forEach(add)).observe({
        type,
        buffered: true,
        ...options,
      });
    };
    observe("layout-shift", {}, (entry) => {
      const { value, hadRecentInput, sources } = entry as ShiftEntry;
      if (hadRecentInput) return;
      const what = (sources ?? []).map(({ node, previousRect: from, currentRect: to }) => {
        const name = node instanceof Element ? node.outerHTML.slice(0, 160) : (node?.textContent ?? "");
        return `${from.x},${from.y} to ${to.x},${to.y}: ${name}`;
      });
      recorder.recorded.shifts.push({ value, at: entry.startTime, what });
    });
    observe("event", { durationThreshold: 16 }, (entry) => {
      const { interactionId, duration } = entry as InteractionEntry;
      const { interactions } = recorder.recorded;
      if (interactionId > 0) {
        interactions[interactionId] = Math.max(interactions[interactionId] ?? 0, duration);
      }
    });
    performance.setResourceTimingBufferSize(100_000);
    observe("resource", {}, (entry) => {
      const { name, requestStart, responseEnd } = entry as PerformanceResourceTiming;
      const { pathname } = new URL(name);
      if (!pathname.startsWith("/api/") || requestStart === 0) return;
      recorder.recorded.requests.push({ path: pathname, took: responseEnd - requestStart });
    });
    let last = 0;
    const note = (now: number) => {
      if (recorder.scrolling && last > 0) recorder.recorded.frames.push(now - last);
      last = recorder.scrolling ? now : 0;
      requestAnimationFrame(note);
    };
    requestAnimationFrame(note);
  });
}

/** Takes what was recorded, and begins anew; undefined if Chromium draws no frames. */
export const take = (page: Page) =>
  page.evaluate(async () => {
    const { recorder } = window;
    if (!recorder) throw new Error("the page records nothing");
    // Entries of the last frame come after it.
    for (let frames = 0; frames < 3; frames++) if (!(await recorder.frame())) return undefined;
    const { interactionCount } = performance as unknown as { interactionCount: number };
    const recorded = { ...recorder.recorded, count: interactionCount - recorder.before };
    recorder.before = interactionCount;
    recorder.recorded = { frames: [], interactions: {}, count: 0, shifts: [], requests: [] };
    return recorded;
  });

/** The times of all interactions, also of those that were too short for an entry. */
export const interactionTimes = ({ interactions, count }: Recorded) => {
  const times = Object.values(interactions);
  return [...times, ...Array<number>(Math.max(0, count - times.length)).fill(shortest)];
};

/** Records the times between frames during some work. */
export async function whileScrolling<Result>(page: Page, work: () => Promise<Result>) {
  const set = (scrolling: boolean) =>
    page.evaluate((value) => {
      if (window.recorder) window.recorder.scrolling = value;
    }, scrolling);
  await set(true);
  try {
    return await work();
  } finally {
    await set(false);
  }
}
