import { SeverityBar } from "@/components/severity";
import { useLimits } from "@/features/session/namespaces";
import type { Overview } from "@/gen/model";
import { formatCompact, formatNumber } from "@/lib/format";
import { severities, severityBar, totalFindings } from "@/lib/severity";
import { Card, Legend, LegendLink } from "./card";

/** The findings of what runs by severity. */
export function FindingsCard({ data: { runningCounts: counts, suppressed = 0 } }: { data: Overview }) {
  const where = useLimits() ? "in what runs in your namespaces" : "in images that run";
  return (
    <Card
      title="Findings"
      value={formatNumber(totalFindings(counts))}
      note={suppressed > 0 ? `${where}, ${formatCompact(suppressed)} suppressed` : where}
    >
      <SeverityBar counts={counts} />
      <Legend label="Findings by severity">
        {severities
          .filter(({ key }) => counts[key] > 0)
          .map(({ key, name }) => (
            <LegendLink
              key={key}
              to={`/images?severity=${name}&running=true`}
              hint={`Show running images with findings of severity ${name}${name === "Critical" ? "" : " or worse"}`}
              label={name}
              value={formatCompact(counts[key])}
              swatch={severityBar[key]}
            />
          ))}
      </Legend>
    </Card>
  );
}
