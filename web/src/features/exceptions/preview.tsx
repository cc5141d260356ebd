import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { CircleAlert } from "lucide-react";
import { useEffect, useState } from "react";
import { Callout } from "@/components/ui/callout";
import { Skeleton } from "@/components/ui/skeleton";
import { useHidden } from "@/features/session/namespaces";
import { previewException } from "@/gen/exceptions/exceptions";
import type { ExceptionPreview, PreviewedException, PreviewedWorkload } from "@/gen/model";
import { plural } from "@/lib/format";
import { workloadName } from "@/lib/paths";
import { describe } from "@/lib/problem";
import { visible } from "@/lib/text";

const settle = 400;
/** Workloads that are listed. */
const maxShown = 8;

/** A value that is the newest one as soon as it no longer changes. */
function useSettledValue<Value>(value: Value): Value {
  const key = JSON.stringify(value);
  const [settled, setSettled] = useState({ key, value });
  useEffect(() => {
    if (key === settled.key) return;
    const timer = window.setTimeout(() => setSettled({ key, value }), settle);
    return () => window.clearTimeout(timer);
  }, [key, value, settled.key]);
  return settled.value;
}

/** What an exception would do. It is asked for when the exception no longer changes. */
export function usePreview(exception: PreviewedException, enabled: boolean) {
  const settled = useSettledValue(exception);
  const settling = JSON.stringify(settled) !== JSON.stringify(exception);
  const query = useQuery({
    queryKey: ["exception preview", settled],
    queryFn: ({ signal }) => previewException(settled, { signal }),
    placeholderData: keepPreviousData,
    gcTime: 0,
    enabled,
  });
  return {
    preview: query.data,
    error: query.error,
    /** What is shown is of an earlier exception. */
    busy: enabled && (query.isFetching || settling),
  };
}

const verdict = ({ suppresses, closed, findings, images }: ExceptionPreview) =>
  suppresses
    ? `${plural(closed, "finding")} will no longer count${findings > closed ? `, ${plural(findings - closed, "finding")} stay suppressed` : ""}, in ${plural(images, "image")}.`
    : `${plural(findings, "finding")} in ${plural(images, "image")} match. They continue to count.`;

function Row({ workload: { findings, ...workload } }: { workload: PreviewedWorkload }) {
  return (
    <li className="flex items-baseline justify-between gap-3">
      <span className="untrusted min-w-0 truncate" title={workloadName(workload)}>
        {workloadName(workload)}
        {workload.owner && <span className="text-muted"> · {visible(workload.owner)}</span>}
      </span>
      <span className="tabular shrink-0 text-muted">{plural(findings, "finding")}</span>
    </li>
  );
}

/** Shows how many findings an exception closes, on which workloads, and why it would be rejected. */
export function Preview({ preview, error, busy }: ReturnType<typeof usePreview>) {
  const hidden = useHidden();
  if (error) {
    const { title, detail } = describe(error);
    return (
      <Callout
        tone="danger"
        icon={CircleAlert}
        title={`Could not compute the preview: ${title}`}
        role="alert"
      >
        {detail && <p className="untrusted">{detail}</p>}
      </Callout>
    );
  }
  return (
    <section aria-label="Preview" aria-busy={busy} className="space-y-3 text-[13px]">
      {!preview ? (
        <div role="status" className="space-y-2">
          <span className="sr-only">Computing the preview</span>
          <Skeleton className="h-4 w-72 max-w-full" />
          <Skeleton className="h-3.5 w-52 max-w-full" />
        </div>
      ) : (
        <>
          <div role="status">
            <p className="text-sm font-medium">{verdict(preview)}</p>
            {preview.reopened > 0 && <p>{plural(preview.reopened, "finding")} will count again.</p>}
            {preview.suppressed > 0 && (
              <p className="text-muted">
                {plural(preview.suppressed, "more finding", "more findings")} match and are suppressed by
                other exceptions.
              </p>
            )}
            <p className="text-muted">
              {preview.workloadCount === 0
                ? "No workload runs them."
                : `${plural(preview.workloadCount, "workload")} in ${plural(preview.namespaceCount, "namespace")} run them.`}
              {hidden && " Only namespaces that you may see are counted."}
            </p>
          </div>
          {preview.workloads.length > 0 && (
            <ul aria-label="Workloads" className="space-y-0.5">
              {preview.workloads.slice(0, maxShown).map((workload) => (
                <Row key={workloadName(workload)} workload={workload} />
              ))}
              {preview.workloadCount > maxShown && (
                <li className="text-muted">
                  and {plural(preview.workloadCount - maxShown, "more workload")}
                </li>
              )}
            </ul>
          )}
          {preview.problems.map(({ reason, message }) => (
            <Callout
              key={reason + message}
              tone="danger"
              icon={CircleAlert}
              title={problems[reason]}
              role="alert"
            >
              <p className="untrusted">{visible(message)}</p>
            </Callout>
          ))}
        </>
      )}
    </section>
  );
}

/** What keeps an exception from being applied. */
export const problems: Record<ExceptionPreview["problems"][number]["reason"], string> = {
  Expired: "The exception would have expired already",
  Invalid: "The exception is invalid",
  TooBroad: "The exception matches too many findings",
  TooMany: "There are too many exceptions",
};
