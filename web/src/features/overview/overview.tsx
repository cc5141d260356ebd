import { Link } from "react-router";
import { SeverityBar } from "@/components/severity";
import { RelativeTime } from "@/components/ui/relative-time";
import { Skeleton } from "@/components/ui/skeleton";
import { Stat } from "@/components/ui/stat";
import { formatRatio } from "@/features/coverage/state";
import { DatabaseNotice, sources } from "@/features/database/notices";
import { LoadError } from "@/components/ui/load-error";
import type { Filters } from "@/features/images/list/filters";
import { useLimits } from "@/features/session/namespaces";
import { useGetOverview } from "@/gen/images/images";
import type { Counts, ImageState, Overview as Data, Severity, SeverityCounts } from "@/gen/model";
import { useListPolicies } from "@/gen/policies/policies";
import { cn } from "@/lib/cn";
import { formatCompact, formatNumber } from "@/lib/format";
import { severities, severityBar, totalFindings } from "@/lib/severity";
import { Card, FilterButton } from "./card";

interface Props {
  filters: Filters;
  update: (change: Partial<Filters>) => void;
}

export function Overview({ filters, update }: Props) {
  const { data, error, refetch } = useGetOverview();
  if (!data) {
    // The list below says what is wrong; the same words twice would not help.
    return error ? null : <OverviewSkeleton />;
  }
  return (
    <section aria-label="Overview" className="mb-5">
      {error && <LoadError error={error} onRetry={() => void refetch()} />}
      <DatabaseNotice database={data.database} stale={data.databaseStale} />
      <div className="grid gap-3 md:grid-cols-2 xl:grid-cols-[1fr_1.35fr_0.9fr]">
        <ImagesCard images={data.images} active={filters.state} onPick={(state) => update({ state })} />
        <FindingsCard
          counts={data.counts}
          suppressed={data.suppressed ?? 0}
          active={filters.severity}
          onPick={(severity) => update({ severity })}
          overdue={filters.overdue}
          onPickOverdue={(overdue) => update({ overdue })}
        />
        <DatabaseCard data={data} />
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
      <span
        role="img"
        aria-label={states.map(({ state, key }) => `${images[key]} ${state}`).join(", ")}
        className="flex h-2 gap-px overflow-hidden rounded-full bg-subtle"
      >
        {states.map(
          ({ key, bar }) =>
            images[key] > 0 && (
              <span
                key={key}
                className={cn("min-w-0.5", bar)}
                style={{ width: `${(100 * images[key]) / total}%` }}
              />
            ),
        )}
      </span>
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
              policies.items.reduce((sum, policy) => sum + allSeverities(policy.overdue), 0),
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

const allSeverities = (counts: SeverityCounts) =>
  (Object.values(counts) as number[]).reduce((sum, count) => sum + count, 0);

function DatabaseCard({ data: { database, packages, counts, changes, coverage } }: { data: Data }) {
  return (
    <div className="flex flex-col justify-between gap-4 rounded-xl border border-line bg-surface p-4 shadow-card md:col-span-2 xl:col-span-1">
      <dl className={cn("grid gap-3", coverage ? "grid-cols-4" : "grid-cols-3")}>
        {coverage && (
          <Stat label="Coverage" title="Percentage of containers with a scan result">
            <Link to="/coverage" className="rounded underline-offset-4 hover:underline">
              {formatRatio(coverage.ratio)}
            </Link>
          </Stat>
        )}
        <Stat
          label="Exploited"
          title="Findings that are known to be exploited (CISA KEV)"
          danger={counts.kev > 0}
        >
          {formatCompact(counts.kev)}
        </Stat>
        <Stat label="Fixable" title="Findings for which a fixed version exists">
          {formatCompact(counts.fixable)}
        </Stat>
        <Stat label="Packages" title="Distinct packages in all images">
          {formatCompact(packages)}
        </Stat>
      </dl>
      <div className="space-y-1 border-t border-line pt-3 text-[13px] text-muted">
        {database ? (
          <p>
            <Link to="/database" className={link}>
              Vulnerability database
            </Link>
            : built <RelativeTime iso={database.built} className="text-ink" />
            {`, ${sources[database.source]}`}
          </p>
        ) : (
          <p>No vulnerability database yet. Images are matched when a database is available.</p>
        )}
        {changes && (
          <p>
            Changes from the previous database:{" "}
            <Link to="/database" className={cn(link, "tabular")}>
              {`${formatNumber(changes.opened)} opened, ${formatNumber(changes.closed)} closed`}
            </Link>
          </p>
        )}
      </div>
    </div>
  );
}

const link = "text-accent underline decoration-accent/40 underline-offset-2 hover:decoration-accent";

function OverviewSkeleton() {
  return (
    <div role="status" className="mb-5 grid gap-3 md:grid-cols-2 xl:grid-cols-[1fr_1.35fr_0.9fr]">
      <span className="sr-only">Loading the overview</span>
      {[0, 1, 2].map((card) => (
        <div
          key={card}
          className={cn(
            "h-36 space-y-4 rounded-xl border border-line bg-surface p-4 shadow-card",
            card === 2 && "md:col-span-2 xl:col-span-1",
          )}
        >
          <Skeleton className="h-6 w-24" />
          <Skeleton className="h-2 w-full" />
          <Skeleton className="h-4 w-3/4" />
        </div>
      ))}
    </div>
  );
}
