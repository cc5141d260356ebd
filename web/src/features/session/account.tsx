import { useQueryClient } from "@tanstack/react-query";
import { LogOut, MonitorX } from "lucide-react";
import type { ReactNode } from "react";
import { Button } from "@/components/ui/button";
import type { TriggerProps } from "@/components/ui/on-demand";
import { Popover, PopoverContent, PopoverTrigger } from "@/components/ui/popover";
import { useNotify } from "@/components/ui/toast";
import type { Session, SignedOut } from "@/gen/model";
import { deleteSession, getGetSessionQueryKey } from "@/gen/operator/operator";
import { plural } from "@/lib/format";
import { describeNamespaces, limitedTo, mayRematch } from "./namespaces";
import { signedOut } from "./session";

export default function Account({ session, trigger }: { session: Session; trigger: TriggerProps }) {
  const { user, displayName, method, groups = [], namespaces } = session;
  const limits = limitedTo(session);
  const name = displayName ?? user;
  return (
    <Popover defaultOpen>
      <PopoverTrigger {...trigger} />
      <PopoverContent title={name ?? "Account"}>
        <dl className="space-y-2.5 px-4 pt-2 pb-3 text-[13px]">
          {displayName && <Fact term="User">{user}</Fact>}
          <Fact term="Signed in with">{describeMethod(session)}</Fact>
          {groups.length > 0 && (
            <Fact term="Groups">
              <Names names={groups} total={groups.length} what="group" />
            </Fact>
          )}
          {namespaces && (
            <Fact term="Namespaces">
              <p>You see {describeNamespaces(namespaces)}.</p>
              {limits && <Names names={limits.names} total={limits.visible} what="namespace" />}
            </Fact>
          )}
          <Fact term="Permissions">{describeRights(session)}</Fact>
        </dl>
        {method === "frontProxy" ? (
          <p className="border-t border-line px-4 py-3 text-[13px] text-muted">
            The proxy signed you in. Sign out there: the operator cannot end its session.
          </p>
        ) : (
          <SignOutButtons everywhere={method === "provider"} />
        )}
      </PopoverContent>
    </Popover>
  );
}

function Fact({ term, children }: { term: string; children: ReactNode }) {
  return (
    <div>
      <dt className="text-xs text-muted">{term}</dt>
      <dd className="untrusted">{children}</dd>
    </div>
  );
}

function describeMethod({ method, provider }: Session): string {
  switch (method) {
    case "provider":
      return provider?.name ?? "the identity provider";
    case "frontProxy":
      return "the proxy in front of the operator";
    default:
      return "a Kubernetes token";
  }
}

function describeRights(session: Session): string {
  const { canDelete, namespaces } = session;
  const rights = [
    (!namespaces || namespaces.all || namespaces.visible > 0) && "read results",
    canDelete && "remove results",
    mayRematch(session) && "match again",
  ].filter((right) => right !== false);
  const text = rights.join(", ");
  return text === "" ? "None" : text.charAt(0).toUpperCase() + text.slice(1);
}

/** How many names are shown at once. */
const fewNames = 6;

/** Some names, and on request the others that are known. */
function Names({ names, total, what }: { names: string[]; total: number; what: string }) {
  if (names.length === 0) return null;
  const few = names.slice(0, fewNames).join(", ");
  if (total <= fewNames) return <p className="text-muted">{few}</p>;
  const rest = names.slice(fewNames);
  return (
    <>
      <p className="text-muted">{few}</p>
      <details className="text-muted">
        <summary className="w-fit rounded hover:text-ink">{plural(total - fewNames, `more ${what}`)}</summary>
        <p>
          {rest.join(", ")}
          {total > names.length && ", …"}
        </p>
      </details>
    </>
  );
}

function SignOutButtons({ everywhere }: { everywhere: boolean }) {
  const client = useQueryClient();
  const notify = useNotify();
  const signOut = async (everywhere: boolean) => {
    try {
      const out = (await deleteSession(everywhere ? { everywhere } : undefined)) as SignedOut | undefined;
      client.setQueryData<Session>(getGetSessionQueryKey(), signedOut);
      if (out?.endSessionUrl) window.location.assign(out.endSessionUrl);
    } catch (error) {
      notify.failed("Could not sign out", error);
    }
  };
  return (
    <div className="flex flex-wrap gap-2 border-t border-line px-4 py-3">
      <Button onClick={() => void signOut(false)}>
        <LogOut aria-hidden />
        Sign out
      </Button>
      {everywhere && (
        <Button onClick={() => void signOut(true)} title="End your sessions in all browsers">
          <MonitorX aria-hidden />
          Sign out everywhere
        </Button>
      )}
    </div>
  );
}
