import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { WebSocketServer } from "ws";
import { MockOperator, type MockOptions } from "./server.ts";
import { visibleRollouts } from "./users.ts";
import type { Event, EventKind, EventPage, RolloutDetail } from "../src/gen/model/index.ts";
import { compareImages, hostileRollouts, makeRollouts } from "./rollouts.ts";
import { withOwner } from "./sums.ts";
import * as clock from "./clock.ts";

export interface OperatorOptions extends MockOptions {
  rollouts?: number;
  /** What the feed of Deployments answers in place of a WebSocket. */
  refuseFeed?: 404 | 503;
  /** What the feed says to a new client. */
  feed?: string[];
}

/** The mock operator with rollouts and the two WebSockets that tell of them. */
export class RolloutOperator extends MockOperator {
  declare options: OperatorOptions;
  rollouts: RolloutDetail[];
  /** Addresses of the WebSockets that were asked for. */
  readonly dialled: string[] = [];
  /** What was told, the latest last. */
  readonly told: Event[] = [];
  #events = new WebSocketServer({ noServer: true });
  #feed = new WebSocketServer({ noServer: true });

  constructor(options: OperatorOptions = {}) {
    super(options);
    const rollouts = options.hostile ? hostileRollouts() : makeRollouts(options.rollouts ?? 60, this.images);
    this.rollouts = options.sums?.owners
      ? rollouts.map((row) => ({ ...row, workload: withOwner(row.workload) }))
      : rollouts;
  }

  /** Tells who follows events that something happened. */
  event(kind: EventKind, data: object = {}, about: { imageId?: string; platform?: string } = {}) {
    const message = {
      type: "event",
      sequence: this.told.length + 1,
      logId: "log",
      at: new Date(clock.now()).toISOString(),
      kind,
      data,
      ...about,
    };
    this.told.push(message as Event);
    for (const client of this.#events.clients) client.send(JSON.stringify(message));
  }

  override decided() {
    this.event("decision.changed");
  }

  /** Tells something of a Deployment. */
  tell(message: string) {
    for (const client of this.#feed.clients) client.send(message);
  }

  /** Cuts off who follows Deployments. */
  cutFeed() {
    for (const client of this.#feed.clients) client.terminate();
  }

  override disconnect() {
    for (const client of [...this.#events.clients, ...this.#feed.clients]) client.terminate();
    super.disconnect();
  }

  override upgrade(request: IncomingMessage, socket: Duplex, head: Buffer) {
    const { pathname, searchParams } = new URL(request.url ?? "/", "http://mock");
    this.dialled.push(request.url ?? "/");
    if (pathname === "/api/v1/events") {
      this.#events.handleUpgrade(request, socket, head, (client) => {
        client.send(JSON.stringify({ type: "hello", sequence: this.told.length, logId: "log" }));
        for (const event of this.#pageOfEvents(searchParams).items) client.send(JSON.stringify(event));
      });
    } else if (pathname !== "/api/wds/logs") super.upgrade(request, socket, head);
    else if (this.options.refuseFeed) {
      socket.end(`HTTP/1.1 ${this.options.refuseFeed} Refused\r\nConnection: close\r\n\r\n`);
    } else {
      this.#feed.handleUpgrade(request, socket, head, (client) => {
        for (const message of this.options.feed ?? []) client.send(message);
      });
    }
  }

  override async handle(request: IncomingMessage, response: ServerResponse, otherwise?: () => void) {
    const url = new URL(request.url ?? "/", "http://mock");
    const [, kind, id] =
      /^\/api\/(v1\/rollouts|v1\/compare|v1\/events|wds\/logs)(?:\/([^/]+))?$/.exec(url.pathname) ?? [];
    if (kind === undefined) return super.handle(request, response, otherwise);
    this.requests.push(`${request.method ?? ""} ${url.pathname}`);
    this.queries.push(url.search);
    if (this.options.latency) await new Promise((resolve) => setTimeout(resolve, this.options.latency));
    const status = this.options.fail?.(url.pathname);
    if (status) answer(response, status, problem(status, "connection refused"));
    else if (kind === "wds/logs") this.#explainFeed(response);
    else {
      const user = this.users.of(request);
      if (!user || user.namespaces?.length === 0)
        return void answer(
          response,
          user ? 403 : 401,
          problem(user ? 403 : 401, "the permission is missing"),
        );
      if (kind === "v1/compare") return void this.#compare(url.searchParams, response);
      if (kind === "v1/events") return void answer(response, 200, this.#pageOfEvents(url.searchParams));
      const rollouts = visibleRollouts(this.rollouts, user);
      if (id === undefined) return void answer(response, 200, this.#list(rollouts, url.searchParams));
      const found = rollouts.find((rollout) => String(rollout.id) === id);
      answer(response, found ? 200 : 404, found ?? problem(404, "there is no such rollout"));
    }
  }

  /** Without a WebSocket the operator tells why there would be none. */
  #explainFeed(response: ServerResponse) {
    const off = 'the flag --controllers disables the controller "rollout"';
    if (this.options.refuseFeed === 404) answer(response, 404, problem(404, off));
    else if (this.options.refuseFeed)
      answer(response, 503, problem(503, "the Deployments have not been listed yet; try again"));
    else
      answer(
        response,
        426,
        problem(426, "this resource requires a WebSocket connection: use ws:// or wss://"),
      );
  }

  #pageOfEvents(params: URLSearchParams): EventPage {
    const last = this.told.length;
    const since = Number(params.get("since") ?? last);
    const kinds = params.getAll("kind");
    const items = this.told.slice(since).filter(({ kind }) => kinds.length === 0 || kinds.includes(kind));
    return { sequence: last, logId: "log", last, items };
  }

  #compare(params: URLSearchParams, response: ServerResponse) {
    const wanted = params.get("platform");
    const [from, to] = ["from", "to"].map((name) =>
      this.images.find(
        ({ imageId, platform }) => imageId === params.get(name) && (!wanted || platform === wanted),
      ),
    );
    if (!from || !to) answer(response, 404, problem(404, "one of the images was not found"));
    else {
      const [hostile] = this.options.hostile ? hostileRollouts() : [];
      answer(response, 200, hostile ?? compareImages(from, to));
    }
  }

  #list(rollouts: RolloutDetail[], params: URLSearchParams) {
    const [namespace, workload, owner, imageId] = ["namespace", "workload", "owner", "imageId"].map((name) =>
      params.get(name),
    );
    const since = Date.parse(params.get("since") ?? "1970-01-01T00:00:00Z");
    const until = Date.parse(params.get("until") ?? "9999-01-01T00:00:00Z");
    const rows = rollouts.filter(
      (row) =>
        (!namespace || row.workload.namespace === namespace) &&
        (!workload || row.workload.name === workload) &&
        (!owner || row.workload.owner === owner) &&
        (!imageId || [row.from.imageId, row.to.imageId].includes(imageId)) &&
        (this.options.hostile === true || (Date.parse(row.at) >= since && Date.parse(row.at) < until)),
    );
    const from = Number(params.get("pageToken") ?? 0);
    const end = from + Number(params.get("pageSize") ?? 100);
    return {
      items: rows.slice(from, end).map((row) => ({ ...row, opened: undefined, closed: undefined })),
      total: rows.length,
      ...(end < rows.length && { nextPageToken: String(end) }),
    };
  }
}

const problem = (status: number, detail: string) => ({
  type: "about:blank",
  title: "Refused",
  status,
  detail,
});

function answer(response: ServerResponse, status: number, body: object) {
  response.writeHead(status, {
    "Content-Type": status === 200 ? "application/json" : "application/problem+json",
  });
  response.end(JSON.stringify(body));
}
