import { Link } from "react-router";
import { containersOf, CoverageBar, formatRatio, states } from "@/features/coverage/state";
import type { CoverageSummary } from "@/gen/model";
import { formatCompact, plural } from "@/lib/format";
import { Card, Legend, LegendLink, link } from "./card";

/** The share of containers with a result, and why the others have none. */
export function CoverageCard({ coverage }: { coverage: CoverageSummary }) {
  const total = containersOf(coverage);
  const gaps = states.filter(({ key }) => key !== "scanned" && coverage[key] > 0);
  const ratio = total === coverage.skipped ? "–" : formatRatio(coverage.ratio);
  return (
    <Card title="Coverage" value={ratio} note={plural(total, "container")}>
      <CoverageBar summary={coverage} />
      <Legend label="Gaps in coverage">
        {gaps.map(({ state, key, bar, hint }) => (
          <LegendLink
            key={key}
            to={`/coverage?state=${state}`}
            hint={hint}
            label={state}
            value={formatCompact(coverage[key])}
            swatch={bar}
          />
        ))}
        {gaps.length === 0 && (
          <li className="px-2 text-[13px] leading-7">
            <Link to="/coverage" className={link}>
              No gaps
            </Link>
          </li>
        )}
      </Legend>
    </Card>
  );
}
