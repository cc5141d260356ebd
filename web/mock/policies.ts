import type { PolicyList } from "../src/gen/model/index.ts";
import * as clock from "./clock.ts";

const none = { critical: 0, high: 0, medium: 0, low: 0, negligible: 0, unknown: 0 };

/** Policies of which the first has findings that are overdue. */
export const makePolicies = (count: number): PolicyList => ({
  items: Array.from({ length: count }, (_, index) => ({
    name: `policy-${index}`,
    from: "firstSeen" as const,
    dueIn: { critical: 7, high: 30 },
    due: { ...none, critical: 40, high: 160 },
    overdue: index === 0 ? { ...none, critical: 3, high: 14 } : none,
    next: new Date(clock.now() + (index + 2) * 86_400_000).toISOString(),
  })),
});
