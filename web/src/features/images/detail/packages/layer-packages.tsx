import { useCallback, useMemo } from "react";
import { ListPanel } from "@/components/ui/list-panel";
import { useOpenRows } from "@/components/ui/open-rows";
import type { List } from "@/components/ui/use-list";
import type { ListImageLayersParams } from "@/gen/model";
import { useImagePackages } from "./queries";
import { columns, EntryCard, grid } from "./columns";
import { withLocations, type Entry } from "./entries";
import { PackageDetail } from "./package-detail";

/** The packages of one layer, with the locations that they share. */
export function LayerPackages({
  imageId,
  matched,
  layer,
  request,
}: {
  imageId: string;
  matched: boolean;
  layer: number;
  request: ListImageLayersParams;
}) {
  const packages = useImagePackages(imageId, layer, request);
  const { rowKey } = packages;
  const entryKey = useCallback(
    (entry: Entry) => ("path" in entry ? JSON.stringify(entry.path) : rowKey(entry.row)),
    [rowKey],
  );
  const rows = useMemo(() => withLocations(packages.rows), [packages.rows]);
  const list: List<Entry> = {
    ...packages,
    rows,
    rowKey: entryKey,
    page: packages.page && { total: packages.page.total + rows.length - packages.rows.length },
  };
  const { isOpen, toggle } = useOpenRows(entryKey);
  const tableColumns = useMemo(() => columns({ matched, isOpen, toggle }), [matched, isOpen, toggle]);
  const renderCard = useCallback(
    (entry: Entry) => (
      <EntryCard entry={entry} matched={matched} open={isOpen(entry)} onToggle={() => toggle(entry)} />
    ),
    [matched, isOpen, toggle],
  );
  const renderDetail = useCallback(
    (entry: Entry) =>
      "path" in entry ? null : <PackageDetail imageId={imageId} row={entry.row} matched={matched} />,
    [imageId, matched],
  );
  return (
    <ListPanel
      label={layer === 0 ? "Packages in no known layer" : `Packages of layer ${layer}`}
      list={list}
      columns={tableColumns}
      grid={grid}
      rowHeight={44}
      cardHeight={100}
      renderCard={renderCard}
      renderDetail={renderDetail}
      isOpen={isOpen}
      empty={<p className="p-4 text-sm text-muted">This layer has no packages any more.</p>}
    />
  );
}
