import { FileQuestion } from "lucide-react";
import { Link, useParams } from "react-router";
import { BackLink } from "@/components/ui/back-link";
import { buttonVariants } from "@/components/ui/button";
import { LoadError } from "@/components/ui/load-error";
import { RelativeTime } from "@/components/ui/relative-time";
import { Skeleton } from "@/components/ui/skeleton";
import { ErrorPanel, StatePanel } from "@/components/ui/state";
import { InOthers } from "@/features/session/empty";
import type { RolloutDetail } from "@/gen/model";
import { imagesOfPath, rolloutsOfWorkloadPath } from "@/lib/paths";
import { ApiError } from "@/lib/problem";
import { visible } from "@/lib/text";
import { usePageTitle } from "@/lib/use-page-title";
import { placeOf } from "../columns";
import { useRollout, useRolloutEvents } from "../queries";
import { Brought } from "./brought";
import { SideCard } from "./side-card";

/** A whole number from 1 on, otherwise 0. */
const parseId = (text: string | undefined) => (/^[1-9]\d{0,15}$/.test(text ?? "") ? Number(text) : 0);

export function RolloutPage() {
  const { id: text } = useParams();
  const id = parseId(text);
  useRolloutEvents();
  const { data, error, refetch } = useRollout(id);
  usePageTitle(data ? `Rollout of ${visible(data.workload.name)}` : "Rollout");
  return (
    <>
      <BackLink to="/rollouts">Rollouts</BackLink>
      {data ? (
        <>
          {error && <LoadError error={error} onRetry={() => void refetch()} />}
          <Details rollout={data} />
        </>
      ) : id === 0 || (error instanceof ApiError && error.status === 404) ? (
        <NotKnown />
      ) : error ? (
        <ErrorPanel error={error} onRetry={() => void refetch()} />
      ) : (
        <PageSkeleton />
      )}
    </>
  );
}

const linkClass = "text-accent underline-offset-2 hover:underline";

function Details({ rollout }: { rollout: RolloutDetail }) {
  const { workload, from, to } = rollout;
  return (
    <>
      <div className="mt-2 flex flex-wrap items-end justify-between gap-x-6 gap-y-2">
        <div className="min-w-0">
          <h1 className="untrusted max-h-[50vh] overflow-y-auto text-xl leading-7 font-semibold tracking-tight">
            {visible(workload.name)}
          </h1>
          <p className="mt-0.5 flex flex-wrap gap-x-1.5 text-[13px] text-muted">
            <span className="untrusted">{placeOf(rollout)}</span>
            <span>
              · <RelativeTime iso={rollout.at} none="at an unknown time" />
            </span>
          </p>
        </div>
        <p className="flex flex-wrap gap-x-5 text-[13px] leading-7">
          <Link to={rolloutsOfWorkloadPath(workload)} className={linkClass}>
            Rollouts of this workload
          </Link>
          <Link to={imagesOfPath(workload)} className={linkClass}>
            Its images
          </Link>
        </p>
      </div>
      <div className="mt-4 grid gap-3 lg:grid-cols-2">
        <SideCard title="From" side={from} />
        <SideCard title="To" side={to} />
      </div>
      <Brought rollout={rollout} />
    </>
  );
}

function NotKnown() {
  return (
    <StatePanel
      icon={FileQuestion}
      title="Rollout not found"
      action={
        <Link to="/rollouts" className={buttonVariants({ variant: "primary" })}>
          All rollouts
        </Link>
      }
    >
      <p>The rollout does not exist or is no longer stored.</p>
      <InOthers />
    </StatePanel>
  );
}

function PageSkeleton() {
  return (
    <div role="status" className="mt-2">
      <h1 className="text-xl leading-7 font-semibold tracking-tight">Rollout</h1>
      <span className="sr-only">Loading</span>
      <Skeleton className="mt-1.5 h-4 w-56" />
      <div className="mt-4 grid gap-3 lg:grid-cols-2">
        <Skeleton className="h-28 rounded-xl" />
        <Skeleton className="h-28 rounded-xl" />
      </div>
      <Skeleton className="mt-6 h-80 rounded-xl" />
    </div>
  );
}
