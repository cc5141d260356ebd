import { appendFileSync, existsSync, rmSync, writeFileSync } from "node:fs";
import {
  test as base,
  expect,
  type ConsoleMessage,
  type Page,
  type Request,
  type Response,
} from "@playwright/test";
import { interactionTimes, record, take, whileScrolling, type Recorded } from "./measure.ts";
import { setup, type Counts } from "./setup.ts";

/** How long a page may take to show what changed: the longest lists are refreshed twice a minute. */
const patience = 90_000;
/** How long Chromium may take until it draws a page. */
const drawing = 30_000;
/** The file that exists when it did not in a test. */
const undrawn = (testId: string) => `${setup.results}.${testId}.undrawn`;
/** Rows that are passed in lists that are not scrolled to the end. */
export const someRows = 200;
/** Pixels of one turn of the wheel. It is less than what is rendered beyond the window, so that no row is passed over. */
const wheel = 800;

interface Situation {
  steps: number;
  /** Images beside those that were seeded. Each has a workload, a package and a vulnerability of its own. */
  images: number;
  findings: Counts;
}

async function ask(method: string, path: string): Promise<Situation> {
  const response = await fetch(setup.control + path, { method });
  if (!response.ok) throw new Error(await response.text());
  return (await response.json()) as Situation;
}

/** The changes of the store, which last while a test wants them. */
export const live = {
  now: () => ask("GET", "/"),
  start: () => ask("POST", "/start"),
  stop: () => ask("POST", "/stop"),
};

/** A page that is measured. */
export class Measured {
  readonly page: Page;
  #frames: number[] = [];
  #interactions: number[] = [];
  #requests: number[] = [];
  #kinds: Record<string, number> = {};
  #shift = 0;
  #laterShift = 0;
  #moves: { value: number; what: string[] }[] = [];
  #open = new Set<Request>();
  readonly faults: string[] = [];
  readonly #undrawn: string;

  constructor(page: Page, testId: string) {
    this.page = page;
    this.#undrawn = undrawn(testId);
    page.on("request", (request) => {
      // A WebSocket is no request that ends.
      this.#open.add(request);
    });
    page.on("requestfinished", (request) => this.#open.delete(request));
    page.on("requestfailed", (request) => {
      this.#open.delete(request);
      // The page gives up requests whose answers it needs no more.
      const reason = request.failure()?.errorText ?? "";
      if (reason !== "net::ERR_ABORTED") this.faults.push(`${request.url()}: ${reason}`);
    });
    page.on("response", (response: Response) => {
      if (response.status() >= 400) this.faults.push(`${response.url()}: ${response.status()}`);
    });
    page.on("pageerror", (error) => this.faults.push(error.message));
    page.on("console", (message: ConsoleMessage) => {
      if (message.type() === "error") this.faults.push(message.text());
    });
  }

  /** Opens a page of the UI and waits until it has what it asked for. */
  async open(path: string) {
    await this.page.goto(setup.url + path);
    await this.#draw();
    await expect(this.page.getByText("Online")).toBeVisible();
    await this.settle();
  }

  /**
   * Waits until Chromium draws frames of the page, which it does not of one that it takes for one in the background. Beside other work,
   * Chromium 156 has stopped to draw the first page of a browser for good: the test fails, and is run again in another browser.
   */
  async #draw() {
    await expect(async () => {
      await this.page.bringToFront();
      const drawn = await this.page.evaluate(() => window.recorder?.frame());
      // A page that does not answer is not one that is not drawn.
      if (drawn === false) writeFileSync(this.#undrawn, "");
      else rmSync(this.#undrawn, { force: true });
      expect(drawn, "Chromium draws a frame of the page").toBe(true);
    }).toPass({ timeout: drawing });
  }

  /** Does something that waits for frames, and does it again when it returns undefined because none came. */
  async #withFrames<Result>(work: () => Promise<Result | undefined>): Promise<Result> {
    for (;;) {
      const result = await work();
      if (result !== undefined) return result;
      await this.#draw();
    }
  }

  /** Waits until the page waits for nothing. */
  async settle() {
    await expect(this.page.locator("[aria-busy=true]")).toHaveCount(0);
    let idle = 0;
    await expect
      .poll(() => (idle = this.#open.size === 0 ? idle + 1 : 0), { timeout: patience, intervals: [100] })
      .toBeGreaterThan(5);
  }

  #add(recorded: Recorded) {
    this.#frames.push(...recorded.frames);
    this.#interactions.push(...interactionTimes(recorded));
    for (const { path, took } of recorded.requests) {
      this.#requests.push(took);
      const kind = path.replace(/(images|vulnerabilities)\/[^/]+/, "$1/…");
      this.#kinds[kind] = (this.#kinds[kind] ?? 0) + 1;
    }
    this.#moves.push(...recorded.shifts);
    const shift = recorded.shifts.reduce((sum, { value }) => sum + value, 0);
    return { shift, ...recorded };
  }

  /** Keeps what was recorded of a document before it goes. */
  async keep() {
    this.#laterShift += this.#add(await this.#take()).shift;
  }

  #take = () => this.#withFrames(() => take(this.page));

  /** Lets the store change while nobody touches the page, which must ask for news, unless they do not concern it, without moving anything. */
  async watch({ concerned = true } = {}) {
    await live.stop();
    await this.settle();
    await this.keep();
    const { steps } = await live.start();
    const asked: string[] = [];
    const onRequest = (request: Request) => asked.push(new URL(request.url()).pathname);
    this.page.on("request", onRequest);
    await expect
      .poll(async () => (await live.now()).steps - steps, { timeout: patience, intervals: [200] })
      .toBeGreaterThanOrEqual(setup.watched);
    if (concerned) await expect.poll(() => asked.length, { timeout: patience }).toBeGreaterThan(0);
    await live.stop();
    await this.settle();
    this.page.off("request", onRequest);
    const { shift, shifts } = this.#add(await this.#take());
    this.#shift += shift;
    expect.soft(shifts, "layout shifts without input while data arrives").toEqual([]);
  }

  /** Waits until a text is shown, however long the list is. */
  shows = (text: string) =>
    expect(this.page.getByText(text, { exact: true }).first()).toBeVisible({ timeout: patience });

  /** Turns the wheel until as many rows were passed, or the list ends. */
  async scroll({ rows = Infinity } = {}) {
    await this.page.mouse.move(700, 600);
    await whileScrolling(this.page, async () => {
      for (;;) {
        const [last, count] = await this.page.evaluate(() => [
          Number(
            [...document.querySelectorAll("[role=row][aria-rowindex]")].at(-1)?.getAttribute("aria-rowindex"),
          ),
          Number(document.querySelector("[role=table]")?.getAttribute("aria-rowcount")),
        ]);
        if (last >= Math.min(rows, count)) return;
        await this.page.mouse.wheel(0, wheel);
      }
    });
  }

  /** Turns the wheel a number of times. */
  async scrollBy(turns: number) {
    await this.page.mouse.move(700, 600);
    await whileScrolling(this.page, async () => {
      for (let turn = 0; turn < turns; turn++) await this.page.mouse.wheel(0, wheel);
    });
  }

  /** Waits until the page has stopped scrolling, which it does after the last turn of the wheel. */
  async rest() {
    await this.#withFrames(() =>
      this.page.evaluate(async () => {
        for (let same = 0; same < 10; same++) {
          const before = window.scrollY;
          if (!(await window.recorder?.frame())) return undefined;
          if (window.scrollY !== before) same = 0;
        }
        return true;
      }),
    );
  }

  /** Returns to the first row. A row that is clicked before the page has stopped scrolling is another one, and leaves the document. */
  async top() {
    await this.rest();
    await this.page.keyboard.press("Control+Home");
    await expect(this.page.locator("[role=row][aria-rowindex='2']")).toBeInViewport();
    await this.rest();
  }

  /** Scrolls through all rows, as fast as they are rendered, and returns the title of each that was shown. The wheel would take a quarter of an hour. */
  scrollThrough() {
    const work = () =>
      this.page.evaluate(async (step) => {
        const seen = new Set<string>();
        window.scrollTo(0, 0);
        for (;;) {
          for (let frames = 0; frames < 2; frames++) if (!(await window.recorder?.frame())) return undefined;
          const shown = [...document.querySelectorAll("[role=row][aria-rowindex]")];
          for (const row of shown) {
            const title = row.querySelector("bdi[title]")?.getAttribute("title");
            if (title) seen.add(title);
          }
          const count = document.querySelector("[role=table]")?.getAttribute("aria-rowcount");
          if (shown.at(-1)?.getAttribute("aria-rowindex") === count) return [...seen];
          window.scrollBy(0, step);
        }
      }, wheel);
    return whileScrolling(this.page, () => this.#withFrames(work));
  }

  /** What the API answers. */
  async get<Answer>(path: string) {
    const response = await this.page.request.get(setup.url + path);
    expect(response.status(), path).toBe(200);
    return (await response.json()) as Answer;
  }

  /** The total of a list of the API, which has to be that of the seed. */
  async total(path: string, want: number) {
    const { total } = await this.get<{ total: number }>(path);
    expect.soft(total, path).toBe(want);
    return total;
  }

  write(name: string, steps: number) {
    const result = {
      page: name,
      frames: this.#frames,
      interactions: this.#interactions,
      shift: this.#shift,
      laterShift: this.#laterShift,
      requests: this.#requests,
      kinds: this.#kinds,
      moves: this.#moves,
      steps,
    };
    appendFileSync(setup.results, `${JSON.stringify(result)}\n`);
  }
}

/** Every test fails when the page reports an error or a request fails, and adds its measurements under its title. */
export const test = base.extend<{ measured: Measured }>({
  measured: async ({ page }, use, { title, testId, retry }) => {
    if (retry > 0 && !existsSync(undrawn(testId)))
      throw new Error("only what Chromium did not draw is run again");
    const { steps } = await live.stop();
    await record(page);
    const session = await page.request.post(`${setup.url}/api/v1/session`, { data: { token: setup.token } });
    expect(session.status()).toBe(200);
    const measured = new Measured(page, testId);
    await use(measured);
    await live.stop();
    await measured.keep();
    measured.write(title, (await live.now()).steps - steps);
    expect(measured.faults).toEqual([]);
  },
});

export const imagePath = (imageId: string) => `/images/${encodeURIComponent(imageId)}`;

/** A number as the UI writes it. */
export const number = (value: number) => value.toLocaleString("en-US");

export { expect };
