import type { Fix } from "@/gen/model";
import { cn } from "@/lib/cn";
import { fixedIn } from "@/lib/fix";

/** The versions that contain the fix, or the fix state if there are none. */
export function FixedIn({ fix }: { fix: Fix }) {
  const { text, fixed } = fixedIn({ fix });
  return (
    <span
      className={cn(
        "untrusted block truncate",
        fixed ? "font-mono text-xs text-ok" : "text-[13px] text-muted",
      )}
      title={text}
    >
      {text}
    </span>
  );
}
