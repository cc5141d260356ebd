import type { Change, ChangeKind, ChangeReason, ChangeSide } from "@/gen/model";
import { formatPercent } from "@/lib/format";
import { visible } from "@/lib/text";

export const kinds: { value: ChangeKind; label: string; look: string }[] = [
  { value: "opened", label: "Opened", look: "border-danger-line bg-danger-soft text-danger" },
  { value: "closed", label: "Closed", look: "border-line-strong bg-surface text-ok" },
  { value: "changed", label: "Changed", look: "border-warn-line bg-warn-soft text-warn" },
];

const reasonNames: Record<ChangeReason, string> = {
  severity: "severity",
  fix: "fix",
  epss: "EPSS",
  kev: "KEV",
};

/** What changed about a finding that stays, such as "severity, KEV". */
export const describeReasons = (reasons: ChangeReason[]) =>
  reasons
    .map((reason) => (reasonNames as Partial<Record<string, string>>)[reason] ?? visible(reason))
    .join(", ");

/** What is true now, or was before a finding was closed. */
export const present = ({ after, before }: Change): ChangeSide | undefined => after ?? before;

const fixStates: Record<ChangeSide["fixState"], string> = {
  fixed: "Fixed",
  "not-fixed": "Not fixed",
  "wont-fix": "Won't fix",
  unknown: "Unknown",
};

export function describeFix(side: ChangeSide | undefined): string {
  if (!side) return "–";
  const versions = side.fixVersions ?? [];
  if (side.fixState === "fixed" && versions.length > 0) return visible(versions.join(", "));
  return (fixStates as Partial<Record<string, string>>)[side.fixState] ?? "Unknown";
}

export const describeEPSS = (side: ChangeSide | undefined) =>
  side && side.epss > 0 ? formatPercent(Math.min(1, side.epss)) : "–";

/** Where the findings of a vulnerability in one image are shown. */
export const findingPath = (imageId: string, vulnerabilityId: string) =>
  `/images/${encodeURIComponent(imageId)}?q=${encodeURIComponent(vulnerabilityId.slice(0, 256))}`;
