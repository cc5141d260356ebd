import { CircleCheck, CircleDashed, CircleSlash, CircleX, History, type LucideIcon } from "lucide-react";
import { explain } from "@/features/images/state";
import type { CoverageState, CoverageSummary, FailureReason } from "@/gen/model";
import { cn } from "@/lib/cn";

export const states: {
  state: CoverageState;
  key: Exclude<keyof CoverageSummary, "ratio">;
  icon: LucideIcon;
  tone: string;
  bar: string;
  hint: string;
}[] = [
  {
    state: "Scanned",
    key: "scanned",
    icon: CircleCheck,
    tone: "text-ok",
    bar: "bg-accent",
    hint: "There is a result of the database in use",
  },
  {
    state: "Stale",
    key: "stale",
    icon: History,
    tone: "text-accent",
    bar: "bg-accent/50",
    hint: "There is a result of an earlier database",
  },
  {
    state: "Pending",
    key: "pending",
    icon: CircleDashed,
    tone: "text-muted",
    bar: "bg-low-bar",
    hint: "The work is not done yet",
  },
  {
    state: "Failed",
    key: "failed",
    icon: CircleX,
    tone: "text-danger",
    bar: "bg-danger",
    hint: "The last attempt failed",
  },
  {
    state: "Skipped",
    key: "skipped",
    icon: CircleSlash,
    tone: "text-muted",
    bar: "bg-unknown-bar",
    hint: "Left out on purpose",
  },
];

export function CoverageBadge({ state }: { state: CoverageState }) {
  const look = states.find((entry) => entry.state === state);
  const Icon = look?.icon ?? CircleDashed;
  return (
    <span title={look?.hint} className="flex items-center gap-1.5 text-[13px] leading-5 font-medium">
      <Icon className={cn("size-4 shrink-0", look?.tone)} aria-hidden />
      {state}
    </span>
  );
}

const reasons: Partial<Record<string, { what: string; advice: string }>> = {
  NotPulled: {
    what: "The image has not been pulled yet",
    advice: "It is scanned once the node has pulled it; see the events of the pod if that takes long.",
  },
  NotCatalogued: {
    what: "There is no SBOM of the image yet",
    advice: "A scan job reads its packages as soon as there is a free slot.",
  },
  NotMatched: {
    what: "The SBOM has not been matched with the database in use yet",
    advice: "This happens by itself within minutes.",
  },
  NoDatabase: {
    what: "There is no vulnerability database",
    advice: "The SBOM is kept and matched as soon as there is one; see the page of the database.",
  },
  IgnoreLabel: {
    what: "A label leaves it out",
    advice: "Remove the label from the pod or its namespace to have it scanned.",
  },
};

/** Why a container is in its state, in words; nothing when there is no reason. */
export const explainReason = (reason: string | undefined) =>
  reason ? (reasons[reason] ?? explain(reason as FailureReason)) : undefined;

/** Share of the containers that have a result in whole percent, rounded down: 100% means all of them. */
export const formatRatio = (ratio: number) => `${Math.floor(100 * Math.min(1, Math.max(0, ratio)) + 1e-9)}%`;

export const containersOf = (summary: CoverageSummary) =>
  states.reduce((sum, { key }) => sum + summary[key], 0);
