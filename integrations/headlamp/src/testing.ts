import type { FixPage, ImagePage, VulnerabilityPage, WorkloadPage } from "../../../web/src/gen/model";
import type { Request } from "./client";

// Responses in the form of openapi/openapi.yaml, which the types of the UI follow, for tests.

const zero = {
  critical: 0,
  high: 0,
  medium: 0,
  low: 0,
  negligible: 0,
  unknown: 0,
  kev: 0,
  fixable: 0,
};
const imageId = `registry.example.com/shop/web@sha256:${"1e".repeat(32)}`;
const counts = { ...zero, critical: 1, high: 2, low: 3, kev: 1, fixable: 4 };

export interface Pages {
  workloads: WorkloadPage;
  images: ImagePage;
  vulnerabilities: VulnerabilityPage;
  fixes: FixPage;
}

export const nothing: Pages = {
  workloads: { items: [], total: 0 },
  images: { items: [], total: 0 },
  vulnerabilities: { items: [], total: 0 },
  fixes: { items: [], total: 0 },
};

export const pages: Pages = {
  workloads: {
    items: [
      {
        workload: { namespace: "shop", kind: "Deployment", name: "web" },
        images: [{ imageId, platform: "linux/amd64" }],
        imageCount: 1,
        scanned: 1,
        containers: 1,
        counts,
        overdue: 2,
      },
    ],
    total: 1,
  },
  images: {
    items: [
      {
        imageId,
        platform: "linux/amd64",
        state: "Scanned",
        counts,
        packages: 120,
        size: 0,
        firstSeen: "2026-11-01T00:00:00Z",
        matchedAt: "2026-11-01T00:01:00Z",
        attempts: 0,
      },
    ],
    total: 1,
  },
  vulnerabilities: {
    items: [
      {
        id: "CVE-2021-44228",
        severity: "Critical",
        epss: 0.94,
        risk: 98.5,
        kev: true,
        fixable: true,
        images: 1,
        workloads: 1,
        packages: 1,
      },
    ],
    total: 37,
  },
  fixes: {
    items: [
      {
        action: "update",
        summary: "Update log4j-core from 2.14.1 to 2.17.1",
        imageId,
        platform: "linux/amd64",
        counts: { ...zero, critical: 1, high: 1, kev: 1, fixable: 2 },
        overdue: 1,
        risk: 120,
        packages: [],
        packageCount: 1,
        workloads: [],
        workloadCount: 1,
      },
    ],
    total: 1,
  },
};

export interface Sent {
  path: string;
  params: Parameters<Request>[1];
  autoLogout: boolean;
}

export const json = (body: unknown, headers: Record<string, string> = {}) =>
  new Response(JSON.stringify(body), { headers });

/** A request function that returns pages and tokens, and a list of what was sent. */
export function cluster(
  answers: Pages,
  expires = "2026-11-26T12:10:00Z",
): { sent: Sent[]; request: Request } {
  const sent: Sent[] = [];
  return {
    sent,
    request: (path, params, autoLogout) => {
      sent.push({ path, params, autoLogout });
      if (path.endsWith("/token")) {
        return Promise.resolve(
          json({
            status: {
              token: `token-${sent.length}`,
              expirationTimestamp: expires,
            },
          }),
        );
      }
      const resource = /\/proxy\/api\/v1\/(\w+)\?/.exec(path)?.[1] as keyof Pages;
      return Promise.resolve(json(answers[resource]));
    },
  };
}

/** A request function that fails as that of Headlamp does. */
export const refused =
  (status: number, message: string): Request =>
  () =>
    Promise.reject(Object.assign(new Error(message), { status }));
