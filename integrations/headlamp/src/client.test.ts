import { expect, test, vi } from "vitest";
import { Client, type Request } from "./client";
import { Failure } from "./failure";
import { defaults } from "./settings";
import { cluster, json, nothing, pages, refused } from "./testing";

const web = { namespace: "shop", kind: "Deployment", name: "web" };
const noon = Date.parse("2026-11-26T12:00:00Z");
const never = new AbortController().signal;

const read = (request: Request, settings = defaults, signal = never) =>
  new Client(request, "main", () => noon).results(settings, web, signal);

async function failureOf(result: Promise<unknown>): Promise<Failure> {
  const error = await result.then(
    () => undefined,
    (error: unknown) => error,
  );
  expect(error).toBeInstanceOf(Failure);
  return error as Failure;
}

test("reads bounded lists of one workload through the service proxy", async () => {
  const { sent, request } = cluster(pages);
  const results = await read(request);
  expect(results).toEqual({
    workload: pages.workloads.items[0],
    images: pages.images,
    vulnerabilities: pages.vulnerabilities,
    fixes: pages.fixes,
  });
  const proxy =
    "/api/v1/namespaces/scanner-system/services/https:scanner-controller-manager-api-service:https/proxy/api/v1";
  const selected = "namespace=shop&workload=web&workloadKind=Deployment";
  expect(sent.map(({ path }) => path)).toEqual([
    `${proxy}/workloads?${selected}&pageSize=1`,
    `${proxy}/images?${selected}&sort=-severity&pageSize=20`,
    `${proxy}/vulnerabilities?${selected}&sort=-risk&pageSize=10`,
    `${proxy}/fixes?${selected}&pageSize=3`,
  ]);
  for (const { params, autoLogout } of sent) {
    expect(params).toMatchObject({
      cluster: "main",
      isJSON: false,
      timeout: 20_000,
      headers: { Accept: "application/json" },
    });
    expect(params.headers).not.toHaveProperty("X-Scanner-Authorization");
    expect(autoLogout).toBe(false);
  }
});

test("sends a token for the operator alone, and keeps it until shortly before it ends", async () => {
  const { sent, request } = cluster(pages);
  let now = noon;
  const client = new Client(request, "main", () => now);
  const settings = { ...defaults, serviceAccount: "viewer" };
  const readAt = async (time: number) => {
    now = time;
    sent.length = 0;
    await client.results(settings, web, never);
    return sent.map(({ path }) => path).filter((path) => path.endsWith("/token"));
  };
  expect(await readAt(noon)).toEqual(["/api/v1/namespaces/shop/serviceaccounts/viewer/token"]);
  expect(JSON.parse(sent[0]?.params.body as string)).toMatchObject({
    kind: "TokenRequest",
    spec: { audiences: ["scanner-operator"], expirationSeconds: 600 },
  });
  for (const { params } of sent.slice(1)) {
    expect(params.headers).toMatchObject({
      "X-Scanner-Authorization": "Bearer token-1",
    });
    expect(params.headers).not.toHaveProperty("Authorization");
  }
  expect(await readAt(noon + 7 * 60_000)).toEqual([]);
  expect(await readAt(noon + 8 * 60_000)).toHaveLength(1);
});

test("creates another token after a failure", async () => {
  const { sent, request } = cluster(pages);
  let refusing = false;
  const client = new Client(
    (path, ...rest) =>
      refusing && path.includes("/proxy/")
        ? refused(401, "Unauthorized")(path, ...rest)
        : request(path, ...rest),
    "main",
    () => noon,
  );
  const results = () => client.results({ ...defaults, serviceAccount: "teams/viewer" }, web, never);
  await results();
  refusing = true;
  expect((await failureOf(results())).advice).toContain("Set a ServiceAccount");
  refusing = false;
  await results();
  const tokens = sent.filter(({ path }) => path === "/api/v1/namespaces/teams/serviceaccounts/viewer/token");
  expect(tokens).toHaveLength(2);
});

test("says which right a token needs", async () => {
  const failure = await failureOf(read(refused(403, "Forbidden"), { ...defaults, serviceAccount: "viewer" }));
  expect(failure.advice).toContain("serviceaccounts/token of viewer in the namespace shop");
});

test("sends nothing with settings that are no names", async () => {
  const { sent, request } = cluster(pages);
  const failure = await failureOf(read(request, { ...defaults, namespace: "a/../../secrets" }));
  expect(failure.advice).toContain("settings");
  expect(sent).toEqual([]);
});

test.each([
  ["no JSON", () => new Response("<html>")],
  ["no list", () => json({ kind: "Status" })],
  ["null", () => json(null)],
  ["a list without a total", () => json({ items: [] })],
])("refuses %s", async (_, response) => {
  const failure = await failureOf(read(() => Promise.resolve(response())));
  expect(failure.message).toContain("not what this plugin expects");
});

test("refuses a body beyond the limit without reading all of it", async () => {
  let sent = 0;
  const endless = () =>
    new Response(
      new ReadableStream({
        pull: (controller) => {
          sent++;
          controller.enqueue(new Uint8Array(1 << 20));
        },
      }),
    );
  const failure = await failureOf(read(() => Promise.resolve(endless())));
  expect(failure.message).toContain("exceeds the limit of 4194304 bytes");
  expect(sent).toBeLessThan(40);
});

test("refuses responses from the cache of Headlamp", async () => {
  const failure = await failureOf(
    read(() => Promise.resolve(json(nothing.images, { "X-HEADLAMP-CACHE": "true" }))),
  );
  expect(failure.advice).toContain("--cache-enabled");
});

/** Ends with the signal, and as the request of Headlamp says it then. */
const silent: Request = (_, { signal }) =>
  new Promise((_resolve, reject) => {
    const end = () => reject(Object.assign(new Error("Unreachable"), { status: 502 }));
    if (signal?.aborted) end();
    signal?.addEventListener("abort", end);
  });

test("gives up after a while", async () => {
  vi.useFakeTimers();
  try {
    const result = failureOf(read(silent));
    await vi.advanceTimersByTimeAsync(20_000);
    expect((await result).message).toContain("did not answer in time");
  } finally {
    vi.useRealTimers();
  }
});

test("gives up when the page is left", async () => {
  const left = new AbortController();
  const result = failureOf(read(silent, defaults, left.signal));
  left.abort();
  await result;
});

test("replaces invisible characters in texts of others", async () => {
  const { request } = cluster({
    ...nothing,
    fixes: {
      items: [{ ...pages.fixes.items[0]!, summary: "Update a\u202eb" }],
      total: 1,
    },
  });
  expect((await read(request)).fixes.items[0]?.summary).toBe("Update a\ufffdb");
});
