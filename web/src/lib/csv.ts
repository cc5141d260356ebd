/** The columns of a table, by their names. */
export type CsvColumns<Row> = readonly (readonly [name: string, cell: (row: Row) => CsvValue])[];

type CsvValue = string | number | boolean | undefined;

const counts = ["critical", "high", "medium", "low", "negligible", "unknown", "kev", "fixable"] as const;

/** Columns with the numbers of findings, as in the exports of the operator. */
export const countColumns: CsvColumns<{ counts: Record<(typeof counts)[number], number> }> = counts.map(
  (name) => [name, ({ counts }) => counts[name]],
);

/** A cell that a spreadsheet does not run as a formula, as in the exports of the operator. */
function inert(text: string): string {
  const printable = text.replace(/[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu, "");
  return /^ *[=+\-@＝＋－＠]/.test(printable) ? `'${printable}` : printable;
}

const plain = (value: CsvValue) => (typeof value === "boolean" ? (value ? "yes" : "") : String(value ?? ""));

function cell(value: CsvValue): string {
  const text = typeof value === "string" ? inert(value) : plain(value);
  return /[",]|^ /.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** A table as RFC 4180 has it. */
export const toCsv = <Row>(columns: CsvColumns<Row>, rows: readonly Row[]): string =>
  [columns.map(([name]) => name), ...rows.map((row) => columns.map(([, read]) => read(row)))]
    .map((cells) => `${cells.map(cell).join(",")}\r\n`)
    .join("");
