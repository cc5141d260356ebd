const interval = 500;
const maxNames = 50;

export interface Batch {
  /** The names since the last batch. */
  names: string[];
  /** There were more names than a batch carries. */
  overflow: boolean;
}

/**
 * Gathers names and hands them on at most once per half second; while the document is hidden it waits until it is
 * looked at again.
 */
export class Coalescer {
  #flush: (batch: Batch) => Promise<unknown>;
  #names = new Set<string>();
  #overflow = false;
  #timer: number | undefined;
  #busy = false;
  #last = -Infinity;
  #notBefore = -Infinity;
  #pause: () => number;

  /**
   * The next batch is not handed on before the flush of the last one has settled: slow answers are never starved. The
   * pause, in milliseconds, begins when the flush has settled, so that slow answers are not asked for again at once.
   */
  constructor(flush: (batch: Batch) => Promise<unknown>, pause = () => 0) {
    this.#flush = flush;
    this.#pause = pause;
  }

  start = () => document.addEventListener("visibilitychange", this.#onVisible);

  stop = () => {
    document.removeEventListener("visibilitychange", this.#onVisible);
    window.clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#names.clear();
    this.#overflow = false;
  };

  /** Adds a name; the batch that it opens waits at least so many milliseconds. */
  add(name: string, delay = 0) {
    if (this.#names.size === 0) this.#waitFor(delay);
    if (this.#names.size < maxNames) this.#names.add(name);
    else if (!this.#names.has(name)) this.#overflow = true;
    this.#schedule();
  }

  #waitFor(delay: number) {
    this.#notBefore = Math.max(this.#notBefore, performance.now() + delay);
  }

  #onVisible = () => {
    if (this.#names.size > 0) this.#schedule();
  };

  #schedule() {
    if (this.#busy || this.#timer !== undefined || document.visibilityState === "hidden") return;
    const wait = Math.max(this.#notBefore, this.#last + interval) - performance.now();
    this.#timer = window.setTimeout(
      () => {
        this.#timer = undefined;
        void this.#run();
      },
      Math.max(0, wait),
    );
  }

  async #run() {
    this.#last = performance.now();
    const batch = { names: [...this.#names], overflow: this.#overflow };
    this.#names.clear();
    this.#overflow = false;
    this.#busy = true;
    try {
      await this.#flush(batch);
    } finally {
      this.#busy = false;
      this.#waitFor(this.#pause());
      if (this.#names.size > 0) this.#schedule();
    }
  }
}
