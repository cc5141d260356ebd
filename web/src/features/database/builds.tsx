import { useState } from "react";
import { Link, useSearchParams } from "react-router";
import { Button } from "@/components/ui/button";
import { RelativeTime } from "@/components/ui/relative-time";
import type { Database, DatabaseState } from "@/gen/model";
import { cn } from "@/lib/cn";
import { formatNumber } from "@/lib/format";
import { visible } from "@/lib/text";
import { changeFilters } from "./filters";
import { sources } from "./notices";

const few = 4;

const looks: Record<DatabaseState, { label: string; dot: string }> = {
  Preparing: { label: "Comparing", dot: "bg-medium" },
  Matching: { label: "Matching", dot: "bg-medium" },
  Current: { label: "In use", dot: "bg-ok" },
  Past: { label: "Past", dot: "bg-unknown-bar" },
};

function State({ state }: { state: DatabaseState }) {
  const { label, dot } = looks[state];
  return (
    <span className="inline-flex items-center gap-2 text-[13px]">
      <span aria-hidden className={cn("size-2 rounded-full", dot)} />
      {label}
    </span>
  );
}

/** The counts in a short form; the words are for screen readers and titles. */
export function Difference({ database: { changes, previousBuild } }: { database: Database }) {
  if (!previousBuild) return <span className="text-muted">first build</span>;
  const words = `${changes.opened} opened, ${changes.closed} closed, ${changes.changed} changed`;
  return (
    <span title={words} className="tabular inline-flex gap-3">
      <span className="sr-only">{words}</span>
      <span aria-hidden className={changes.opened > 0 ? "text-danger" : "text-muted"}>
        +{formatNumber(changes.opened)}
      </span>
      <span aria-hidden className={changes.closed > 0 ? "text-ok" : "text-muted"}>
        −{formatNumber(changes.closed)}
      </span>
      <span aria-hidden className={changes.changed > 0 ? "text-warn" : "text-muted"}>
        ±{formatNumber(changes.changed)}
      </span>
    </span>
  );
}

const cell = "px-4 py-2 align-middle";

function Row({ database, shown }: { database: Database; shown: boolean }) {
  const [params] = useSearchParams();
  const ready = database.state === "Current" || database.state === "Past";
  const search = changeFilters.write({ ...changeFilters.read(params), generation: database.generation });
  const name = <RelativeTime iso={database.built} />;
  return (
    <tr
      className={cn(
        "relative border-t border-line",
        ready && "hover:bg-subtle/70",
        shown && "bg-accent-soft/60",
      )}
    >
      <td className={cell}>
        {ready ? (
          <Link
            to={{ search: search.toString() }}
            replace
            preventScrollReset
            aria-current={shown ? "true" : undefined}
            className="text-sm font-medium after:absolute after:inset-0"
          >
            Built {name}
          </Link>
        ) : (
          <span className="text-sm font-medium">Built {name}</span>
        )}
        <span className="untrusted block max-w-44 truncate font-mono text-xs text-muted sm:max-w-72">
          {visible(database.id)}
        </span>
        <span className="sm:hidden">
          <State state={database.state} />
        </span>
      </td>
      <td className={cn(cell, "hidden text-[13px] text-muted sm:table-cell")}>{sources[database.source]}</td>
      <td className={cn(cell, "hidden sm:table-cell")}>
        <State state={database.state} />
      </td>
      <td className={cn(cell, "hidden text-[13px] text-muted lg:table-cell")}>
        {database.currentSince ? <RelativeTime iso={database.currentSince} /> : "–"}
      </td>
      <td className={cn(cell, "tabular hidden text-right text-[13px] md:table-cell")}>
        {formatNumber(database.matched)}
        {database.full && <span className="text-muted"> (all)</span>}
      </td>
      <td className={cn(cell, "text-right text-[13px]")}>
        {ready ? <Difference database={database} /> : <span className="text-muted">not yet</span>}
      </td>
    </tr>
  );
}

/** The builds that are remembered; choosing one shows what it changed. */
export function Builds({ databases, shown }: { databases: Database[]; shown: Database | undefined }) {
  const [all, setAll] = useState(false);
  const rows = all ? databases : databases.slice(0, few);
  const head = "px-4 py-2 text-left font-medium";
  return (
    <section aria-labelledby="builds" className="mt-6">
      <h2 id="builds" className="text-base font-semibold">
        Builds
      </h2>
      <div className="mt-2 overflow-hidden rounded-xl border border-line bg-surface shadow-card">
        <table className="w-full">
          <thead className="text-xs text-muted">
            <tr>
              <th className={head}>Build</th>
              <th className={cn(head, "hidden sm:table-cell")}>Source</th>
              <th className={cn(head, "hidden sm:table-cell")}>State</th>
              <th className={cn(head, "hidden lg:table-cell")}>In use since</th>
              <th className={cn(head, "hidden text-right md:table-cell")}>Packages matched</th>
              <th className={cn(head, "text-right")}>What changed</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((database) => (
              <Row
                key={database.generation}
                database={database}
                shown={database.generation === shown?.generation}
              />
            ))}
          </tbody>
        </table>
      </div>
      {databases.length > few && (
        <Button variant="ghost" size="sm" aria-expanded={all} onClick={() => setAll(!all)} className="mt-2">
          {all ? "Show fewer" : `Show all ${databases.length} builds`}
        </Button>
      )}
    </section>
  );
}
