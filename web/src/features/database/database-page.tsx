import { useQueryClient } from "@tanstack/react-query";
import { CircleAlert, DatabaseZap } from "lucide-react";
import { useEffect, useState } from "react";
import { Button } from "@/components/ui/button";
import { Callout } from "@/components/ui/callout";
import { Skeleton } from "@/components/ui/skeleton";
import { ErrorPanel, StatePanel } from "@/components/ui/state";
import { LoadError } from "@/components/ui/load-error";
import type { DatabaseList } from "@/gen/model";
import { useAddress } from "@/lib/address";
import { usePageTitle } from "@/lib/use-page-title";
import { Builds } from "./builds";
import { Changes } from "./changes";
import { changeFilters } from "./filters";
import { InUse, Updates } from "./in-use";
import { DatabaseNotice } from "./notices";
import { finished, inUse, invalidateDatabases, underWay, useDatabases } from "./queries";
import { Rematch } from "./rematch";
import { UnderWay } from "./under-way";

/** How long after a request its work is expected to begin. */
const expectFor = 20_000;

/** Whether work that was asked for may be about to begin. */
function useExpectation() {
  const [since, setSince] = useState<number>();
  useEffect(() => {
    if (since === undefined) return;
    const timer = window.setTimeout(() => setSince(undefined), expectFor);
    return () => window.clearTimeout(timer);
  }, [since]);
  return { expected: since !== undefined, expect: () => setSince(Date.now()) };
}

export function DatabasePage() {
  usePageTitle("Database");
  const client = useQueryClient();
  const { expected, expect } = useExpectation();
  const { data, error, refetch } = useDatabases(expected);
  return (
    <>
      <div className="mb-4 flex min-h-9 flex-wrap items-center justify-between gap-3">
        <h1 className="text-xl leading-7 font-semibold tracking-tight">Vulnerability database</h1>
        {inUse(data) && (
          <Rematch
            onRequested={() => {
              expect();
              void invalidateDatabases(client);
            }}
          />
        )}
      </div>
      {data ? (
        <>
          {error && <LoadError error={error} onRetry={() => void refetch()} />}
          <DatabaseView list={data} />
        </>
      ) : error ? (
        <ErrorPanel error={error} onRetry={() => void refetch()} />
      ) : (
        <PageSkeleton />
      )}
    </>
  );
}

function DatabaseView({ list }: { list: DatabaseList }) {
  const { filters, update } = useAddress(changeFilters);
  const database = inUse(list);
  const known = finished(list);
  const chosen = known.find(({ generation }) => generation === filters.generation);
  const shown = filters.generation === undefined ? known[0] : chosen;
  return (
    <>
      <DatabaseNotice database={database} stale={list.update?.stale} />
      {database ? (
        <div className="grid gap-3 lg:grid-cols-[1.7fr_1fr]">
          <InUse database={database} />
          <Updates update={list.update} />
        </div>
      ) : (
        <NoDatabase list={list} />
      )}
      <UnderWay update={list.update} database={underWay(list)} />
      {list.items.length > 0 && <Builds databases={list.items} shown={shown} />}
      {shown ? (
        <Changes key={shown.generation} database={shown} filters={filters} update={update} />
      ) : (
        known.length > 0 && <Forgotten onShowNewest={() => update({ generation: undefined })} />
      )}
    </>
  );
}

function NoDatabase({ list: { update } }: { list: DatabaseList }) {
  return (
    <div className="grid gap-3 lg:grid-cols-[1.7fr_1fr]">
      <div className="rounded-xl border border-line bg-surface shadow-card">
        <StatePanel icon={DatabaseZap} title="No vulnerability database yet">
          <p>
            Images are matched when a database is available. Allow the operator to reach the update server, or
            import a build.
          </p>
        </StatePanel>
      </div>
      <Updates update={update} />
    </div>
  );
}

function Forgotten({ onShowNewest }: { onShowNewest: () => void }) {
  return (
    <Callout
      tone="info"
      icon={CircleAlert}
      title="This build is no longer stored"
      className="mt-6"
      action={
        <Button size="sm" onClick={onShowNewest}>
          Show newest build
        </Button>
      }
    />
  );
}

function PageSkeleton() {
  return (
    <div role="status">
      <span className="sr-only">Loading the databases</span>
      <div className="grid gap-3 lg:grid-cols-[1.7fr_1fr]">
        <Skeleton className="h-52 rounded-xl" />
        <Skeleton className="h-52 rounded-xl" />
      </div>
      <Skeleton className="mt-6 h-60 rounded-xl" />
      <Skeleton className="mt-6 h-80 rounded-xl" />
    </div>
  );
}
