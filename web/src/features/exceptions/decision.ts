import type { Decision, DecisionStatus } from "@/gen/model";

export const statuses: Record<DecisionStatus, string> = {
  NotAffected: "Not affected",
  FalsePositive: "False positive",
  AcceptedRisk: "Accepted risk",
  UnderInvestigation: "Under investigation",
  Fixed: "Fixed",
  Affected: "Affected",
};

export const statusOf = ({ status }: Pick<Decision, "status">) => statuses[status];

/** The justification of VEX in words. */
export const justificationOf = ({ justification }: { justification?: string }) => {
  const words = (justification ?? "").replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
};

/** The object that a decision comes from, as kubectl takes it. */
export const objectOf = ({ object: { kind, namespace, name } }: Pick<Decision, "object">) =>
  `${kind} ${namespace ? `${namespace}/` : ""}${name}`;
