import { Link } from "react-router";
import { RelativeTime } from "@/components/ui/relative-time";
import { cn } from "@/lib/cn";
import { activityKey } from "./activity-event";
import { Panel } from "./card";
import { useActivity } from "./use-activity";

/** What the operator does, as it happens. */
export function Activity() {
  const lines = useActivity();
  return (
    <Panel title="Activity">
      <ul className="mt-2 min-h-56 text-[13px]">
        {lines.map((line) => (
          <li key={activityKey(line)} className="flex h-7 items-center gap-3">
            <Link
              to={line.to}
              title={line.text}
              className={cn(
                "untrusted min-w-0 flex-1 truncate underline-offset-2 hover:underline",
                line.tone === "bad" && "text-danger",
              )}
            >
              {line.text}
            </Link>
            <RelativeTime iso={line.at} className="shrink-0 text-xs text-muted" />
          </li>
        ))}
        {lines.length === 0 && (
          <li className="leading-7 text-muted">Scans, new databases, rollouts and decisions appear here.</li>
        )}
      </ul>
    </Panel>
  );
}
