import type { Session, SessionNamespaces } from "@/gen/model";
import { plural } from "@/lib/format";
import { useSession } from "./session";

/** The namespaces of a session whose results are not those of the whole cluster; undefined for one that has them all. */
export const limitedTo = (session: Session | undefined): SessionNamespaces | undefined =>
  session?.namespaces?.all === false ? session.namespaces : undefined;

/** The namespaces that the user sees, if that is not the whole cluster. */
export const useLimits = () => limitedTo(useSession());

/** The same, if there are namespaces that the user does not see. */
export function useHidden(): SessionNamespaces | undefined {
  const limits = useLimits();
  return limits && limits.visible !== limits.total ? limits : undefined;
}

/** Whether the user may have packages matched again, which changes the results of all namespaces. */
export const mayRematch = (session: Session | undefined) =>
  session !== undefined && session.canUpdate && limitedTo(session) === undefined;

/** How much of the cluster a user sees: "3 of 40 namespaces". */
export function describeNamespaces({ all, visible, total }: SessionNamespaces): string {
  if (all) return "all namespaces";
  if (visible === 0) return "no namespaces";
  return total === undefined ? plural(visible, "namespace") : `${visible} of ${plural(total, "namespace")}`;
}

/** Whether a namespace is certainly not one of those; the names of a user who sees very many are not all known here. */
export const isUnseen = (limits: SessionNamespaces | undefined, namespace: string) =>
  limits !== undefined &&
  namespace !== "" &&
  limits.names.length === limits.visible &&
  !limits.names.includes(namespace);
