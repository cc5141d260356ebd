import { expect, test } from "vitest";
import { operatorFailure, tokenFailure } from "./failure";

const problem = (status: number, text: string, detail: string) => ({
  status,
  message: `${text} - ${JSON.stringify({
    type: "about:blank",
    title: text,
    status,
    detail,
  })}`,
});

const proxyRefused =
  'Forbidden - services "https:scanner:https" is forbidden: User "ann" cannot get resource "services/proxy" in API group "" in the namespace "sys"';

test.each([
  [
    "no right to the proxy",
    { status: 403, message: proxyRefused },
    "services/proxy",
    'You need the verb "get" on services/proxy for https:scanner:https',
  ],
  [
    "no right to results",
    problem(403, "Forbidden", 'user "a" is not allowed to list scanresults'),
    "Operator: user",
    "ClusterRole scanner-operator-viewer",
  ],
  ["no token", problem(401, "Unauthorized", "no token"), "Operator: no token", "Set a ServiceAccount"],
  [
    "an older Headlamp, which does not say who refused",
    { status: 403, message: "Forbidden" },
    "Forbidden",
    "services/proxy",
  ],
  [
    "an older Headlamp, and the other right",
    { status: 403, message: "Forbidden" },
    "Forbidden",
    "scanner-operator-viewer",
  ],
  [
    "no Service",
    { status: 404, message: 'Not Found - services "scanner" not found' },
    "not found",
    "no Service scanner with a port named https in the namespace sys",
  ],
  [
    "no pod",
    { status: 503, message: "Service Unavailable - no endpoints available" },
    "no endpoints",
    "is ready",
  ],
  ["no response in time", { status: 408, message: "" }, "did not answer in time", "Try again"],
  ["too many requests", problem(429, "Too Many Requests", "limit"), "Operator: limit", "Wait"],
  ["no connection", { status: 502, message: "Unreachable" }, "Unreachable", "Try again"],
  ["no error at all", undefined, "did not answer", "Try again"],
])("%s", (_, error, message, advice) => {
  const failure = operatorFailure(error ?? {}, "sys", "scanner");
  expect(failure.message).toContain(message);
  expect(failure.advice).toContain(advice);
});

test("what a token needs", () => {
  expect(tokenFailure({ status: 403, message: "Forbidden" }, "shop", "viewer").advice).toContain(
    'the verb "create" on serviceaccounts/token of viewer in the namespace shop',
  );
  expect(tokenFailure({ status: 404, message: "Not Found" }, "shop", "viewer").advice).toContain(
    "Create the ServiceAccount",
  );
  expect(tokenFailure({ status: 401, message: "Unauthorized" }, "shop", "viewer").advice).toContain(
    "Sign in",
  );
  expect(tokenFailure({}, "shop", "viewer").message).toContain(
    "ServiceAccount viewer in the namespace shop: no answer",
  );
});

test("names one permission if it is known who refused", () => {
  const { message, advice } = operatorFailure(
    { status: 403, message: proxyRefused.slice("Forbidden".length) },
    "sys",
    "scanner",
  );
  expect(message).toMatch(/^services "https:scanner:https" is forbidden/);
  expect(advice).not.toContain("ClusterRole");
});

test("messages are short and visible", () => {
  const hostile = operatorFailure(problem(500, "Error", "a\u202eb\n".repeat(1000)), "sys", "scanner");
  expect(hostile.message.length).toBeLessThan(600);
  expect(hostile.message).not.toContain("\u202e");
  expect(operatorFailure({ status: 500, message: "\u0000x" }, "sys", "scanner").message).toBe("\ufffdx");
});
