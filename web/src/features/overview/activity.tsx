import { Link } from "react-router";
import { LoadError } from "@/components/ui/load-error";
import { RelativeTime } from "@/components/ui/relative-time";
import { Skeleton } from "@/components/ui/skeleton";
import { cn } from "@/lib/cn";
import { activityKey } from "./activity-event";
import { Panel } from "./card";
import { useActivity } from "./use-activity";

/** What the operator does, as it happens. */
export function Activity() {
  const { lines, limited, missed, reading, error, retry } = useActivity();
  return (
    <Panel
      title="Activity"
      aside={
        limited && (
          <span className="text-muted">
            {missed ? "since the connection was restored" : "since you opened this page"}
          </span>
        )
      }
    >
      {error !== undefined && <LoadError error={error} onRetry={retry} />}
      <ul className="relative mt-2 min-h-56 text-[13px]">
        {lines.map((line, index) => (
          <li
            key={activityKey(line)}
            className="absolute inset-x-0 top-0 flex h-7 items-center gap-3 transition-transform duration-200"
            // Lines glide down when others come: what is about to be clicked does not jump away.
            style={{ transform: `translateY(${index * 100}%)` }}
          >
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
        {lines.length === 0 && reading && (
          <li>
            <div role="status" className="space-y-3 pt-1.5">
              <span className="sr-only">Loading activity</span>
              {Array.from({ length: 4 }, (_, index) => (
                <Skeleton key={index} className="h-4 w-full" />
              ))}
            </div>
          </li>
        )}
        {lines.length === 0 && !reading && error === undefined && (
          <li className="leading-7 text-muted">Scans, new databases, rollouts and decisions appear here.</li>
        )}
      </ul>
    </Panel>
  );
}
