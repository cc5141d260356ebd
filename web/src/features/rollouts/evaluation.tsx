import { CircleCheck, Clock, ClockAlert, ShieldAlert } from "lucide-react";
import type { ReactNode } from "react";
import { Link } from "react-router";
import { SeverityCounts } from "@/components/severity";
import { RelativeTime } from "@/components/ui/relative-time";
import { explainReason } from "@/features/coverage/state";
import type { RolloutEvaluation, RolloutWait, SeverityCounts as Counts } from "@/gen/model";
import { cn } from "@/lib/cn";
import { imagePath, parseImageId } from "@/lib/image-id";
import { totalFindings } from "@/lib/severity";
import { visible } from "@/lib/text";

const none: Counts = { critical: 0, high: 0, medium: 0, low: 0, negligible: 0, unknown: 0 };

/** Why a rollout waits for an image, in words. */
export function explainWait(reason: string): string {
  if (reason === "NotKnown") return "The image is no longer stored";
  return explainReason(reason)?.what ?? reason;
}

/**
 * What a rollout did to what is vulnerable, in two lines at most; or why that is not known. It is of one height, so that nothing moves when a rollout is
 * evaluated.
 */
export const Evaluation = ({ evaluation }: { evaluation: RolloutEvaluation }) => (
  <span className="grid min-h-12.5 grid-cols-[minmax(0,1fr)] content-center">
    <Evaluated evaluation={evaluation} />
  </span>
);

function Evaluated({ evaluation }: { evaluation: RolloutEvaluation }) {
  switch (evaluation.state) {
    case "evaluated":
      return <Changes opened={evaluation.opened ?? none} closed={evaluation.closed ?? none} />;
    case "waiting":
      return <Waiting waits={evaluation.waitingFor ?? []} />;
    case "timedOut":
      return (
        <Line icon={<ClockAlert className="size-4 shrink-0 text-warn" aria-hidden />}>
          <span className="block truncate">Timed out: an image was not scanned in time</span>
          {evaluation.at && (
            <span className="block truncate text-xs text-muted">
              <RelativeTime iso={evaluation.at} />
            </span>
          )}
        </Line>
      );
  }
}

function Line({ icon, children }: { icon: ReactNode; children: ReactNode }) {
  return (
    <span className="flex items-center gap-2 text-[13px]">
      {icon}
      <span className="min-w-0">{children}</span>
    </span>
  );
}

function Changes({ opened, closed }: { opened: Counts; closed: Counts }) {
  if (totalFindings(opened) + totalFindings(closed) === 0) {
    return (
      <Line icon={<CircleCheck className="size-4 shrink-0 text-ok" aria-hidden />}>
        No findings opened or closed
      </Line>
    );
  }
  const critical = opened.critical > 0;
  return (
    <span className="grid grid-cols-[3.5rem_minmax(0,18.75rem)] sm:grid-cols-[5rem_minmax(0,18.75rem)] items-center gap-x-2 gap-y-0.5 text-xs">
      <span className={cn("flex items-center gap-1.5", critical && "font-semibold text-danger")}>
        {critical && <ShieldAlert className="size-4 shrink-0 max-sm:hidden" aria-hidden />}
        Opened
      </span>
      <SeverityCounts counts={opened} />
      <span className="text-muted">Closed</span>
      <SeverityCounts counts={closed} quiet />
    </span>
  );
}

/** Two lines, however many images it waits for: one that is scanned leaves the other where it is. */
function Waiting({ waits }: { waits: RolloutWait[] }) {
  const single = waits.length === 1;
  return (
    <Line icon={<Clock className="size-4 shrink-0 text-muted" aria-hidden />}>
      {waits.length === 0 && (
        <>
          <span className="block truncate">Waiting for evaluation</span>
          <span className="block truncate text-muted">Both images are scanned</span>
        </>
      )}
      {waits.map((wait, index) => (
        <span
          key={index}
          className="block truncate"
          title={visible(wait.message ?? explainWait(wait.reason))}
        >
          Waiting for{" "}
          <Link
            to={imagePath(wait.imageId, wait.platform)}
            title={visible(wait.imageId)}
            className="untrusted relative text-accent underline underline-offset-2"
          >
            {parseImageId(visible(wait.imageId)).name}
          </Link>
          <span className={cn("untrusted text-muted", single && "block truncate")}>
            {!single && ": "}
            {visible(explainWait(wait.reason))}
          </span>
        </span>
      ))}
    </Line>
  );
}
