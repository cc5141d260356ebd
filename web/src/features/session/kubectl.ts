import type { Session } from "@/gen/model";

/** What a user must be allowed to list. */
export const resource = "scanresults.scanner.zoltankerezsi.xyz";

const role = "scanner-operator-viewer";

/** How many groups a command names. */
const maxGroups = 20;

/** An argument as a POSIX shell reads it, whatever it contains. */
export const quote = (text: string) =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

const flag = (name: string, value: string) => `--${name}=${quote(value)}`;

/** Asks the Kubernetes API server whether a user may list results in a namespace. */
export function checkCommand({ user = "", groups = [] }: Session): string {
  // The API server adds the groups of its own by itself.
  const own = groups.filter((group) => !group.startsWith("system:")).slice(0, maxGroups);
  return [
    `kubectl auth can-i list ${resource}`,
    "--namespace=NAMESPACE",
    flag("as", user),
    ...own.map((group) => flag("as-group", group)),
  ].join(" ");
}

/** Lets a user list results in a namespace. */
export function grantCommand({ user = "" }: Session): string {
  const [, account] = /^system:serviceaccount:([^:]+:[^:]+)$/.exec(user) ?? [];
  return [
    "kubectl create rolebinding scan-results",
    "--namespace=NAMESPACE",
    flag("clusterrole", role),
    account ? flag("serviceaccount", account) : flag("user", user),
  ].join(" ");
}
