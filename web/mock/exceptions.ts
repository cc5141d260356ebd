import type { IncomingMessage, ServerResponse } from "node:http";
import type {
  ChangedException,
  Exception,
  ExceptionPreview,
  ExceptionSavingReason,
  ExceptionSpec,
  NewException,
  PreviewedException,
} from "../src/gen/model/index.ts";
import { bodyOf, json, problem } from "./users.ts";
import * as clock from "./clock.ts";

export interface ExceptionOptions {
  /** Why nobody may save exceptions; absent if all may. */
  noSaving?: ExceptionSavingReason;
  /** Workloads that each preview names. */
  previewedWorkloads?: number;
}

const messages: Record<ExceptionSavingReason, string> = {
  Disabled: "the operator may not write exceptions (chart value api.writeExceptions)",
  NotSignedIn: "sign in to save the exception",
  NotPermitted:
    "you need the permission to create clustervulnerabilityexceptions.scanner.zoltankerezsi.xyz in the whole cluster",
};

const keyOf = ({ namespace, name }: Pick<Exception, "namespace" | "name">) =>
  namespace ? `${namespace}/${name}` : name;

/** The exceptions of the mock operator. */
export class MockExceptions {
  /** By name, of those in a namespace with the namespace before it. */
  readonly items = new Map<string, Exception>();
  /** The bodies of previews. */
  readonly previews: PreviewedException[] = [];
  #options: ExceptionOptions;
  #onChange: (spec: ExceptionSpec, applies: boolean) => void;

  constructor(options: ExceptionOptions, onChange: (spec: ExceptionSpec, applies: boolean) => void) {
    this.#options = options;
    this.#onChange = onChange;
  }

  /** Puts an exception into the cluster. */
  add(name: string, spec: ExceptionSpec, more: Partial<Exception> = {}): Exception {
    const exception: Exception = {
      kind: more.namespace ? "VulnerabilityException" : "ClusterVulnerabilityException",
      name,
      version: `${name}.1`,
      createdAt: new Date(clock.now()).toISOString(),
      author: "jane@example.com",
      spec,
      managers: [{ name: "scanner-operator-api", at: new Date(clock.now()).toISOString() }],
      managedBy: [],
      mayUpdate: !this.#options.noSaving,
      mayDelete: !this.#options.noSaving,
      ...more,
    };
    this.items.set(keyOf(exception), exception);
    return exception;
  }

  async handle(request: IncomingMessage, { pathname, searchParams }: URL, response: ServerResponse) {
    const rest = pathname.slice("/api/v1/exceptions".length);
    const refused = this.#options.noSaving;
    if (rest === "/preview")
      return void json(response, this.#preview(JSON.parse(await bodyOf(request)) as PreviewedException));
    if (refused)
      return void problem(response, refused === "Disabled" ? 501 : 403, "Forbidden", messages[refused]);
    if (rest === "") {
      const { kind, namespace, name, spec } = JSON.parse(await bodyOf(request)) as NewException;
      if (this.items.has(keyOf({ namespace, name })))
        return void problem(
          response,
          409,
          "Conflict",
          `${kind} ${keyOf({ namespace, name })} exists already; choose another name`,
        );
      const created = this.add(name, spec, namespace ? { namespace } : {});
      this.#onChange(spec, true);
      response.statusCode = 201;
      return void json(response, created);
    }
    const [, kind = "", encoded = ""] = rest.split("/");
    const name = decodeURIComponent(encoded);
    const key = keyOf({ namespace: searchParams.get("namespace") ?? "", name });
    const found = this.items.get(key);
    if (!found) return void problem(response, 404, "Not Found", `${kind} ${key} does not exist`);
    if (request.method === "GET") return void json(response, found);
    const body =
      request.method === "PUT" ? (JSON.parse(await bodyOf(request)) as ChangedException) : undefined;
    const override = body ? body.overrideManager : searchParams.get("overrideManager") === "true";
    if (
      (body?.version ?? searchParams.get("version")) !== found.version ||
      (found.managedBy.length > 0 && !override)
    )
      return void problem(
        response,
        409,
        "Conflict",
        `${kind} ${key} has changed since you read it; read it again`,
      );
    this.#onChange(found.spec, false);
    if (!body) {
      this.items.delete(key);
      return void response.writeHead(204).end();
    }
    this.#onChange(body.spec, true);
    json(response, this.add(name, body.spec, { ...found, spec: body.spec, version: `${found.version}+` }));
  }

  #preview(body: PreviewedException): ExceptionPreview {
    this.previews.push(body);
    const { spec } = body;
    const count = this.#options.previewedWorkloads ?? 3;
    const workloads = Array.from({ length: count }, (_, index) => ({
      namespace: body.namespace ?? `shop-${index % 2}`,
      kind: "Deployment",
      name: `web-${index}`,
      owner: "team-shop",
      images: 1,
      findings: 4,
    }));
    const suppresses = spec.mode !== "DryRun" && spec.status !== "UnderInvestigation";
    const refused = this.#options.noSaving;
    return {
      suppresses,
      findings: 4 * count,
      images: Math.min(count, 3),
      suppressed: 2,
      closed: suppresses ? 4 * count : 0,
      reopened: 0,
      workloads: workloads.slice(0, 100),
      workloadCount: count,
      namespaces: (body.namespace
        ? [{ namespace: body.namespace, workloads: count, findings: 4 * count }]
        : [
            { namespace: "shop-0", workloads: Math.ceil(count / 2), findings: 4 * Math.ceil(count / 2) },
            { namespace: "shop-1", workloads: Math.floor(count / 2), findings: 4 * Math.floor(count / 2) },
          ]
      ).filter(({ findings }) => findings > 0),
      namespaceCount: Math.min(count, body.namespace ? 1 : 2),
      problems: (spec.match.packages ?? []).includes("pkg:deb/*")
        ? [
            {
              reason: "TooBroad",
              message: "it matches 200001 findings; the maximum is 200000 for one decision",
            },
          ]
        : [],
      save: refused ? { allowed: false, reason: refused, message: messages[refused] } : { allowed: true },
    };
  }
}
