import { CirclePower, Hourglass, RotateCw, WifiOff } from "lucide-react";
import type { ReactNode } from "react";
import { Button } from "@/components/ui/button";
import { Callout } from "@/components/ui/callout";
import { Skeleton } from "@/components/ui/skeleton";
import { ErrorPanel, StatePanel } from "@/components/ui/state";
import { cn } from "@/lib/cn";
import { visible } from "@/lib/text";
import type { FeedState } from "./feed";

const looks: Record<FeedState["status"], { label: string; dot: string }> = {
  online: { label: "Following", dot: "bg-ok" },
  connecting: { label: "Connecting", dot: "bg-muted animate-pulse" },
  offline: { label: "Interrupted", dot: "bg-danger" },
  stopped: { label: "Stopped", dot: "bg-muted" },
};

export function FeedStatus({ status }: { status: FeedState["status"] }) {
  const { label, dot } = looks[status];
  return (
    <span role="status" className="inline-flex items-center gap-2 text-[13px] font-medium">
      <span aria-hidden className={cn("size-2 rounded-full", dot)} />
      {label}
    </span>
  );
}

/** What stands between the feed and its messages; nothing while they come. */
export function Situation({ feed }: { feed: FeedState & { retry: () => void } }) {
  const { status, problem, lines, retry } = feed;
  if (status === "stopped") {
    return problem?.status === 404 ? (
      <SwitchedOff retry={retry} />
    ) : (
      <ErrorPanel error={problem} onRetry={retry} />
    );
  }
  if (status === "offline") return <Interrupted problem={problem} retry={retry} />;
  return lines.length === 0 ? <Starting /> : null;
}

function SwitchedOff({ retry }: { retry: () => void }) {
  return (
    <StatePanel
      role="alert"
      icon={CirclePower}
      title="The live feed is disabled"
      action={<Again onClick={retry} />}
    >
      <p>
        This operator runs without the controller <code className="font-mono text-xs">rollout</code>. Add it
        to <code className="font-mono text-xs">--controllers</code> to see messages about Deployments here.
      </p>
    </StatePanel>
  );
}

function Interrupted({ problem, retry }: Pick<FeedState, "problem"> & { retry: () => void }) {
  const [title, text] = explain(problem?.status);
  const Icon = problem && problem.status > 0 ? Hourglass : WifiOff;
  return (
    <Callout
      role="alert"
      tone="warn"
      icon={Icon}
      title={title}
      className="m-3"
      action={<Again size="sm" onClick={retry} />}
    >
      {problem?.detail && problem.status !== 426 && (
        <p className="untrusted text-[13px]">{visible(problem.detail)}</p>
      )}
      <p>{text}</p>
    </Callout>
  );
}

const byItself = "The connection is retried automatically.";

/** Title and text for the answer in place of a WebSocket; without one, the connection was lost. */
function explain(status: number | undefined): [string, string] {
  switch (status) {
    case 503:
      return ["Not ready yet", byItself];
    // What is asked over HTTP gets this answer when nothing but the WebSocket is refused.
    case 426:
      return ["The WebSocket was refused", `Too many connections may be open. ${byItself}`];
    case 429:
      return ["Too many WebSockets are open", byItself];
    case 0:
      return ["The operator cannot be reached", byItself];
    default:
      return ["The connection is interrupted", byItself];
  }
}

function Again({ size, onClick }: { size?: "sm"; onClick: () => void }): ReactNode {
  return (
    <Button size={size} onClick={onClick}>
      <RotateCw aria-hidden />
      Try again
    </Button>
  );
}

function Starting() {
  return (
    <div className="space-y-3 p-4">
      <span className="sr-only">Loading: messages</span>
      {Array.from({ length: 6 }, (_, index) => (
        <Skeleton key={index} className="h-3.5 w-80 max-w-full" />
      ))}
    </div>
  );
}
