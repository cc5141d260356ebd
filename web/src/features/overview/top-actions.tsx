import { Hourglass, ShieldCheck } from "lucide-react";
import { Link } from "react-router";
import { KevMark } from "@/components/severity";
import { LoadError } from "@/components/ui/load-error";
import { Skeleton } from "@/components/ui/skeleton";
import { listFixes } from "@/gen/images/images";
import type { FixItem } from "@/gen/model";
import { useQuery } from "@tanstack/react-query";
import { formatRisk, plural } from "@/lib/format";
import { parseImageId } from "@/lib/image-id";
import { sumsKey } from "@/lib/lists";
import { fixesOfImagePath } from "@/lib/paths";
import { totalFindings } from "@/lib/severity";
import { visible } from "@/lib/text";
import { link, Panel } from "./card";

const shown = 7;

/** The actions that remove the most risk. Findings without a fix, which come last, leave nothing to do. */
export function TopActions() {
  const { data, error, refetch } = useQuery({
    queryKey: [...sumsKey, "top-fixes"],
    queryFn: ({ signal }) => listFixes({ pageSize: shown }, { signal }),
  });
  const actions = data?.items.filter(({ action }) => action !== "wait") ?? [];
  return (
    <Panel
      title="Fix first"
      aside={
        data && (
          <Link to="/fixes" className={link}>
            All actions
          </Link>
        )
      }
    >
      {error && <LoadError error={error} onRetry={() => void refetch()} />}
      {data && actions.length === 0 && (
        <p className="mt-3 flex items-center gap-2 text-[13px] text-muted">
          {data.items.length > 0 ? (
            <>
              <Hourglass className="size-4" aria-hidden />
              Nothing to do until there is a fix.
            </>
          ) : (
            <>
              <ShieldCheck className="size-4 text-ok" aria-hidden />
              Nothing to do: no image has findings that count.
            </>
          )}
        </p>
      )}
      <ol className="mt-2 divide-y divide-line lg:min-h-100">
        {!data && !error && Array.from({ length: shown }, (_, index) => <ActionSkeleton key={index} />)}
        {actions.map((row, index) => (
          <li key={index} className="py-2.5">
            <Action row={row} />
          </li>
        ))}
      </ol>
    </Panel>
  );
}

/** As high as an action. */
const ActionSkeleton = () => (
  <li aria-hidden className="py-2.5">
    <span className="flex text-sm max-sm:min-h-[2lh]">
      <Skeleton className="my-0.5 h-4 w-3/4" />
    </span>
    <span className="flex text-xs">
      <Skeleton className="my-0.5 h-3 w-1/2" />
    </span>
  </li>
);

function Action({ row }: { row: FixItem }) {
  const { name } = parseImageId(visible(row.imageId));
  const findings = totalFindings(row.counts);
  return (
    <Link to={fixesOfImagePath(row.imageId)} className="group block rounded">
      <span className="flex items-start gap-3">
        <span
          className="untrusted line-clamp-2 min-w-0 flex-1 text-sm font-medium group-hover:underline max-sm:min-h-[2lh]"
          title={visible(row.summary)}
        >
          {visible(row.summary)}
        </span>
        {row.counts.kev > 0 && <KevMark />}
        <span className="tabular shrink-0 text-sm font-medium" title="How much risk the action removes">
          <span className="font-normal text-muted">Risk</span> {formatRisk(row.risk)}
        </span>
      </span>
      <span className="tabular flex min-w-0 gap-x-3 text-xs text-muted">
        <span className="untrusted min-w-0 truncate" title={visible(row.imageId)}>
          {name}
        </span>
        <span className="ml-auto shrink-0">
          {plural(findings, "finding")}, {plural(row.workloadCount, "workload")}
        </span>
      </span>
    </Link>
  );
}
