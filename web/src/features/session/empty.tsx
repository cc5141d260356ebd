import { EyeOff } from "lucide-react";
import type { ReactNode } from "react";
import { NothingFound, StatePanel } from "@/components/ui/state";
import { Command } from "./command";
import { grantCommand, resource } from "./kubectl";
import { describeNamespaces, isUnseen, useHidden, useLimits } from "./namespaces";
import { useSession } from "./session";

/** How many namespaces a sentence names. */
const maxNamed = 5;

interface Props {
  /** Whether filters are set; the namespace among them, if there is one. */
  filtered: boolean;
  namespace?: string;
  /** Titles: when filters are set, and when the user does not see the whole cluster. */
  noMatch: string;
  nothing: string;
  onClear: () => void;
  /** What stands there when there is nothing in the whole cluster. */
  children: ReactNode;
}

/** Why a list is empty: because of the filters, because of what the user may see, or because there is nothing. */
export function Empty({ filtered, namespace = "", noMatch, nothing, onClear, children }: Props) {
  const limits = useLimits();
  const hidden = useHidden();
  if (filtered)
    return (
      <NothingFound title={noMatch} onClear={onClear}>
        {isUnseen(limits, namespace) ? <UnseenNamespace namespace={namespace} /> : <InOthers short />}
      </NothingFound>
    );
  if (!hidden) return children;
  return (
    <StatePanel icon={EyeOff} title={nothing}>
      <InOthers />
    </StatePanel>
  );
}

/** Says that there may be more in namespaces that the user does not see; nothing if there are none. */
export function InOthers({ short = false }: { short?: boolean }) {
  const hidden = useHidden();
  const session = useSession();
  if (!hidden || !session) return null;
  const { names, visible } = hidden;
  const named = names.length === visible && visible > 0 && visible <= maxNamed;
  const seen = `You see ${describeNamespaces(hidden)}${named ? `: ${names.join(", ")}` : ""}.`;
  if (short) return <p>{seen}</p>;
  return (
    <>
      <p>
        {seen} To see more, ask an administrator for a role that can list{" "}
        <code className="font-mono text-[13px]">{resource}</code> in other namespaces.
      </p>
      {session.user && (
        <details>
          <summary className="mx-auto w-fit rounded hover:text-ink">
            Show the command for administrators
          </summary>
          <div className="mt-2">
            <Command text={grantCommand(session)} label="Copy the command" />
          </div>
        </details>
      )}
    </>
  );
}

/** Says that the user does not see a namespace, which may exist or not. */
export function UnseenNamespace({ namespace }: { namespace: string }) {
  return (
    <p>
      The namespace <code className="font-mono text-[13px]">{namespace}</code> is not one of those that you
      see.
    </p>
  );
}
