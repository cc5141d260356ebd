import { describe, expect, it } from "vitest";
import type { Session } from "@/gen/model";
import { checkCommand, grantCommand, quote } from "./kubectl";

const session = (user: string, groups?: string[]): Session => ({
  auth: "kubernetes",
  authenticated: true,
  canDelete: false,
  canUpdate: false,
  user,
  groups,
});

describe("arguments", () => {
  it.each([
    ["alice@example.com", "alice@example.com"],
    ["a b", "'a b'"],
    ["$(reboot)`reboot`", "'$(reboot)`reboot`'"],
    ["';reboot;'", "''\\'';reboot;'\\'''"],
    ["a\nb", "'a\nb'"],
    ["", "''"],
  ])("%j is quoted as %j", (text, want) => {
    expect(quote(text)).toBe(want);
  });
});

describe("commands", () => {
  it("name the groups of a user, but not those that the API server adds", () => {
    expect(checkCommand(session("-x", ["system:authenticated", "a"]))).toBe(
      "kubectl auth can-i list scanresults.scanner.zoltankerezsi.xyz --namespace=NAMESPACE --as=-x --as-group=a",
    );
  });

  it("are bounded", () => {
    const groups = Array.from({ length: 500 }, (_, index) => `group-${index}`);
    expect(checkCommand(session("a", groups)).match(/--as-group/g)).toHaveLength(20);
  });

  it.each([
    ["alice", "--user=alice"],
    ["system:serviceaccount:ci:scans", "--serviceaccount=ci:scans"],
    ["system:serviceaccount:odd", "--user=system:serviceaccount:odd"],
  ])("grant the role to %s", (user, want) => {
    expect(grantCommand(session(user))).toBe(
      `kubectl create rolebinding scan-results --namespace=NAMESPACE --clusterrole=scanner-operator-viewer ${want}`,
    );
  });
});
