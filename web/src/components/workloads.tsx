import type { Workload } from "@/gen/model";
import { formatNumber } from "@/lib/format";
import { workloadName } from "@/lib/paths";
import { visible } from "@/lib/text";

/** Who is responsible for a workload. */
export function Owner({ workload: { owner } }: { workload: Workload }) {
  if (owner === undefined) return <span className="text-muted">–</span>;
  return (
    <span className="untrusted block truncate" title={visible(owner)}>
      {visible(owner)}
    </span>
  );
}

/** The owners of some workloads, each once. */
const ownersOf = (workloads: Workload[]) => [
  ...new Set(workloads.flatMap(({ owner }) => (owner === undefined ? [] : [owner]))),
];

interface Props {
  workloads: Workload[];
  /** Number of all workloads, which can be more than are named. */
  count: number;
  /** The owners of all of them. */
  owners?: string[];
}

/** The first of some workloads, how many there are beside it, and whose they are. */
export function Workloads({ workloads, count, owners = ownersOf(workloads) }: Props) {
  const [first] = workloads;
  if (!first) return <span className="text-muted">–</span>;
  return (
    <>
      <span className="flex items-center gap-1.5" title={workloads.map(workloadName).join("\n")}>
        <span className="untrusted min-w-0 truncate">
          <span className="text-muted">{visible(first.namespace)}/</span>
          {visible(first.name)}
        </span>
        {count > 1 && <span className="tabular shrink-0 text-muted">+{formatNumber(count - 1)}</span>}
      </span>
      {owners.length > 0 && (
        <span className="untrusted block truncate text-xs text-muted" title={owners.map(visible).join("\n")}>
          {owners.map(visible).join(", ")}
        </span>
      )}
    </>
  );
}
