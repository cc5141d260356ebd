import { Download } from "lucide-react";
import { Button } from "@/components/ui/button";
import { toCsv, type CsvColumns } from "@/lib/csv";
import { saveBlob } from "@/lib/download";

/** Downloads some rows as a table. The operator exports what filters keep, and cannot be told of single rows. */
export function ExportRows<Row>({
  name,
  columns,
  rows,
}: {
  /** Of the file, without its extension. */
  name: string;
  columns: CsvColumns<Row>;
  rows: readonly Row[];
}) {
  return (
    <Button
      size="sm"
      title="Download the selected rows"
      onClick={() => saveBlob(new Blob([toCsv(columns, rows)], { type: "text/csv" }), `${name}-selected.csv`)}
    >
      <Download aria-hidden />
      CSV of selected
    </Button>
  );
}
