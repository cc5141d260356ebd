import { LoadError } from "@/components/ui/load-error";
import { PageTitle } from "@/components/ui/page-title";
import { DatabaseNotice } from "@/features/database/notices";
import { NoImages } from "@/features/images/list/no-images";
import { Empty } from "@/features/session/empty";
import { useGetOverview } from "@/gen/images/images";
import type { Overview } from "@/gen/model";
import { Activity } from "./activity";
import { CardSkeleton, PanelSkeleton } from "./card";
import { ChangesCard } from "./changes-card";
import { CoverageCard } from "./coverage-card";
import { DatabaseAge, DatabaseCard } from "./database-card";
import { DueCard } from "./due-card";
import { FindingsCard } from "./findings-card";
import { TopActions } from "./top-actions";
import { Trend } from "./trend";

const cards = "grid gap-3 md:grid-cols-2 xl:grid-cols-4";
const panels = "my-3 grid gap-3 lg:grid-cols-2 xl:grid-cols-[1.3fr_1fr]";

/** The first page: whether everything is covered, what got worse, what is due and what to do now. */
export function OverviewPage() {
  const { data, error, refetch } = useGetOverview();
  return (
    <>
      <PageTitle
        title="Overview"
        hint="What runs in the cluster, what is known about it, and what to do first."
      />
      {error && <LoadError error={error} onRetry={() => void refetch()} />}
      {data ? <Content data={data} /> : !error && <OverviewSkeleton />}
    </>
  );
}

function Content({ data }: { data: Overview }) {
  const images = Object.values(data.images).reduce((sum, count) => sum + count, 0);
  if (images === 0) {
    return (
      <>
        <DatabaseNotice database={data.database} stale={data.databaseStale} />
        <Empty filtered={false} noMatch="" nothing="No images in your namespaces" onClear={() => undefined}>
          <NoImages />
        </Empty>
        <p className="text-center text-[13px] text-muted">
          <DatabaseAge database={data.database} />
        </p>
      </>
    );
  }
  return (
    <>
      <DatabaseNotice database={data.database} stale={data.databaseStale} />
      <div className={cards}>
        {data.coverage && <CoverageCard coverage={data.coverage} />}
        <FindingsCard data={data} />
        {/* As high as its skeleton, though it says little without policies: what is below stays where it is. */}
        <div className="grid min-h-36">
          <DueCard />
        </div>
        <DatabaseCard data={data} />
      </div>
      <div className={panels}>
        <TopActions />
        <div className="grid content-start gap-3">
          {/* Of one height before and after the changes are known: the activity below stays where it is. */}
          <div className="grid min-h-45 max-sm:min-h-90">
            <ChangesCard />
          </div>
          <Activity />
        </div>
      </div>
      <Trend />
    </>
  );
}

function OverviewSkeleton() {
  return (
    <div role="status">
      <span className="sr-only">Loading the overview</span>
      <div className={cards}>
        {[0, 1, 2, 3].map((card) => (
          <CardSkeleton key={card} />
        ))}
      </div>
      <div className={panels}>
        <PanelSkeleton />
        <PanelSkeleton className="max-lg:hidden" />
      </div>
    </div>
  );
}
