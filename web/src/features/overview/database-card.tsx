import { Link } from "react-router";
import { RelativeTime } from "@/components/ui/relative-time";
import { Stat } from "@/components/ui/stat";
import { sources } from "@/features/database/notices";
import type { Overview } from "@/gen/model";
import { cn } from "@/lib/cn";
import { formatCompact, formatNumber } from "@/lib/format";
import { box, link } from "./card";

/** The vulnerability database, and what it says of what runs. */
export function DatabaseCard({
  data: { database, packages, runningCounts: counts, changes },
}: {
  data: Overview;
}) {
  return (
    <div className={cn(box, "flex flex-col justify-between gap-4")}>
      <dl className="grid grid-cols-3 gap-3">
        <Stat
          label="Exploited"
          title="Findings of images that run that are known to be exploited (CISA KEV)"
          danger={counts.kev > 0}
        >
          {formatCompact(counts.kev)}
        </Stat>
        <Stat label="Fixable" title="Findings of images that run for which a fixed version exists">
          {formatCompact(counts.fixable)}
        </Stat>
        <Stat label="Packages" title="Distinct packages in all images">
          {formatCompact(packages)}
        </Stat>
      </dl>
      <div className="space-y-1 border-t border-line pt-3 text-[13px] text-muted">
        <p>
          <DatabaseAge database={database} />
        </p>
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

/** How old the vulnerability database is. */
export function DatabaseAge({ database }: Pick<Overview, "database">) {
  if (!database) return "No vulnerability database yet. Images are matched when a database is available.";
  return (
    <>
      <Link to="/database" className={link}>
        Vulnerability database
      </Link>
      : built <RelativeTime iso={database.built} className="text-ink" />
      {`, ${sources[database.source]}`}
    </>
  );
}
