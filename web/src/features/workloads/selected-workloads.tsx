import { ExportRows } from "@/components/export-rows";
import type { Selection } from "@/components/ui/selection";
import { SelectionBar } from "@/components/ui/selection-bar";
import type { WorkloadSummary } from "@/gen/model";
import { countColumns, type CsvColumns } from "@/lib/csv";
import { plural } from "@/lib/format";

/** As in the export of the operator. */
const csvColumns: CsvColumns<WorkloadSummary> = [
  ["namespace", ({ workload }) => workload.namespace],
  ["kind", ({ workload }) => workload.kind],
  ["name", ({ workload }) => workload.name],
  ["images", ({ imageCount }) => imageCount],
  ["scanned", ({ scanned }) => scanned],
  ["containers", ({ containers }) => containers],
  ...countColumns,
  ["since", ({ since }) => since],
  ["owner", ({ workload }) => workload.owner],
  ["overdue", ({ overdue }) => overdue ?? 0],
];

/** What can be done with the workloads that are selected. */
export function SelectedWorkloads({ selection }: { selection: Selection<WorkloadSummary> }) {
  const { selected } = selection;
  return (
    <SelectionBar
      label="Selected workloads"
      selection={selection}
      count={plural(selected.length, "workload")}
    >
      <ExportRows name="workloads" columns={csvColumns} rows={selected} />
    </SelectionBar>
  );
}
