import { BellOff, Info } from "lucide-react";
import { Callout } from "@/components/ui/callout";
import { LoadError } from "@/components/ui/load-error";
import { PageTitle } from "@/components/ui/page-title";
import { Skeleton } from "@/components/ui/skeleton";
import { ErrorPanel, StatePanel } from "@/components/ui/state";
import { useListNotificationRules } from "@/gen/notifications/notifications";
import { plural } from "@/lib/format";
import { Rule } from "./rule";

/** No message tells of deliveries: the operator is asked from time to time. */
const poll = 15_000;

/** The notification rules, with what became of their messages. */
export function NotificationsPage() {
  const { data, error, refetch } = useListNotificationRules({ query: { refetchInterval: poll } });
  const retry = () => void refetch();
  return (
    <>
      <PageTitle
        title="Notifications"
        hint="Rules that send messages about changes, and what became of their messages."
      />
      {data ? (
        <>
          {error && <LoadError error={error} onRetry={retry} />}
          {data.omitted !== undefined && (
            <Callout tone="info" icon={Info} title={`${plural(data.omitted, "further rule")} not shown`} />
          )}
          <ul className="mt-3 grid gap-3" aria-label="Notification rules">
            {data.items.map((rule) => (
              <Rule key={`${rule.namespace ?? ""}/${rule.name}`} rule={rule} />
            ))}
          </ul>
          {data.items.length === 0 && (
            <div className="rounded-xl border border-line bg-surface shadow-card">
              <StatePanel icon={BellOff} title="No notification rules">
                <p>
                  A NotificationRule sends messages about changes in its namespace, a ClusterNotificationRule
                  about changes in the cluster. Create one with kubectl or from Git.
                </p>
              </StatePanel>
            </div>
          )}
        </>
      ) : error ? (
        <ErrorPanel error={error} onRetry={retry} />
      ) : (
        <div role="status">
          <span className="sr-only">Loading the rules</span>
          <Skeleton className="h-52 rounded-xl" />
        </div>
      )}
    </>
  );
}
