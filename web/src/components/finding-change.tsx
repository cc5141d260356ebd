import { Link } from "react-router";
import { SeverityBadge, SeverityCounts } from "@/components/severity";
import type { RolloutFinding, SeverityCounts as Counts } from "@/gen/model";
import { formatNumber } from "@/lib/format";
import { vulnerabilityPath } from "@/lib/paths";
import { totalFindings } from "@/lib/severity";
import { visible } from "@/lib/text";

/** Findings that are listed. */
const maxShown = 5;

/** What an update closes, opens or leaves open: a row of a list of definitions with two columns. */
export function FindingChange({
  name,
  counts,
  findings = [],
}: {
  name: string;
  counts: Counts;
  findings?: RolloutFinding[];
}) {
  const total = totalFindings(counts);
  return (
    <>
      <dt className="font-medium">{name}</dt>
      <dd className="min-w-0">
        {total === 0 ? (
          <span className="text-muted">nothing</span>
        ) : (
          <SeverityCounts counts={counts} className="w-75 max-w-full" />
        )}
      </dd>
      {findings.length > 0 && (
        <dd className="col-span-2 flex flex-wrap gap-x-3 gap-y-1 text-xs">
          {findings.slice(0, maxShown).map(({ vulnerabilityId, severity, package: pkg }, index) => (
            <span key={index} className="flex min-w-0 items-center gap-1.5">
              <SeverityBadge severity={severity} />
              <Link
                to={vulnerabilityPath(vulnerabilityId)}
                title={visible(pkg)}
                className="untrusted truncate text-accent underline-offset-2 hover:underline"
              >
                {visible(vulnerabilityId)}
              </Link>
            </span>
          ))}
          {total > maxShown && (
            <span className="text-muted">{`and ${formatNumber(total - maxShown)} more`}</span>
          )}
        </dd>
      )}
    </>
  );
}
