import type {
  FixPage,
  ImagePage,
  VulnerabilityPage,
  Workload,
  WorkloadPage,
  WorkloadSummary,
} from "../../../web/src/gen/model";
import { parseUntrusted } from "../../../web/src/lib/text";
import { Failure, operatorFailure, tokenFailure } from "./failure";
import { accountOf, mistakes, type Settings } from "./settings";

/** How many rows of each list are read and shown. */
export const limits = { images: 20, vulnerabilities: 10, fixes: 3 };

/** Milliseconds that a request may take, with its body. */
const timeout = 20_000;
/** Bytes of a response. */
const maxBody = 4 << 20;
/** The audience of the tokens, which only the operator accepts, and how long they are valid: the shortest time that the API server grants. */
const audience = "scanner-operator";
const tokenSeconds = 600;
/** How many milliseconds before its end a token is replaced. */
const renewBefore = 120_000;
/** How many tokens are kept. */
const maxTokens = 100;

/** ApiProxy.request of Headlamp, which returns the response with isJSON: false, and throws an error with a status for a failed one. */
export type Request = (
  path: string,
  params: RequestInit & { isJSON: false; timeout: number; cluster?: string },
  autoLogoutOnAuthError: boolean,
) => Promise<Response>;

/** What the operator knows about a workload. */
export interface Results {
  /** Undefined if no image of the workload is known. */
  workload?: WorkloadSummary;
  images: ImagePage;
  vulnerabilities: VulnerabilityPage;
  fixes: FixPage;
}

/** Reads findings of one cluster from the operator, through the service proxy of the API server, with tokens of a ServiceAccount. */
export class Client {
  private readonly tokens = new Map<string, { token: string; expires: number }>();

  constructor(
    private readonly request: Request,
    private readonly cluster: string | undefined,
    private readonly now: () => number = Date.now,
  ) {}

  /** Reads the results of a workload; every error is a Failure. */
  async results(settings: Settings, workload: Workload, signal: AbortSignal): Promise<Results> {
    const [mistake] = Object.values(mistakes(settings));
    if (mistake !== undefined) throw new Failure(mistake, "Correct the settings of this plugin.");
    const { namespace, kind, name } = workload;
    const selected = { namespace, workload: name, workloadKind: kind };
    const token = await this.token(settings, namespace, signal);
    const list = <Page>(resource: string, pageSize: number, query: Record<string, string> = {}) =>
      this.list<Page>(
        settings,
        token,
        resource,
        { ...selected, ...query, pageSize: String(pageSize) },
        signal,
      );
    try {
      const [workloads, images, vulnerabilities, fixes] = await Promise.all([
        list<WorkloadPage>("workloads", 1),
        list<ImagePage>("images", limits.images, { sort: "-severity" }),
        list<VulnerabilityPage>("vulnerabilities", limits.vulnerabilities, {
          sort: "-risk",
        }),
        list<FixPage>("fixes", limits.fixes),
      ]);
      return { workload: workloads.items[0], images, vulnerabilities, fixes };
    } catch (error) {
      // A token can have lost its rights, or its ServiceAccount can have been replaced.
      this.tokens.clear();
      throw error;
    }
  }

  private async list<Page>(
    { namespace, service }: Settings,
    token: string | undefined,
    resource: string,
    query: Record<string, string>,
    signal: AbortSignal,
  ): Promise<Page> {
    const path = `/api/v1/namespaces/${namespace}/services/https:${service}:https/proxy/api/v1/${resource}`;
    const headers = {
      Accept: "application/json",
      ...(token !== undefined && {
        "X-Scanner-Authorization": `Bearer ${token}`,
      }),
    };
    const body = await this.send(
      `${path}?${new URLSearchParams(query).toString()}`,
      { headers },
      signal,
      (error) => operatorFailure(error, namespace, service),
    );
    const page = body as Partial<WorkloadPage> | null;
    if (!Array.isArray(page?.items) || typeof page.total !== "number") throw unexpected();
    return page as Page;
  }

  /** Returns a token of the ServiceAccount that is valid for a while, undefined if the settings have none. */
  private async token(
    settings: Settings,
    workload: string,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    if (settings.serviceAccount === "") return undefined;
    const [namespace, name] = accountOf(settings, workload);
    const key = `${namespace}/${name}`;
    const known = this.tokens.get(key);
    if (known && this.now() < known.expires - renewBefore) return known.token;
    const body = await this.send(
      `/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token`,
      {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({
          apiVersion: "authentication.k8s.io/v1",
          kind: "TokenRequest",
          spec: { audiences: [audience], expirationSeconds: tokenSeconds },
        }),
      },
      signal,
      (error) => tokenFailure(error, namespace, name),
    );
    const status = (
      body as {
        status?: { token?: unknown; expirationTimestamp?: unknown };
      } | null
    )?.status;
    if (typeof status?.token !== "string") throw unexpected();
    const expires = Date.parse(String(status.expirationTimestamp));
    if (this.tokens.size >= maxTokens) this.tokens.clear();
    if (!Number.isNaN(expires)) this.tokens.set(key, { token: status.token, expires });
    return status.token;
  }

  /** Sends a request and returns the JSON of its response, with a limit of time and size. */
  private async send(
    path: string,
    init: RequestInit,
    signal: AbortSignal,
    failure: (error: unknown) => Failure,
  ): Promise<unknown> {
    const limited = new AbortController();
    const end = () => limited.abort();
    if (signal.aborted) end();
    signal.addEventListener("abort", end);
    const timer = setTimeout(end, timeout);
    try {
      const params = { ...init, signal: limited.signal, isJSON: false, timeout } as const;
      // Without the logout: the status 401 of the operator says nothing about the session in Headlamp.
      const response = await this.request(
        path,
        { ...params, ...(this.cluster && { cluster: this.cluster }) },
        false,
      );
      if (response.headers.has("X-HEADLAMP-CACHE")) throw cached();
      return parsed(await textOf(response));
    } catch (error) {
      if (error instanceof Failure) throw error;
      throw failure(limited.signal.aborted ? { status: 408 } : error);
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
    }
  }
}

const unexpected = () =>
  new Failure(
    "The response is not what this plugin expects.",
    "Use the plugin of the same release as the operator, and check the namespace and the Service in its settings.",
  );

const cached = () =>
  new Failure(
    "Headlamp answered from its cache, which mixes up workloads and users.",
    "Run Headlamp without --cache-enabled.",
  );

function parsed(text: string): unknown {
  try {
    return parseUntrusted(text);
  } catch {
    throw unexpected();
  }
}

/** Reads a body up to its limit. */
async function textOf(response: Response): Promise<string> {
  if (!response.body) return response.text();
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    size += value.byteLength;
    if (size > maxBody) {
      await reader.cancel();
      throw new Failure(
        `The response exceeds the limit of ${maxBody} bytes.`,
        "Check the namespace and the Service in the settings of this plugin.",
      );
    }
    text += decoder.decode(value, { stream: true });
  }
}
