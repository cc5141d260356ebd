import { RefreshCw, Trash2 } from "lucide-react";
import { useState } from "react";
import { ExportRows } from "@/components/export-rows";
import { Button } from "@/components/ui/button";
import type { Selection } from "@/components/ui/selection";
import { SelectionBar } from "@/components/ui/selection-bar";
import { DecideAboutImages } from "@/features/exceptions/decide";
import type { Image } from "@/gen/model";
import { countColumns, type CsvColumns } from "@/lib/csv";
import { plural } from "@/lib/format";
import { useCanRemove, useCanScan, type PermittedAction } from "../rights";
import { scannedAt } from "../state";
import { BulkDialog } from "./bulk-dialog";

const csvColumns: CsvColumns<Image> = [
  ["image_id", ({ imageId }) => imageId],
  ["platform", ({ platform }) => platform],
  ["state", ({ state }) => state],
  ["reason", ({ reason }) => reason],
  ["distro", ({ distro }) => distro],
  ["end_of_life", ({ distribution }) => distribution?.endOfLife],
  ["image_created", ({ created }) => created],
  ["size", ({ size }) => (size > 0 ? size : undefined)],
  ["packages", ({ packages }) => packages],
  ...countColumns,
  ["overdue", ({ overdue }) => overdue ?? 0],
  ["owners", ({ owners }) => owners?.join(", ")],
  ["first_seen", ({ firstSeen }) => firstSeen],
  ["scanned", scannedAt],
];

/** What can be done with the images that are selected. */
export function SelectedImages({ selection }: { selection: Selection<Image> }) {
  const { selected, deselect, clear } = selection;
  const canRemove = useCanRemove();
  const canScan = useCanScan();
  // Each time the dialog is opened it starts again.
  const [dialog, setDialog] = useState<{ action: PermittedAction; imageIds: string[]; count: number }>();
  const [open, setOpen] = useState(false);
  const imageIds = () => [...new Set(selected.map(({ imageId }) => imageId))];
  const start = (action: PermittedAction) => {
    setDialog((before) => ({ action, imageIds: imageIds(), count: (before?.count ?? 0) + 1 }));
    setOpen(true);
  };
  return (
    <>
      <SelectionBar label="Selected images" selection={selection} count={plural(selected.length, "image")}>
        <DecideAboutImages imageIds={imageIds()} onSaved={clear} />
        {canScan && (
          <Button size="sm" onClick={() => start("rescan")}>
            <RefreshCw aria-hidden />
            Scan again
          </Button>
        )}
        {canRemove && (
          <Button size="sm" variant="danger-outline" onClick={() => start("remove")}>
            <Trash2 aria-hidden />
            Remove
          </Button>
        )}
        <ExportRows name="images" columns={csvColumns} rows={selected} />
      </SelectionBar>
      {dialog && (
        <BulkDialog
          key={dialog.count}
          action={dialog.action}
          imageIds={dialog.imageIds}
          open={open}
          onOpenChange={setOpen}
          onDone={(done) => deselect(({ imageId }) => done.has(imageId))}
        />
      )}
    </>
  );
}
