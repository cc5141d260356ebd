import type { LabelSelector } from "@/gen/model";

type Requirement = NonNullable<LabelSelector["matchExpressions"]>[number];

const maxRequirements = 20;
const maxValues = 50;
// The names of labels, maybe with a prefix, and their values.
const keyPattern = /^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/;
const valuePattern = /^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$/;

const hint = "Write labels as kubectl takes them, for example app=web,tier in (a,b),!debug.";

/** The requirement that a part of a selector states. */
function requirementOf(part: string): Requirement {
  const set = /^(\S+)\s+(in|notin)\s*\(([^()]*)\)$/.exec(part);
  if (set)
    return {
      key: set[1] ?? "",
      operator: set[2] === "in" ? "In" : "NotIn",
      values: (set[3] ?? "").split(",").map((value) => value.trim()),
    };
  const equal = /^([^\s=!]+)\s*(==?|!=)\s*([^\s=!]*)$/.exec(part);
  if (equal)
    return { key: equal[1] ?? "", operator: equal[2] === "!=" ? "NotIn" : "In", values: [equal[3] ?? ""] };
  const absent = /^!\s*(\S+)$/.exec(part);
  return absent ? { key: absent[1] ?? "", operator: "DoesNotExist" } : { key: part, operator: "Exists" };
}

const valid = ({ key, values = [] }: Requirement) =>
  keyPattern.test(key) &&
  values.length <= maxValues &&
  new Set(values).size === values.length &&
  values.every((value) => valuePattern.test(value));

/** Reads a label selector as kubectl takes it. An empty text selects everything. */
export function parseSelector(text: string): { selector: LabelSelector } | { error: string } {
  // Commas within parentheses are not between requirements.
  const parts = text.trim() === "" ? [] : text.split(/,(?![^(]*\))/).map((part) => part.trim());
  const requirements = parts.map(requirementOf);
  if (!requirements.every(valid)) return { error: hint };
  if (requirements.length > maxRequirements)
    return { error: `A selector has at most ${maxRequirements} labels.` };
  const matchLabels: Record<string, string> = {};
  const matchExpressions: Requirement[] = [];
  for (const one of requirements) {
    const [value, ...others] = one.values ?? [];
    if (one.operator === "In" && value !== undefined && others.length === 0 && !(one.key in matchLabels))
      matchLabels[one.key] = value;
    else matchExpressions.push(one);
  }
  return {
    selector: {
      ...(Object.keys(matchLabels).length > 0 && { matchLabels }),
      ...(matchExpressions.length > 0 && { matchExpressions }),
    },
  };
}

function describeRequirement({ key, operator, values = [] }: Requirement): string {
  switch (operator) {
    case "Exists":
      return key;
    case "DoesNotExist":
      return `!${key}`;
    default:
      return `${key} ${operator === "In" ? "in" : "notin"} (${values.join(",")})`;
  }
}

/** Writes a label selector as kubectl takes it; empty for one that selects everything. */
export const describeSelector = ({ matchLabels = {}, matchExpressions = [] }: LabelSelector): string =>
  [
    ...Object.entries(matchLabels).map(([key, value]) => `${key}=${value}`),
    ...matchExpressions.map(describeRequirement),
  ].join(",");
