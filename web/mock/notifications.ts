import type { IncomingMessage, ServerResponse } from "node:http";
import type { NotificationRule, NotificationRuleName, NotificationTest } from "../src/gen/model/index.ts";
import { bodyOf, json, problem } from "./users.ts";
import * as clock from "./clock.ts";

export interface NotificationOptions {
  /** The rules; several that show all states by default. */
  rules?: NotificationRule[];
}

const ago = (minutes: number) => new Date(clock.now() - minutes * 60_000).toISOString();
const active = { status: true, reason: "Active", message: "Changes that match are reported." };

const rules = (hostile: boolean): NotificationRule[] => [
  {
    name: "security-team",
    when: 'change.kind in ["FindingOpened", "KEVAdded"] && workload.namespaceLabels["stage"] == "production"',
    minSeverity: "High",
    groupBy: "Owner",
    schedule: "0 8 * * 1-5",
    timeZone: "Europe/Budapest",
    valid: active,
    delivering: { status: true, reason: "Delivering", message: "No message waits because of a failure." },
    lastDeliveryTime: ago(12),
    pending: 3,
    sinks: [
      {
        name: "mail",
        type: "email",
        credential: "mail",
        lastDeliveryTime: ago(12),
        pending: 2,
        delivered: 1204,
        dropped: 0,
      },
      { name: "alerts", type: "alertmanager", pending: 1, delivered: 1204, dropped: 0 },
    ],
  },
  {
    namespace: "shop",
    name: hostile ? "<script>window.__xss = 1</script>" : "exploited",
    when: hostile ? "<img src=x onerror='window.__xss = 1'>" : "finding.kev",
    groupBy: "Workload",
    valid: active,
    delivering: {
      status: false,
      reason: "DeliveryFailed",
      message: "Sink chat: the receiver answers with status 503",
    },
    lastDeliveryTime: ago(300),
    oldestPendingTime: ago(40),
    pending: 4,
    sinks: [
      {
        name: "chat",
        type: "slack",
        credential: "shop-chat",
        lastDeliveryTime: ago(300),
        pending: 4,
        delivered: 31,
        dropped: 2,
        error: "the receiver answers with status 503",
      },
    ],
  },
  {
    namespace: "shop",
    name: "typing-error",
    when: "finding.severty == 'High'",
    groupBy: "Namespace",
    valid: {
      status: false,
      reason: "Invalid",
      message: "when: line 1, column 8: undefined field 'severty'",
    },
    pending: 0,
    sinks: [{ name: "hook", type: "webhook", pending: 0, delivered: 0, dropped: 0 }],
  },
];

/** The notification rules of the mock operator. A test message fails at sinks with an error. */
export class MockNotifications {
  readonly rules: NotificationRule[];
  /** The rules that were tested. */
  readonly tested: NotificationRuleName[] = [];

  constructor(options: NotificationOptions, hostile: boolean) {
    this.rules = options.rules ?? rules(hostile);
  }

  async handle(request: IncomingMessage, response: ServerResponse) {
    if (request.method !== "POST") return void json(response, { items: this.rules });
    const asked = JSON.parse(await bodyOf(request)) as NotificationRuleName;
    this.tested.push(asked);
    const rule = this.rules.find(
      ({ namespace, name }) => namespace === asked.namespace && name === asked.name,
    );
    if (!rule?.valid?.status)
      return void problem(
        response,
        422,
        "Unprocessable Entity",
        `the rule is not valid: ${rule?.valid?.message}`,
      );
    const answer: NotificationTest = {
      results: rule.sinks.map(({ name, type, error }) => ({
        sink: name,
        type,
        delivered: !error,
        ...(error && { error }),
      })),
    };
    json(response, answer);
  }
}
