/** Rows that are selected, by their keys, as they were when they were selected. */
export type Selected<Row> = ReadonlyMap<string, Row>;

interface Change<Row> {
  /** The rows that are loaded, in the order of the list. */
  rows: readonly Row[];
  rowKey: (row: Row) => string;
  /** How many rows can be selected. */
  max: number;
}

/** What a range goes over: from the row that was selected before, or the row alone when that is not in the list. */
function rangeOf<Row>({ rows, rowKey }: Change<Row>, row: Row, from: string | undefined): readonly Row[] {
  const to = rowKey(row);
  const [start, end] = [
    rows.findIndex((at) => rowKey(at) === from),
    rows.findIndex((at) => rowKey(at) === to),
  ];
  if (start < 0 || end < 0) return [row];
  // From the row that was selected before, so that a range over more rows than can be selected begins there.
  return start <= end ? rows.slice(start, end + 1) : rows.slice(end, start + 1).reverse();
}

/** The same with more rows, as many as can be selected. */
function withRows<Row>(selected: Selected<Row>, added: readonly Row[], { rowKey, max }: Change<Row>) {
  const next = new Map(selected);
  for (const row of added) if (next.size < max || next.has(rowKey(row))) next.set(rowKey(row), row);
  return next;
}

/** Selects a row, or takes it out; with the key of another row, all rows from there to it. */
export function toggled<Row>(
  selected: Selected<Row>,
  row: Row,
  change: Change<Row>,
  from?: string,
): Selected<Row> {
  const range = rangeOf(change, row, from);
  if (!selected.has(change.rowKey(row))) return withRows(selected, range, change);
  const next = new Map(selected);
  for (const at of range) next.delete(change.rowKey(at));
  return next;
}

/** Selects all rows that are loaded, or takes them out if as many as possible are selected. */
export function allToggled<Row>(selected: Selected<Row>, change: Change<Row>): Selected<Row> {
  const next = withRows(selected, change.rows, change);
  if (next.size > selected.size) return next;
  const left = new Map(selected);
  for (const row of change.rows) left.delete(change.rowKey(row));
  return left;
}
