import { SeverityBar } from "@/components/severity";
import { ShareBar } from "@/components/share-bar";
import { DatabaseNotice } from "@/features/database/notices";
import { LoadError } from "@/components/ui/load-error";
import type { Filters } from "@/features/images/list/filters";
import { useLimits } from "@/features/session/namespaces";
import { useGetOverview } from "@/gen/images/images";
import type { Counts, ImageState, Overview as Data, Severity } from "@/gen/model";
import { useListPolicies } from "@/gen/policies/policies";
import { formatCompact, formatNumber } from "@/lib/format";
import { severities, severityBar, totalFindings } from "@/lib/severity";
import { Skeleton } from "@/components/ui/skeleton";
import { box, Card, FilterButton } from "@/features/overview/card";

interface Props {
  filters: Filters;
  update: (change: Partial<Filters>) => void;
}

/** Images by state and findings by severity, which filter the list. */
export function ImageSummary({ filters, update }: Props) {
  const { data, error, refetch } = useGetOverview();
  if (!data) {
    // The list below says what is wrong; the same words twice would not help.
    return error ? null : <SummarySkeleton />;
  }
  return (
    <section aria-label="Summary" className="mb-5">
      {error && <LoadError error={error} onRetry={() => void refetch()} />}
      <DatabaseNotice database={data.database} stale={data.databaseStale} />
      <div className="grid gap-3 md:grid-cols-2 xl:grid-cols-[1fr_1.35fr]">
        <ImagesCard images={data.images} active={filters.state} onPick={(state) => update({ state })} />
        <FindingsCard
          counts={data.counts}
          suppressed={data.suppressed ?? 0}
          active={filters.severity}
          onPick={(severity) => update({ severity })}
          overdue={filters.overdue}
          onPickOverdue={(overdue) => update({ overdue })}
        />
      </div>
    </section>
  );
}

const states: { state: ImageState; key: keyof Data["images"]; bar: string }[] = [
  { state: "Scanned", key: "scanned", bar: "bg-accent" },
  { state: "Reported", key: "reported", bar: "bg-accent/50" },
  { state: "Cataloged", key: "cataloged", bar: "bg-low-bar" },
  { state: "Pending", key: "pending", bar: "bg-unknown-bar" },
  { state: "Failed", key: "failed", bar: "bg-danger" },
];

function ImagesCard({
  images,
  active,
  onPick,
}: {
  images: Data["images"];
  active: ImageState[];
  onPick: (state: ImageState[]) => void;
}) {
  const total = states.reduce((sum, { key }) => sum + images[key], 0);
  const known = images.scanned + images.reported;
  const share = total === 0 ? "none yet" : `${Math.floor((100 * known) / total)}% with results`;
  return (
    <Card title="Images" value={formatNumber(total)} note={share}>
      <ShareBar
        parts={states.map(({ state, key, bar }) => ({ name: state, count: images[key], bar }))}
        label={states.map(({ state, key }) => `${images[key]} ${state}`).join(", ")}
      />
      <div className="-mx-2 mt-2 flex flex-wrap gap-x-0.5">
        {states.map(({ state, key, bar }) => (
          <FilterButton
            key={key}
            label={state}
            hint={`Show images in state ${state}`}
            value={formatCompact(images[key])}
            swatch={bar}
            pressed={active.length === 1 && active[0] === state}
            onPress={(pressed) => onPick(pressed ? [state] : [])}
          />
        ))}
      </div>
    </Card>
  );
}

function FindingsCard({
  counts,
  suppressed,
  active,
  onPick,
  overdue,
  onPickOverdue,
}: {
  counts: Counts;
  suppressed: number;
  active: Severity | undefined;
  onPick: (severity: Severity | undefined) => void;
  overdue: boolean;
  onPickOverdue: (overdue: boolean) => void;
}) {
  const limits = useLimits();
  const { data: policies } = useListPolicies();
  const where = limits ? "in your namespaces" : "in all images";
  const note = suppressed > 0 ? `${where}, ${formatCompact(suppressed)} suppressed` : where;
  return (
    <Card title="Findings" value={formatNumber(totalFindings(counts))} note={note}>
      <SeverityBar counts={counts} />
      <div className="-mx-2 mt-2 flex flex-wrap gap-x-0.5">
        {severities.map(({ key, name }) => (
          <FilterButton
            key={key}
            label={name}
            hint={`Show images with findings of severity ${name}${name === "Critical" ? "" : " or worse"}`}
            value={formatCompact(counts[key])}
            swatch={severityBar[key]}
            pressed={active === name}
            onPress={(pressed) => onPick(pressed ? name : undefined)}
          />
        ))}
        {policies && policies.items.length > 0 && (
          <FilterButton
            label="Overdue"
            hint="Show images with findings whose due date has passed"
            value={formatCompact(
              policies.items.reduce((sum, policy) => sum + totalFindings(policy.overdue), 0),
            )}
            swatch="bg-danger"
            pressed={overdue}
            onPress={onPickOverdue}
          />
        )}
      </div>
    </Card>
  );
}

function SummarySkeleton() {
  return (
    <div role="status" className="mb-5 grid gap-3 md:grid-cols-2 xl:grid-cols-[1fr_1.35fr]">
      <span className="sr-only">Loading the sums of images and findings</span>
      <LegendSkeleton />
      <LegendSkeleton />
    </div>
  );
}

/** As tall as a card with one line of legend: the list below does not move when the sums arrive. */
function LegendSkeleton() {
  return (
    <div className={box}>
      <div aria-hidden className="relative flex items-baseline gap-2 text-[13px]">
        <span className="text-2xl leading-8">&nbsp;</span>
        <span className="font-medium">&nbsp;</span>
        <Skeleton className="absolute top-1 left-0 h-6 w-24" />
      </div>
      <div className="mt-2.5">
        <Skeleton className="h-2 w-full" />
        <div className="mt-2 flex h-7 items-center">
          <Skeleton className="h-4 w-3/4" />
        </div>
      </div>
    </div>
  );
}
