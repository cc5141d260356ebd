import { Select, type Option } from "@/components/ui/select";
import { rowsOf, type AffectedFilters, type RowsOf } from "./filters";

const options: Option<RowsOf>[] = [
  { value: rowsOf.image, label: "Image" },
  { value: rowsOf.workload, label: "Workload" },
];

/** What the timeline has a row for. */
export function TimelineBy({
  filters,
  update,
}: {
  filters: AffectedFilters;
  update: (change: Partial<AffectedFilters>) => void;
}) {
  return (
    <Select
      label="By"
      options={options}
      value={filters.by}
      active={filters.by !== rowsOf.image}
      onChange={(by) => update({ by })}
    />
  );
}
