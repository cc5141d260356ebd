import type { Workload } from "@/gen/model";
import { formatNumber } from "@/lib/format";
import { workloadName } from "@/lib/paths";
import { visible } from "@/lib/text";

/** The first of some workloads, and how many there are beside it. */
export function Workloads({ workloads, count }: { workloads: Workload[]; count: number }) {
  const [first] = workloads;
  if (!first) return <span className="text-muted">–</span>;
  return (
    <span className="flex items-center gap-1.5" title={workloads.map(workloadName).join("\n")}>
      <span className="untrusted min-w-0 truncate">
        <span className="text-muted">{visible(first.namespace)}/</span>
        {visible(first.name)}
      </span>
      {count > 1 && <span className="tabular shrink-0 text-muted">+{formatNumber(count - 1)}</span>}
    </span>
  );
}
