import type { IncomingMessage, ServerResponse } from "node:http";
import type {
  Image,
  ImagePermissions,
  RolloutDetail,
  Session,
  SessionNamespaces,
} from "../src/gen/model/index.ts";
import type { Sums } from "./sums.ts";

/** A user whom the mock operator knows. */
export interface MockUser {
  user: string;
  displayName?: string;
  groups?: string[];
  /** The namespaces that the user sees, of those of the mock; undefined for the whole cluster. */
  namespaces?: string[];
  canDelete?: boolean;
  canUpdate?: boolean;
  /** The namespaces in which the user may delete and update, if these are not all that the user sees. */
  changesIn?: string[];
}

export interface UserOptions {
  auth?: "none" | "kubernetes";
  /** The caller may only read. */
  readOnly?: boolean;
  /** There is an identity provider; whether it can be reached. */
  provider?: "available" | "unavailable";
  /** Results can be read without signing in, as this user. */
  anonymous?: MockUser;
  /** There is a front proxy, which names this user in each request. */
  frontProxy?: MockUser;
  /** Users of the provider in place of those of the mock. */
  users?: MockUser[];
}

export const token = "valid-token";

/** How many namespaces the mock has records of. */
const totalNamespaces = 40;
const cookie = "scanner-operator-session";
const providerName = "Example ID";

/** One user for each case: few namespaces, one without anything in it, none, and the whole cluster. */
export const users: MockUser[] = [
  {
    user: "alice@example.com",
    displayName: "Alice Example",
    groups: ["oidc:payments", "oidc:staff", "system:authenticated"],
    namespaces: ["monitoring", "payments", "web"],
    canDelete: true,
    canUpdate: true,
  },
  { user: "bob@example.com", displayName: "Bob", groups: ["oidc:sandbox"], namespaces: ["sandbox"] },
  {
    user: "carol@example.com",
    displayName: "Carol",
    groups: ["oidc:new", "system:authenticated"],
    namespaces: [],
  },
  {
    user: "dora@example.com",
    displayName: "Dora",
    groups: ["oidc:platform"],
    canDelete: true,
    canUpdate: true,
  },
];

const serviceAccount: MockUser = {
  user: "system:serviceaccount:default:viewer",
  canDelete: true,
  canUpdate: true,
};

/** Signs users in, with a token or with a provider that asks for no password. */
export class Users {
  readonly #options: UserOptions;
  /** The sessions with the provider, by the secret in the cookie. */
  #sessions = new Map<string, MockUser>();
  #created = 0;

  constructor(options: UserOptions) {
    this.#options = options;
  }

  get known() {
    return this.#options.users ?? users;
  }

  /** Who sent a request: undefined for nobody who may read. */
  of(request: IncomingMessage): MockUser | undefined {
    if (this.#options.auth !== "kubernetes") return { user: "", canDelete: true, canUpdate: true };
    return this.#signedIn(request) ?? this.#options.anonymous;
  }

  #signedIn(request: IncomingMessage): MockUser | undefined {
    if (this.#options.frontProxy) return this.#options.frontProxy;
    const secret = secretOf(request);
    return secret === token ? serviceAccount : this.#sessions.get(secret);
  }

  #method(request: IncomingMessage): Session["method"] {
    if (this.#options.frontProxy) return "frontProxy";
    return secretOf(request) === token ? "token" : "provider";
  }

  /** Changes the rights of a user in all sessions. */
  grant(name: string | undefined, rights: MockUser) {
    for (const [secret, { user }] of this.#sessions) if (user === name) this.#sessions.set(secret, rights);
  }

  describe(request: IncomingMessage): Session {
    const { auth = "none", readOnly, provider, anonymous } = this.#options;
    const signedIn = auth === "none" ? this.of(request) : this.#signedIn(request);
    const seen = this.of(request);
    return {
      auth,
      authenticated: signedIn !== undefined,
      canDelete: signedIn?.canDelete === true && !readOnly,
      canUpdate: signedIn?.canUpdate === true && !readOnly,
      ...(auth === "kubernetes" &&
        signedIn && {
          user: signedIn.user,
          displayName: signedIn.displayName,
          groups: signedIn.groups,
          method: this.#method(request),
        }),
      ...(seen && { namespaces: describe(seen) }),
      ...(anonymous && { anonymousRead: true }),
      ...(provider && { provider: { name: providerName, available: provider === "available" } }),
    };
  }

  /** Answers what is asked of the session; tells whether it did. */
  async handle(request: IncomingMessage, url: URL, response: ServerResponse): Promise<boolean> {
    switch (url.pathname) {
      case "/api/v1/session":
        await this.#session(request, url, response);
        return true;
      case "/api/v1/session/sign-in":
        this.#choose(url, response);
        return true;
      case "/api/v1/session/callback":
        this.#signIn(url, response);
        return true;
      default:
        return false;
    }
  }

  async #session(request: IncomingMessage, url: URL, response: ServerResponse) {
    if (request.method === "DELETE") {
      const user = this.#signedIn(request);
      for (const [secret, owner] of this.#sessions)
        if (secret === secretOf(request) || (owner === user && url.searchParams.get("everywhere") === "true"))
          this.#sessions.delete(secret);
      response.writeHead(204, { "Set-Cookie": `${cookie}=; Path=/; Max-Age=0` }).end();
      return;
    }
    if (request.method === "POST") {
      const { token: sent } = JSON.parse(await bodyOf(request)) as { token: string };
      if (sent !== token)
        return void problem(
          response,
          401,
          "The token was not accepted",
          "the audience of the token is not scanner-operator",
        );
      response.setHeader("Set-Cookie", `${cookie}=${token}; Path=/; HttpOnly; SameSite=Strict`);
      request.headers.cookie = `${cookie}=${token}`;
    }
    json(response, this.describe(request));
  }

  /** The page of the provider. */
  #choose(url: URL, response: ServerResponse) {
    const returnTo = url.searchParams.get("returnTo") ?? "/";
    const links = this.known.map(({ user }, index) => {
      const query = new URLSearchParams({ user: String(index), returnTo }).toString();
      return `<li><a href="/api/v1/session/callback?${query}">${user}</a></li>`;
    });
    response.setHeader("Content-Type", "text/html; charset=utf-8");
    response.end(
      `<!doctype html><html lang="en"><title>${providerName}</title><h1>${providerName}</h1><ul>${links.join("")}</ul>`,
    );
  }

  #signIn({ searchParams }: URL, response: ServerResponse) {
    const user = this.known[Number(searchParams.get("user"))];
    if (!user) return void problem(response, 400, "Bad Request", "there is no such user");
    const secret = `session-${++this.#created}`;
    this.#sessions.set(secret, user);
    response
      .writeHead(303, {
        "Set-Cookie": `${cookie}=${secret}; Path=/; HttpOnly; SameSite=Strict`,
        Location: searchParams.get("returnTo") ?? "/",
      })
      .end();
  }
}

function describe({ namespaces }: MockUser): SessionNamespaces {
  const visible = namespaces?.length ?? totalNamespaces;
  return {
    all: namespaces === undefined,
    visible,
    names: namespaces ?? [],
    ...(visible > 0 && { total: totalNamespaces }),
  };
}

/** The part of the data that a user sees. */
export function visibleSums(sums: Sums, { namespaces }: MockUser): Sums {
  if (!namespaces) return sums;
  const seen = ({ workload }: { workload: { namespace: string } }) => namespaces.includes(workload.namespace);
  const workloads = sums.workloads.filter(seen);
  return workloads.length === 0
    ? { vulnerabilities: [], packages: [], workloads: [], coverage: [] }
    : { ...sums, workloads, coverage: sums.coverage.filter(seen) };
}

export function visibleImages(images: Image[], sums: Sums, { namespaces }: MockUser): Image[] {
  if (!namespaces) return images;
  const run = new Set(sums.workloads.flatMap((workload) => workload.images.map(({ imageId }) => imageId)));
  return images.filter(({ imageId }) => run.has(imageId));
}

/** What the user may do with an image, which requires the permission in each namespace that runs it, also in those that the user does not see. */
export function permissionsOf(
  { imageId }: Image,
  sums: Sums,
  { canDelete, canUpdate }: Pick<Session, "canDelete" | "canUpdate">,
  { namespaces, changesIn = namespaces }: MockUser,
): ImagePermissions {
  const everywhere = sums.workloads
    .filter(({ images }) => images.some((image) => image.imageId === imageId))
    .every(({ workload }) => !changesIn || changesIn.includes(workload.namespace));
  return { delete: canDelete && everywhere, update: canUpdate && everywhere };
}

export const visibleRollouts = (rollouts: RolloutDetail[], { namespaces }: MockUser) =>
  rollouts.filter(({ workload }) => !namespaces || namespaces.includes(workload.namespace));

const secretOf = (request: IncomingMessage) =>
  new RegExp(`${cookie}=([^;]*)`).exec(request.headers.cookie ?? "")?.[1] ?? "";

export async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

export function json(response: ServerResponse, body: unknown) {
  response.setHeader("Content-Type", "application/json");
  response.end(JSON.stringify(body));
}

export function problem(response: ServerResponse, status: number, title: string, detail?: string) {
  response.writeHead(status, { "Content-Type": "application/problem+json" });
  response.end(JSON.stringify({ type: "about:blank", title, status, detail }));
}
