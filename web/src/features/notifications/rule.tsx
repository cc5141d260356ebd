import { useQueryClient } from "@tanstack/react-query";
import { CircleCheck, CircleDashed, CircleX, Send, TriangleAlert, type LucideIcon } from "lucide-react";
import { useId, useState, type ReactNode } from "react";
import { Button } from "@/components/ui/button";
import { RelativeTime } from "@/components/ui/relative-time";
import { useNotify } from "@/components/ui/toast";
import { getListNotificationRulesQueryKey, testNotificationRule } from "@/gen/notifications/notifications";
import type { NotificationRule, NotificationSink, SinkTest } from "@/gen/model";
import { cn } from "@/lib/cn";
import { formatNumber } from "@/lib/format";
import { visible } from "@/lib/text";

const types: Record<NotificationSink["type"], string> = {
  webhook: "Webhook",
  alertmanager: "Alertmanager",
  slack: "Slack",
  teams: "Microsoft Teams",
  email: "Email",
};

interface Look {
  icon: LucideIcon;
  tone: string;
  label: string;
  /** What is wrong. */
  message?: string;
}

/** The worst that the conditions of a rule say. */
export function lookOf({ valid, delivering }: NotificationRule): Look {
  if (!valid) return { icon: CircleDashed, tone: "text-muted", label: "Not seen yet" };
  if (!valid.status)
    return { icon: CircleX, tone: "text-danger", label: "Not in effect", message: valid.message };
  if (delivering && !delivering.status)
    return { icon: CircleX, tone: "text-danger", label: "Delivery fails", message: delivering.message };
  if (valid.reason === "EvaluationFailed")
    return { icon: TriangleAlert, tone: "text-warn", label: "Evaluation fails", message: valid.message };
  return { icon: CircleCheck, tone: "text-ok", label: "Delivering" };
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div className="min-w-0">
      <dt className="text-xs text-muted">{name}</dt>
      <dd className="untrusted mt-0.5 text-[13px]">{children}</dd>
    </div>
  );
}

const groups: Record<string, string> = {
  Namespace: "namespace",
  Owner: "owner",
  Workload: "workload",
  Rule: "rule",
};

/** When the messages of a rule are sent, in words. */
const sending = ({ groupBy, schedule, timeZone }: NotificationRule) =>
  `One message for each ${groups[groupBy] ?? groupBy}` +
  (schedule ? `, at ${schedule} (${timeZone ?? "UTC"})` : "");

const cell = "px-4 py-2 align-top text-[13px]";

function Sink({ sink, test }: { sink: NotificationSink; test: SinkTest | undefined }) {
  return (
    <tr className="border-t border-line">
      <td className={cell}>
        <span className="untrusted font-medium">{visible(sink.name)}</span>
        <span className="untrusted block text-xs text-muted">
          {types[sink.type]}
          {sink.credential && `, credential ${visible(sink.credential)}`}
        </span>
        {sink.error && <span className="untrusted mt-1 block text-danger">{visible(sink.error)}</span>}
        {test && (
          <span className={cn("untrusted mt-1 block", test.delivered ? "text-ok" : "text-danger")}>
            {test.delivered ? "Test message accepted" : `Test failed: ${visible(test.error ?? "")}`}
          </span>
        )}
      </td>
      <td className={cn(cell, "hidden text-muted sm:table-cell")}>
        <RelativeTime iso={sink.lastDeliveryTime} />
      </td>
      <td className={cn(cell, "tabular text-right")}>{formatNumber(sink.pending)}</td>
      <td className={cn(cell, "tabular text-right")}>{formatNumber(sink.delivered)}</td>
      <td className={cn(cell, "tabular text-right", sink.dropped > 0 && "text-danger")}>
        {formatNumber(sink.dropped)}
      </td>
    </tr>
  );
}

/** A rule, with a button that sends a test message. */
export function Rule({ rule }: { rule: NotificationRule }) {
  const id = useId();
  const client = useQueryClient();
  const notify = useNotify();
  const [busy, setBusy] = useState(false);
  const [results, setResults] = useState<SinkTest[]>([]);
  const { icon: Icon, tone, label, message } = lookOf(rule);
  const name = visible(rule.namespace ? `${rule.namespace}/${rule.name}` : rule.name);
  const test = async () => {
    setBusy(true);
    setResults([]);
    try {
      const tested = await testNotificationRule({
        name: rule.name,
        ...(rule.namespace && { namespace: rule.namespace }),
      });
      setResults(tested.results);
      const failed = tested.results.filter(({ delivered }) => !delivered).length;
      if (failed === 0) notify.done("Test message sent", `All sinks of ${name} accepted it.`);
      await client.invalidateQueries({ queryKey: getListNotificationRulesQueryKey() });
    } catch (error) {
      notify.failed("Could not send a test message", error);
    } finally {
      setBusy(false);
    }
  };
  const head = "px-4 py-2 font-medium";
  return (
    <li className="overflow-hidden rounded-xl border border-line bg-surface shadow-card">
      <section aria-labelledby={id}>
        <div className="flex flex-wrap items-start justify-between gap-3 px-4 pt-4">
          <div className="min-w-0">
            <h2 id={id} className="untrusted text-base font-semibold">
              {name}
            </h2>
            <p className="text-xs text-muted">
              {rule.namespace ? "NotificationRule" : "ClusterNotificationRule"}
            </p>
          </div>
          <div className="flex flex-wrap items-center gap-3">
            <span className="flex items-center gap-1.5 text-[13px] font-medium">
              <Icon className={cn("size-4 shrink-0", tone)} aria-hidden />
              {label}
            </span>
            <Button
              size="sm"
              disabled={busy}
              onClick={() => void test()}
              aria-label={`Send test message of ${name}`}
            >
              <Send aria-hidden />
              Send test message
            </Button>
          </div>
        </div>
        {message && <p className="untrusted mx-4 mt-2 text-[13px] text-danger">{visible(message)}</p>}
        <dl className="grid grid-cols-2 gap-3 px-4 py-3 lg:grid-cols-4">
          <Fact name="Reports">
            {rule.when ? (
              <code className="font-mono text-xs break-words">{visible(rule.when)}</code>
            ) : (
              "All changes"
            )}
            {rule.minSeverity && <span className="block text-muted">{rule.minSeverity} and above</span>}
          </Fact>
          <Fact name="Sends">{sending(rule)}</Fact>
          <Fact name="Last delivery">
            <RelativeTime iso={rule.lastDeliveryTime} />
          </Fact>
          <Fact name="Waiting">
            {formatNumber(rule.pending)}
            {rule.oldestPendingTime && (
              <span className="text-warn">
                , due <RelativeTime iso={rule.oldestPendingTime} />
              </span>
            )}
          </Fact>
        </dl>
        <table className="w-full">
          <thead className="border-t border-line text-xs text-muted">
            <tr>
              <th className={cn(head, "text-left")}>Sink</th>
              <th className={cn(head, "hidden text-left sm:table-cell")}>Last delivery</th>
              <th className={cn(head, "text-right")}>Waiting</th>
              <th className={cn(head, "text-right")}>Delivered</th>
              <th className={cn(head, "text-right")}>Dropped</th>
            </tr>
          </thead>
          <tbody>
            {rule.sinks.map((sink) => (
              <Sink key={sink.name} sink={sink} test={results.find((one) => one.sink === sink.name)} />
            ))}
          </tbody>
        </table>
      </section>
    </li>
  );
}
