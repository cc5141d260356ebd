import { fixedIn } from "@/features/images/detail/finding";
import type { Fix } from "@/gen/model";
import { cn } from "@/lib/cn";

/** The versions that fix it, or that there are none. */
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
