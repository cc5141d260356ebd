import { WifiOff } from "lucide-react";
import { useEffect, useState } from "react";
import { Button } from "@/components/ui/button";
import { cn } from "@/lib/cn";
import type { LiveStatus } from "@/lib/live";
import { useLive } from "./live-provider";

const looks: Record<LiveStatus, { label: string; dot: string; title: string }> = {
  online: { label: "Online", dot: "bg-ok", title: "Live updates are active" },
  connecting: {
    label: "Connecting",
    dot: "bg-muted animate-pulse",
    title: "Connecting to live updates",
  },
  offline: { label: "Offline", dot: "bg-danger", title: "Live updates are interrupted" },
};

export function LiveBadge() {
  const { status } = useLive();
  const { label, dot, title } = looks[status];
  return (
    <span
      role="status"
      title={title}
      className="inline-flex h-7 items-center gap-2 rounded-full border border-line bg-surface px-2.5 text-[13px] font-medium"
    >
      <span aria-hidden className={cn("size-2 rounded-full", dot)} />
      <span className="max-sm:sr-only">{label}</span>
    </span>
  );
}

const patience = 2500;

/** Says that what is shown may be old; a short interruption is not worth a word. */
export function OfflineBanner() {
  const { status } = useLive();
  return status === "offline" ? <LateBanner /> : null;
}

function LateBanner() {
  const { reconnect } = useLive();
  const [late, setLate] = useState(false);
  useEffect(() => {
    const timer = window.setTimeout(() => setLate(true), patience);
    return () => window.clearTimeout(timer);
  }, []);
  if (!late) return null;
  return (
    <div role="status" className="border-b border-warn-line bg-warn-soft">
      <div className="mx-auto flex max-w-[100rem] items-center gap-3 px-4 py-2 text-sm sm:px-6">
        <WifiOff className="size-4 shrink-0 text-warn" aria-hidden />
        <p className="min-w-0 flex-1">
          Live updates are interrupted. The page reconnects and, until then, refreshes every 30 seconds.
        </p>
        <Button size="sm" onClick={reconnect}>
          Reconnect now
        </Button>
      </div>
    </div>
  );
}
