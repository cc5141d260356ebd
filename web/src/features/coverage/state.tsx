import {
  CircleCheck,
  CircleDashed,
  CircleDotDashed,
  CircleSlash,
  CircleX,
  History,
  type LucideIcon,
} from "lucide-react";
import { ShareBar } from "@/components/share-bar";
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
    hint: "Scanned with the current database",
  },
  {
    state: "Partial",
    key: "partial",
    icon: CircleDotDashed,
    tone: "text-warn",
    bar: "bg-medium",
    hint: "Scanned, but some files of the image could not be read",
  },
  {
    state: "Stale",
    key: "stale",
    icon: History,
    tone: "text-accent",
    bar: "bg-accent/50",
    hint: "Scanned with an earlier database",
  },
  {
    state: "Pending",
    key: "pending",
    icon: CircleDashed,
    tone: "text-muted",
    bar: "bg-low-bar",
    hint: "Not scanned yet",
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
    hint: "Excluded from scanning",
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

/** The shares of the states as one bar. */
export function CoverageBar({ summary, className }: { summary: CoverageSummary; className?: string }) {
  return (
    <ShareBar
      parts={states.map(({ state, key, bar }) => ({ name: state, count: summary[key], bar }))}
      label={states.map(({ state, key }) => `${summary[key]} ${state}`).join(", ")}
      className={className}
    />
  );
}

const reasons: Partial<Record<string, { what: string; advice: string }>> = {
  NotPulled: {
    what: "The image has not been pulled yet",
    advice:
      "The image is scanned after the node has pulled it. If this takes long, check the events of the pod.",
  },
  NotCataloged: {
    what: "The image has no SBOM yet",
    advice: "A scan job starts when the maximum of concurrent scans allows it.",
  },
  NotMatched: {
    what: "The SBOM has not been matched with the current database yet",
    advice: "Matching starts automatically within minutes.",
  },
  FilesUnreadable: {
    what: "Some files of the image could not be read",
    advice:
      "Packages may be missing. Let the scan pull the image from its registry (spec.job.source of the Scanner), or let scan pods run in a user namespace.",
  },
  NoDatabase: {
    what: "There is no vulnerability database",
    advice: "The SBOM is stored and matched when a database is available. See the Database page.",
  },
  IgnoreLabel: {
    what: "Excluded by a label",
    advice: "To scan the container, remove the label from the pod or its namespace.",
  },
};

/** Why a container is in its state, in words; nothing when there is no reason. */
export const explainReason = (reason: string | undefined) =>
  reason ? (reasons[reason] ?? explain(reason as FailureReason)) : undefined;

/** Percentage of containers with a scan result in whole percent, rounded down: 100% means all of them. */
export const formatRatio = (ratio: number) => `${Math.floor(100 * Math.min(1, Math.max(0, ratio)) + 1e-9)}%`;

export const containersOf = (summary: CoverageSummary) =>
  states.reduce((sum, { key }) => sum + summary[key], 0);
