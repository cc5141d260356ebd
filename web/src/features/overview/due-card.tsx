import { Link } from "react-router";
import { SeverityBar } from "@/components/severity";
import { LoadError } from "@/components/ui/load-error";
import { RelativeTime } from "@/components/ui/relative-time";
import type { PolicySummary } from "@/gen/model";
import { useListPolicies } from "@/gen/policies/policies";
import { formatNumber, plural } from "@/lib/format";
import { sumCounts, totalFindings } from "@/lib/severity";
import { Card, CardSkeleton, link, Panel } from "./card";

/** How many findings are overdue, how many have a due date, and when the next date is. */
export function DueCard() {
  const { data, error, refetch } = useListPolicies();
  if (data) return <Due policies={data.items} />;
  if (!error) return <CardSkeleton />;
  return (
    <Panel title="Overdue">
      <LoadError error={error} onRetry={() => void refetch()} />
    </Panel>
  );
}

function Due({ policies }: { policies: PolicySummary[] }) {
  if (policies.length === 0) {
    return (
      <Card title="Overdue" value="–" note="no policies">
        <p className="text-[13px] leading-5 text-muted">
          Findings have due dates when there is a VulnerabilityPolicy.
        </p>
      </Card>
    );
  }
  const overdue = sumCounts(policies.map((policy) => policy.overdue));
  const late = totalFindings(overdue);
  const due = totalFindings(sumCounts(policies.map((policy) => policy.due)));
  const next = policies.flatMap((policy) => policy.next ?? []).sort()[0];
  return (
    <Card title="Overdue" value={formatNumber(late)} note={`of ${plural(due, "finding")} with a due date`}>
      <SeverityBar counts={overdue} />
      <p className="mt-2 flex flex-wrap gap-x-4 text-[13px] leading-7 text-muted">
        {late > 0 && (
          <>
            <Link to="/fixes?overdue=true" className={link}>
              Overdue actions
            </Link>
            <Link to="/images?overdue=true" className={link}>
              Images
            </Link>
          </>
        )}
        <span>
          {next ? (
            <>
              Next due <RelativeTime iso={next} />
            </>
          ) : (
            "No date lies ahead"
          )}
        </span>
      </p>
    </Card>
  );
}
