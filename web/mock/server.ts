import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { WebSocketServer, type WebSocket } from "ws";
import type {
  Change,
  Database,
  DatabaseBuild,
  DatabaseUpdate,
  DecisionRecord,
  Finding,
  Image,
} from "../src/gen/model/index.ts";
import { makeExposures } from "./exposures.ts";
import { listedBases, makeBases, workloadsOn } from "./bases.ts";
import { makeFindings, makeImages, makeSuppressed, suppression } from "./data.ts";
import { makeOverview, makeOverviewChanges } from "./overview.ts";
import { MockExceptions, type ExceptionOptions } from "./exceptions.ts";
import { MockNotifications, type NotificationOptions } from "./notifications.ts";
import { buildId, hostileChanges, makeDatabases } from "./databases.ts";
import { makeDecisions, pageOfDecisions } from "./decisions.ts";
import { filterFixes, hostileFixes, makeFixes, makePreview } from "./fixes.ts";
import { inLayers, makeImageLayers, makeImagePackages } from "./layers.ts";
import { makeNewerTags } from "./newer-tags.ts";
import { makePolicies } from "./policies.ts";
import { makeSearch } from "./search.ts";
import { sendFile } from "./static.ts";
import { hostileFindings, hostileImages, hostileTexts } from "./hostile.ts";
import { agesMatch, isChosen, byCreation, filterSums, runs } from "./filter.ts";
import {
  hostileSums,
  makeAffected,
  makePresences,
  makeRecords,
  makeSums,
  makeTrends,
  sumCoverage,
  type Sums,
  type SumsOptions,
  withOwner,
} from "./sums.ts";
import {
  bodyOf,
  json,
  permissionsOf,
  problem,
  Users,
  visibleImages,
  visibleSums,
  type MockUser,
  type UserOptions,
} from "./users.ts";
import * as clock from "./clock.ts";

export interface MockOptions extends UserOptions, ExceptionOptions, NotificationOptions {
  /** Decisions beside those of exceptions that were saved here. */
  decisions?: number;
  /** The path below which browsers reach the operator, from the first slash to the last. */
  basePath?: string;
  images?: number;
  hostile?: boolean;
  database?: DatabaseBuild["source"] | "missing";
  /** Changes of the database in use against the one before, and how many databases there were. */
  changes?: number;
  pastDatabases?: number;
  /** Rows of what is summed up over all images. */
  sums?: SumsOptions;
  /** Days of which the trend knows. */
  trendDays?: number;
  policies?: number;
  /** What differs from a database that is up to date. */
  update?: Partial<DatabaseUpdate>;
  /** Milliseconds before each answer of the API. */
  latency?: number;
  /** Paths that fail, with their status. */
  fail?: (path: string) => number | undefined;
  /** Folder with the built user interface. */
  dist?: string;
}

/** What the operator sends with every answer. */
const contentSecurityPolicy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

const severities = ["Critical", "High", "Medium", "Low", "Negligible", "Unknown"] as const;

/** An operator that needs no cluster: the API of openapi.yaml over generated data. */
export class MockOperator {
  options: MockOptions;
  images: Image[];
  /** Vulnerabilities whose findings an exception suppresses from now on. */
  readonly suppressed = new Set<string>();
  /** Images that no container runs any more. */
  readonly stopped = new Set<string>();
  readonly exceptions: MockExceptions;
  readonly notifications: MockNotifications;
  readonly decisions: DecisionRecord[];
  sums: Sums;
  readonly users: Users;
  /** Newest first; what each generation changed. */
  databases: Database[] = [];
  changes = new Map<number, Change[]>();
  /** Requests to match again: whether all of it. */
  readonly rematches: boolean[] = [];
  readonly requests: string[] = [];
  /** The parameters of each request. */
  readonly queries: string[] = [];
  #sockets = new WebSocketServer({ noServer: true });
  #refuse = false;
  #database: DatabaseBuild | undefined;

  constructor(options: MockOptions = {}) {
    this.options = options;
    this.users = new Users(options);
    this.notifications = new MockNotifications(options, options.hostile ?? false);
    this.decisions = makeDecisions(options.decisions ?? 0, options.hostile ?? false);
    this.exceptions = new MockExceptions(options, ({ match }, applies) => {
      for (const id of match.vulnerabilities ?? [])
        if (applies) this.suppressed.add(id);
        else this.suppressed.delete(id);
      this.decided();
    });
    const source = options.database ?? "official";
    this.#database =
      source === "missing"
        ? undefined
        : {
            id: buildId((options.pastDatabases ?? 3) + 1),
            schemaVersion: "v6.1.2",
            built: new Date(clock.now() - 9 * 3_600_000).toISOString(),
            source,
          };
    this.images = options.hostile
      ? hostileImages()
      : makeImages(
          options.images ?? 120,
          this.#database ?? { id: "", schemaVersion: "", built: "", source: "official" },
        );
    this.sums = options.hostile ? hostileSums() : makeSums(this.images, options.sums ?? {});
    if (!this.#database) return;
    const made = makeDatabases(
      this.#database,
      this.images,
      options.changes ?? 240,
      options.pastDatabases ?? 3,
    );
    this.databases = made.items;
    this.changes = made.changes;
    if (options.hostile)
      for (const generation of this.changes.keys()) this.changes.set(generation, hostileChanges());
  }

  /** Closes the WebSockets of all clients. */
  disconnect() {
    for (const client of this.#sockets.clients) client.terminate();
  }

  /** Tells all subscribers that an image has a new result. */
  publish(imageId: string) {
    for (const client of this.#sockets.clients) client.send(JSON.stringify(imageId));
  }

  /** Called when an exception begins or ends. */
  decided() {
    // An operator with events tells of it.
  }

  /** Cuts all subscribers off and refuses new ones, or lets them in again. */
  setLive(live: boolean) {
    this.#refuse = !live;
    if (!live) for (const client of this.#sockets.clients) client.terminate();
  }

  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer) {
    if (this.#refuse || !this.users.of(request)) {
      socket.end("HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\r\n");
      return;
    }
    this.#sockets.handleUpgrade(request, socket, head, (client: WebSocket) =>
      client.on("error", () => client.terminate()),
    );
  }

  async handle(request: IncomingMessage, response: ServerResponse, otherwise?: () => void) {
    const url = new URL(request.url ?? "/", "http://mock");
    const api = /^\/(api\/v1|scan-results)(\/|$)/.test(url.pathname);
    response.setHeader("Content-Security-Policy", contentSecurityPolicy);
    if (!api) {
      if (otherwise) {
        response.removeHeader("Content-Security-Policy");
        otherwise();
      } else await sendFile(url.pathname, this.options, response);
      return;
    }
    this.requests.push(`${request.method ?? ""} ${url.pathname}`);
    this.queries.push(url.search);
    if (this.options.latency) await new Promise((resolve) => setTimeout(resolve, this.options.latency));
    const status = this.options.fail?.(url.pathname);
    if (status)
      problem(
        response,
        status,
        "The database cannot be reached",
        "dial tcp 10.96.0.12:5432: connection refused",
      );
    else if (await this.users.handle(request, url, response)) return;
    else {
      const user = this.users.of(request);
      if (!user) problem(response, 401, "Not signed in");
      else if (user.namespaces?.length === 0)
        problem(response, 403, "Forbidden", `user "${user.user}" is not allowed to list scanresults`);
      else await this.#answer(request, url, response, user);
    }
  }

  async #answer(request: IncomingMessage, url: URL, response: ServerResponse, user: MockUser) {
    const sums = visibleSums(this.sums, user);
    const images = visibleImages(this.images, sums, user);
    if (/^\/api\/v1\/databases(\/|$)/.test(url.pathname)) await this.#databases(request, url, response);
    else if (url.pathname === "/api/v1/decisions" && !url.searchParams.get("format"))
      json(response, pageOfDecisions(this.decisions, this.exceptions, url.searchParams));
    else if (/^\/api\/v1\/exceptions(\/|$)/.test(url.pathname))
      await this.exceptions.handle(request, url, response);
    else if (url.pathname === "/api/v1/policies") json(response, makePolicies(this.options.policies ?? 0));
    else if (/^\/api\/v1\/notification-rules(\/|$)/.test(url.pathname))
      await this.notifications.handle(request, response);
    else if (url.searchParams.get("format")) this.#export(url, response);
    else if (url.pathname === "/api/v1/fixes")
      json(
        response,
        this.#page(
          filterFixes(this.options.hostile ? hostileFixes() : makeFixes(images, sums), url.searchParams),
          url.searchParams,
        ),
      );
    else if (url.pathname === "/api/v1/fixes/preview")
      json(response, makePreview(url.searchParams, this.options.hostile ?? false));
    else if (!this.#sums(url, response, sums, images)) this.#api(request, url, response, sums, images);
  }

  /** A document that tells what was asked for. */
  #export({ pathname, searchParams }: URL, response: ServerResponse) {
    if (pathname === "/api/v1/images" && this.images.length > 1000) {
      problem(response, 400, "Too many images", "at most 1,000 images are exported: filter them");
      return;
    }
    response.setHeader("Content-Type", "application/octet-stream");
    response.end(`${pathname}?${searchParams.toString()}`);
  }

  /** Answers what is summed up over all images; tells whether it did. */
  #sums({ pathname, searchParams }: URL, response: ServerResponse, sums: Sums, images: Image[]): boolean {
    const [, kind = "", encoded = "", part = ""] =
      /^\/api\/v1\/(trends|search|vulnerabilities|packages|workloads|owners|namespaces|coverage)(?:\/([^/]+))?(?:\/([^/]+))?$/.exec(
        pathname,
      ) ?? [];
    if (kind === "") return false;
    if (kind === "search") {
      const found = this.#filterImages(images, sums, searchParams);
      json(response, makeSearch(sums, found, searchParams, this.options.sums?.owners !== undefined));
    } else if (kind === "trends")
      json(response, makeTrends(images.length === 0 ? 0 : (this.options.trendDays ?? 30)));
    else if (encoded)
      this.#vulnerability(decodeURIComponent(encoded), part, searchParams, response, sums, images);
    else {
      const base = searchParams.get("base");
      const chosen = base ? { ...sums, workloads: workloadsOn(base, sums.workloads, images) } : sums;
      const { rows, extra } = filterSums(chosen, kind as keyof Sums | "owners" | "namespaces", searchParams);
      json(response, { ...this.#page<object>(rows, searchParams), ...extra });
    }
    return true;
  }

  #vulnerability(
    id: string,
    part: string,
    params: URLSearchParams,
    response: ServerResponse,
    sums: Sums,
    images: Image[],
  ) {
    const summary = sums.vulnerabilities.find((entry) => entry.id === id);
    if (!summary) return void problem(response, 404, "Not found", `nothing has or had ${id}`);
    if (part === "exposures") {
      const exposures = makeExposures(sums.workloads).filter(({ workload }) =>
        (["namespace", "owner"] as const).every(
          (name) => !params.get(name) || workload[name] === params.get(name),
        ),
      );
      return void json(response, this.#page(exposures, params));
    }
    const closed = params.get("closed") === "true";
    const all = makeAffected(summary, images, closed);
    if (params.get("suppressed") === "true")
      all.splice(0, 1, ...all.slice(0, 1).map((row) => ({ ...row, ...suppression })));
    const affected = all
      .map((row) => (this.options.sums?.owners ? { ...row, workloads: row.workloads.map(withOwner) } : row))
      .filter(
        ({ running, workloads }) =>
          (!params.has("on") || running) &&
          (["namespace", "owner"] as const).every(
            (name) => !params.get(name) || workloads.some((workload) => workload[name] === params.get(name)),
          ),
      );
    if (part === "affected")
      return void json(response, {
        ...this.#page(affected, params),
        images: affected.length,
        workloads: affected.filter(({ running }) => running).length,
      });
    json(response, {
      id,
      records: makeRecords(summary, images),
      images: summary.images,
      workloads: summary.workloads,
      affected: affected.length,
      summary,
    });
  }

  #api(request: IncomingMessage, url: URL, response: ServerResponse, sums: Sums, images: Image[]) {
    const [, kind = "", encoded = "", part = ""] =
      /^\/(?:api\/v1\/)?(overview|images|bases|scan-results)(?:\/([^/]+))?(?:\/([^/]+))?$/.exec(
        url.pathname,
      ) ?? [];
    if (kind === "overview" && encoded === "changes")
      return void json(response, makeOverviewChanges(url.searchParams.get("since")));
    if (kind === "overview") return void json(response, this.#overview(sums, images));
    if (kind === "bases")
      return void json(response, {
        ...this.#page(makeBases(images, url.searchParams, sums.workloads), url.searchParams),
        listed: listedBases,
      });
    if (kind === "images" && !encoded)
      return void json(
        response,
        this.#page(this.#filterImages(images, sums, url.searchParams), url.searchParams),
      );
    const imageId = decodeURIComponent(encoded);
    const platform = url.searchParams.get("platform");
    const image = images.find(
      (entry) => entry.imageId === imageId && (!platform || entry.platform === platform),
    );
    if (!image) return void problem(response, 404, "Not found", `there is no image ${imageId}`);
    if (request.method === "DELETE") {
      this.images = this.images.filter((entry) => entry.imageId !== imageId);
      return void response.writeHead(204).end();
    }
    if (part === "scan") return void response.writeHead(202).end();
    if (kind === "scan-results")
      return void json(response, { imageId, report: { bomFormat: "CycloneDX", specVersion: "1.6" } });
    if (part === "presences")
      return void json(
        response,
        this.#page(makePresences(image, this.stopped.has(imageId)), url.searchParams),
      );
    if (part === "newer-tags")
      return void json(response, makeNewerTags(image, this.#filterFindings(image, new URLSearchParams())));
    if (part === "packages" || part === "layers") {
      const findings = this.#filterFindings(image, new URLSearchParams());
      return void json(
        response,
        part === "layers"
          ? { items: makeImageLayers(image, findings, url.searchParams) }
          : this.#page(makeImagePackages(image, findings, url.searchParams), url.searchParams),
      );
    }
    if (part === "findings")
      return void json(
        response,
        this.#page(inLayers(image, this.#filterFindings(image, url.searchParams)), url.searchParams),
      );
    if (part === "sbom")
      return void response
        .writeHead(200, { "Content-Type": "application/vnd.syft+json" })
        .end(
          this.options.hostile
            ? "[".repeat(1 << 20) + JSON.stringify(hostileTexts)
            : JSON.stringify({ artifacts: makeImagePackages(image, [], new URLSearchParams()) }),
        );
    const permissions = permissionsOf(
      image,
      this.sums,
      this.users.describe(request),
      this.users.of(request) ?? { user: "" },
    );
    return void json(response, { ...image, permissions });
  }

  #overview(sums: Sums, images: Image[]) {
    const current = this.databases.find(({ state }) => state === "Current");
    const changes = current?.previousBuild ? current.changes : undefined;
    const stale = this.options.update?.stale ?? false;
    return makeOverview(images, current, changes, stale, sumCoverage(sums.coverage));
  }

  async #databases(request: IncomingMessage, url: URL, response: ServerResponse) {
    const rest = url.pathname.slice("/api/v1/databases".length);
    if (rest === "") {
      const ago = (minutes: number) => new Date(clock.now() - minutes * 60_000).toISOString();
      const update: DatabaseUpdate = {
        stale: false,
        maxAge: 5 * 86_400,
        lastCheck: ago(47),
        nextCheck: ago(-313),
        ...this.options.update,
      };
      return void json(response, { items: this.databases, update });
    }
    if (rest === "/rematch" && request.method === "POST") {
      this.rematches.push((JSON.parse(await bodyOf(request)) as { full: boolean }).full);
      return void response.writeHead(202).end();
    }
    const build = decodeURIComponent(/^\/([^/]+)\/changes$/.exec(rest)?.[1] ?? "");
    const generation = Number(url.searchParams.get("generation"));
    const known = this.databases.find(
      (entry) => entry.id === build && (!generation || entry.generation === generation),
    );
    if (!known) return void problem(response, 404, "Not found", "there is no such database build");
    json(response, this.#page(this.#filterChanges(known.generation, url.searchParams), url.searchParams));
  }

  #filterChanges(generation: number, params: URLSearchParams): Change[] {
    const text = (params.get("text") ?? "").toLowerCase();
    const worst = severities.findIndex((name) => name === params.get("severity"));
    const kinds = params.getAll("kind");
    const imageId = params.get("imageId");
    return (this.changes.get(generation) ?? []).filter(
      ({ kind, before, after, vulnerabilityId, package: pkg, imageIds }) =>
        `${vulnerabilityId} ${pkg.name}`.toLowerCase().includes(text) &&
        (kinds.length === 0 || kinds.includes(kind)) &&
        (!imageId || imageIds.includes(imageId)) &&
        (params.get("kev") !== "true" || (after ?? before)?.kev === true) &&
        (worst < 0 || [before, after].some((side) => side && severities.indexOf(side.severity) <= worst)),
    );
  }

  #filterImages(all: Image[], sums: Sums, params: URLSearchParams): Image[] {
    const text = (params.get("text") ?? "").toLowerCase();
    const states = params.getAll("state");
    const worst = severities.slice(0, severities.findIndex((name) => name === params.get("severity")) + 1);
    const images = all.filter(
      (image) =>
        image.imageId.toLowerCase().includes(text) &&
        (states.length === 0 || states.includes(image.state)) &&
        (params.get("kev") !== "true" || image.counts.kev > 0) &&
        (params.get("fixable") !== "true" || image.counts.fixable > 0) &&
        isChosen(image, params) &&
        agesMatch(image, params) &&
        runs(image, sums, params) &&
        (worst.length === 0 ||
          worst.some((name) => image.counts[name.toLowerCase() as Lowercase<typeof name>] > 0)),
    );
    if (params.get("sort") === "created") return images.sort(byCreation);
    if (params.get("sort") !== "-severity") return images.sort((a, b) => (a.imageId < b.imageId ? -1 : 1));
    const weight = ({ counts }: Image) =>
      counts.critical * 1e9 + counts.high * 1e6 + counts.medium * 1e3 + counts.low;
    return images.sort((a, b) => weight(b) - weight(a));
  }

  #filterFindings(image: Image, params: URLSearchParams): Finding[] {
    const text = (params.get("text") ?? "").toLowerCase();
    const worst = severities.findIndex((name) => name === params.get("severity"));
    const all = this.options.hostile
      ? hostileFindings()
      : params.get("closed") === "true"
        ? makeFindings(image)
            .slice(0, 3)
            .map((finding) => ({
              ...finding,
              // An earlier SBOM had them in other packages.
              package: { ...finding.package, id: `${finding.package.id}-old`, version: "0.9.1" },
              fixedAt: image.matchedAt ?? image.firstSeen,
            }))
        : [
            ...makeFindings(image).filter(({ vulnerability: { id } }) => !this.suppressed.has(id)),
            ...(params.get("suppressed") === "true" ? makeSuppressed(image) : []),
          ];
    const findings = all.filter(
      ({ vulnerability, package: pkg, fix, origin }) =>
        `${vulnerability.id} ${pkg.name}`.toLowerCase().includes(text) &&
        (!params.get("origin") || params.get("origin") === origin) &&
        (worst < 0 || severities.indexOf(vulnerability.severity) <= worst) &&
        (params.get("fixable") !== "true" || fix.state === "fixed") &&
        (params.get("kev") !== "true" || (vulnerability.kev?.length ?? 0) > 0),
    );
    if (params.get("sort") === "package")
      return findings.sort((a, b) => (a.package.name < b.package.name ? -1 : 1));
    if (params.get("sort") === "-severity") return findings;
    return findings.sort((a, b) => b.vulnerability.risk - a.vulnerability.risk);
  }

  #page<T>(all: T[], params: URLSearchParams) {
    const from = Number(params.get("pageToken") ?? 0);
    const size = Number(params.get("pageSize") ?? 100);
    const next = from + size < all.length ? { nextPageToken: String(from + size) } : {};
    return { items: all.slice(from, from + size), total: all.length, ...next };
  }
}
