import { Clock, ClockAlert, ShieldAlert, ShieldCheck } from "lucide-react";
import { Link } from "react-router";
import { KevMark, SeverityBadge, SeverityCounts } from "@/components/severity";
import { Callout } from "@/components/ui/callout";
import { RelativeTime } from "@/components/ui/relative-time";
import { explainReason } from "@/features/coverage/state";
import { ImageName } from "@/components/image-name";
import type { RolloutDetail, RolloutFinding, RolloutWait, SeverityCounts as Counts } from "@/gen/model";
import { cn } from "@/lib/cn";
import { formatNumber, plural } from "@/lib/format";
import { imagePath } from "@/lib/image-id";
import { vulnerabilityPath } from "@/lib/paths";
import { totalFindings } from "@/lib/severity";
import { visible } from "@/lib/text";
import { explainWait } from "../evaluation";

/** What a rollout, or another image, opened and closed, or why that is not known. */
export function Brought({
  rollout: { evaluation, opened, closed },
}: {
  rollout: Pick<RolloutDetail, "evaluation" | "opened" | "closed">;
}) {
  if (evaluation.state === "waiting") return <Waits waits={evaluation.waitingFor ?? []} />;
  if (evaluation.state === "timedOut") {
    return (
      <Callout tone="warn" icon={ClockAlert} title="Timed out" className="mt-4">
        <p>
          One of the images was not scanned in time
          {evaluation.at && (
            <>
              {" "}
              (<RelativeTime iso={evaluation.at} />)
            </>
          )}
          . The findings that this rollout opened and closed are unknown.
        </p>
      </Callout>
    );
  }
  return (
    <>
      <p className="mt-5 text-[13px] text-muted">
        {evaluation.at && (
          <>
            Evaluated <RelativeTime iso={evaluation.at} none="then" />.{" "}
          </>
        )}
        Each vulnerability of a package counts once. It is neither opened nor closed if both images have it in
        a package of this name, in any version.
      </p>
      <div className="mt-3 grid items-start gap-3 lg:grid-cols-2">
        <Findings
          title="Opened"
          findings={opened}
          counts={evaluation.opened}
          none="The new image has no vulnerability that the previous image did not have."
        />
        <Findings
          title="Closed"
          quiet
          findings={closed}
          counts={evaluation.closed}
          none="The new image has every vulnerability of the previous image."
        />
      </div>
    </>
  );
}

function Waits({ waits }: { waits: RolloutWait[] }) {
  return (
    <Callout tone="info" icon={Clock} title="Waiting until both images are scanned" className="mt-4">
      {waits.map(({ imageId, platform, reason, message }, index) => (
        <div key={index} className="pt-1">
          <p>
            <Link
              to={imagePath(imageId, platform)}
              className="text-accent underline-offset-2 hover:underline"
            >
              <ImageName imageId={imageId} />
            </Link>
          </p>
          <p className="untrusted">{visible(explainWait(reason))}.</p>
          {reason !== "NotKnown" && <p className="text-muted">{explainReason(reason)?.advice}</p>}
          {message && (
            <p className="untrusted font-mono text-xs leading-5 whitespace-pre-line">{visible(message)}</p>
          )}
        </div>
      ))}
      {waits.length === 0 && <p>Both images are scanned. This page updates automatically.</p>}
    </Callout>
  );
}

interface Props {
  title: string;
  findings: RolloutFinding[];
  counts: Counts | undefined;
  quiet?: boolean;
  none: string;
}

/** The worst findings of one list, with the numbers of all of them. */
function Findings({ title, findings, counts, quiet = false, none }: Props) {
  const total = counts ? Math.max(totalFindings(counts), findings.length) : findings.length;
  const alarming = !quiet && (counts?.critical ?? 0) > 0;
  const Icon = quiet || total === 0 ? ShieldCheck : ShieldAlert;
  return (
    <section
      aria-label={title}
      className={cn(
        "min-w-0 rounded-xl border border-line bg-surface shadow-card",
        alarming && "border-danger-line",
      )}
    >
      <div className="border-b border-line p-4">
        <h2 className="flex items-center gap-2 text-base font-semibold">
          <Icon
            className={cn(
              "size-5",
              alarming ? "text-danger" : Icon === ShieldCheck ? "text-ok" : "text-muted",
            )}
            aria-hidden
          />
          {title}
          <span className="tabular text-[13px] font-normal text-muted">{plural(total, "finding")}</span>
        </h2>
        {counts && <SeverityCounts counts={counts} quiet={quiet} className="mt-3 max-w-100" />}
      </div>
      {findings.length === 0 ? (
        <p className="p-4 text-[13px] text-muted">{none}</p>
      ) : (
        <ul className="divide-y divide-line">
          {findings.map((finding, index) => (
            <Finding key={index} finding={finding} />
          ))}
        </ul>
      )}
      {total > findings.length && (
        <p className="tabular border-t border-line px-4 py-2.5 text-[13px] text-muted">
          and {formatNumber(total - findings.length)} more
        </p>
      )}
    </section>
  );
}

function Finding({ finding }: { finding: RolloutFinding }) {
  return (
    <li className="grid max-h-[50vh] overflow-y-auto grid-cols-[5.5rem_minmax(0,1fr)_auto] items-center gap-x-3 px-4 py-2 text-[13px]">
      <span>
        <SeverityBadge severity={finding.severity} />
      </span>
      <span className="flex min-w-0 flex-wrap gap-x-3">
        <Link
          to={vulnerabilityPath(finding.vulnerabilityId)}
          className="untrusted text-accent underline-offset-2 hover:underline"
        >
          {visible(finding.vulnerabilityId)}
        </Link>
        <span className="untrusted">{visible(finding.package)}</span>
      </span>
      <span className="flex items-center gap-2">
        {finding.kev && <KevMark />}
        {finding.fixable && <span className="text-xs text-ok">fixable</span>}
      </span>
    </li>
  );
}
