import { parseUntrusted, visible } from "../../../web/src/lib/text";

/** Why findings could not be read, and what a user can do about it. */
export class Failure extends Error {
  constructor(message: string, readonly advice: string) {
    super(message);
  }
}

/** How much of a message of a server is shown. */
const maxMessage = 500;

/** What Headlamp throws for a response with an error: its message ends with what the server sent, in some versions of Headlamp. */
interface RequestError {
  status?: unknown;
  message?: unknown;
}

interface Problem {
  detail?: unknown;
  title?: unknown;
}

/** Reads what the operator says in a problem document, or what another server says: if it is not `known`, it may be either. */
function messageOf({ message }: RequestError): { operator: boolean; known: boolean; text: string } {
  const text = typeof message === "string" ? message : "";
  const start = text.indexOf("{");
  try {
    const problem = parseUntrusted(text.slice(start)) as Problem;
    const detail = problem.detail ?? problem.title;
    if (start >= 0 && typeof detail === "string") {
      return { operator: true, known: true, text: detail.slice(0, maxMessage) };
    }
  } catch {
    // It is no problem document.
  }
  // The text of the status is in front of the message; HTTP/2 has none.
  return {
    operator: false,
    known: text.includes(" - "),
    text: visible(text.replace(/^ - /, "")).slice(0, maxMessage),
  };
}

/** What an error means that a request through the service proxy ended with. */
export function operatorFailure(error: unknown, namespace: string, service: string): Failure {
  const { status } = error as RequestError;
  const { operator, known, text } = messageOf(error as RequestError);
  const said = operator ? `Operator: ${text}` : text;
  switch (status) {
    case 401:
      return new Failure(
        said || "No valid credentials.",
        "The API server removes your credentials from requests to the operator. Set a ServiceAccount in the settings of this plugin. If Headlamp itself " +
          "asks you to sign in, sign in again.",
      );
    case 403:
      return new Failure(
        said || "Not permitted.",
        operator
          ? "Bind the ClusterRole scanner-operator-viewer to the ServiceAccount that the settings of this plugin name, in this namespace or in the cluster."
          : `You need the verb "get" on services/proxy for https:${service}:https in the namespace ${namespace}.` +
            (known
              ? ""
              : " The ServiceAccount that the settings of this plugin name needs the ClusterRole scanner-operator-viewer."),
      );
    case 404:
      return new Failure(
        said || "Not found.",
        `There is no Service ${service} with a port named https in the namespace ${namespace}. Install the operator, or set its namespace and Service in the settings of this plugin.`,
      );
    case 408:
      return new Failure("The operator did not answer in time.", "Try again.");
    case 429:
      return new Failure(said || "Too many requests.", "Wait a minute and try again.");
    case 503:
      return new Failure(
        said || "The operator is not available.",
        `Wait until a pod of the operator in the namespace ${namespace} is ready, and try again.`,
      );
    default:
      return new Failure(said || "The cluster did not answer.", "Try again.");
  }
}

/** What an error means that creating a token ended with. */
export function tokenFailure(error: unknown, namespace: string, name: string): Failure {
  const { status } = error as RequestError;
  const { text } = messageOf(error as RequestError);
  const what = `Cannot create a token of the ServiceAccount ${name} in the namespace ${namespace}`;
  switch (status) {
    case 401:
      return new Failure(`${what}: ${text || "not signed in"}`, "Sign in to the cluster in Headlamp again.");
    case 403:
      return new Failure(
        `${what}: ${text || "not permitted"}`,
        `You need the verb "create" on serviceaccounts/token of ${name} in the namespace ${namespace}.`,
      );
    case 404:
      return new Failure(
        `${what}: ${text || "not found"}`,
        "Create the ServiceAccount, or set another one in the settings of this plugin.",
      );
    default:
      return new Failure(`${what}: ${text || "no answer"}`, "Try again.");
  }
}
