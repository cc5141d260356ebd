import type { Fix, FixState } from "@/gen/model";
import { visible } from "./text";

const fixStates: Record<FixState, string> = {
  fixed: "Fixed",
  "not-fixed": "Not fixed",
  "wont-fix": "Won't fix",
  unknown: "Unknown",
};

/** The versions that contain the fix, or the fix state if there are none. */
export function fixedIn({ fix }: { fix: Fix }): { text: string; fixed: boolean } {
  const versions = fix.versions ?? [];
  if (fix.state === "fixed" && versions.length > 0)
    return { text: visible(versions.join(", ")), fixed: true };
  return { text: (fixStates as Partial<Record<string, string>>)[fix.state] ?? "Unknown", fixed: false };
}
