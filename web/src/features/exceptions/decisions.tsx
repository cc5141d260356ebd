import { EyeOff } from "lucide-react";
import { RelativeTime } from "@/components/ui/relative-time";
import { Popover, PopoverContent, PopoverTrigger } from "@/components/ui/popover";
import type { Decision } from "@/gen/model";
import { cn } from "@/lib/cn";
import { formatDateTime } from "@/lib/format";
import { visible } from "@/lib/text";
import { justificationOf, objectOf, statusOf } from "./decision";

interface Suppressible {
  suppressed?: boolean;
  decisions?: Decision[];
}

function Entry({ decision }: { decision: Decision }) {
  return (
    <div className="space-y-0.5 border-l-2 border-line pl-3">
      <p>
        <span className="font-medium">{statusOf(decision)}</span>{" "}
        <span className="text-muted">
          {decision.expiresAt ? (
            <time dateTime={decision.expiresAt}>until {formatDateTime(decision.expiresAt)}</time>
          ) : (
            "without an end"
          )}
          {!decision.suppresses && " · does not suppress the finding"}
        </span>
      </p>
      {decision.justification && <p className="untrusted">{visible(justificationOf(decision))}</p>}
      {decision.comment && (
        <p className="untrusted max-w-prose whitespace-pre-line">{visible(decision.comment)}</p>
      )}
      <p className="untrusted text-muted">
        {visible(objectOf(decision))}, {decision.author && `by ${visible(decision.author)}, `}since{" "}
        <RelativeTime iso={decision.since} />
      </p>
    </div>
  );
}

/** The decisions about a finding, the one that takes precedence first. */
export function Decisions({ decisions }: { decisions: Decision[] }) {
  return decisions.map((decision, index) => <Entry key={index} decision={decision} />);
}

/** Says in a row that its finding is suppressed, and why. */
export function SuppressedMark({ of: { suppressed, decisions = [] } }: { of: Suppressible }) {
  const [first] = decisions;
  if (!suppressed || !first) return null;
  const text = `Suppressed: ${statusOf(first)}`;
  return (
    <span title={text} className="inline-flex shrink-0 text-muted">
      <EyeOff className="size-4" aria-hidden />
      <span className="sr-only">{text}</span>
    </span>
  );
}

/** The status of the first decision about a finding; all of them are behind it. */
export function DecisionBadge({
  of: { suppressed = false, decisions = [] },
  className,
}: {
  of: Suppressible;
  className?: string;
}) {
  const [first] = decisions;
  if (!first) return null;
  return (
    <Popover>
      <PopoverTrigger
        variant="outline"
        className={cn("relative z-1 h-6 gap-1 px-1.5 text-xs font-normal", className)}
      >
        {suppressed && (
          <>
            <EyeOff className="size-3.5" aria-hidden />
            <span className="sr-only">Suppressed: </span>
          </>
        )}
        {statusOf(first)}
      </PopoverTrigger>
      <PopoverContent title={suppressed ? "Suppressed" : "Not suppressed"}>
        <div className="space-y-3 px-4 pt-2 pb-4 text-[13px]">
          <Decisions decisions={decisions} />
        </div>
      </PopoverContent>
    </Popover>
  );
}
