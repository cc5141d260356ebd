import { ExportRows } from "@/components/export-rows";
import type { Selection } from "@/components/ui/selection";
import { SelectionBar } from "@/components/ui/selection-bar";
import { Decide } from "@/features/exceptions/decide";
import type { VulnerabilitySummary } from "@/gen/model";
import type { CsvColumns } from "@/lib/csv";
import { plural } from "@/lib/format";

/** As in the export of the operator, without owners, which the list does not have. */
const csvColumns: CsvColumns<VulnerabilitySummary> = [
  ["vulnerability", ({ id }) => id],
  ["severity", ({ severity }) => severity],
  ["epss", ({ epss }) => epss],
  ["risk", ({ risk }) => risk],
  ["kev", ({ kev }) => kev],
  ["fixable", ({ fixable }) => fixable],
  ["images", ({ images }) => images],
  ["workloads", ({ workloads }) => workloads],
  ["packages", ({ packages }) => packages],
  ["first_seen", ({ firstSeen }) => firstSeen],
];

/** What can be done with the vulnerabilities that are selected. */
export function SelectedVulnerabilities({ selection }: { selection: Selection<VulnerabilitySummary> }) {
  const { selected, clear } = selection;
  return (
    <SelectionBar
      label="Selected vulnerabilities"
      selection={selection}
      count={plural(selected.length, "vulnerability", "vulnerabilities")}
    >
      <Decide subjects={selected.map(({ id }) => ({ vulnerability: id }))} onSaved={clear} />
      <ExportRows name="vulnerabilities" columns={csvColumns} rows={selected} />
    </SelectionBar>
  );
}
