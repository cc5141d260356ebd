import { Gavel, RefreshCw } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { ExportRows } from "@/components/export-rows";
import { Button } from "@/components/ui/button";
import type { Selection } from "@/components/ui/selection";
import { SelectionBar } from "@/components/ui/selection-bar";
import { useNotify } from "@/components/ui/toast";
import { useDecide } from "@/features/exceptions/decide-provider";
import { draftForWorkloads, notNamed } from "@/features/exceptions/draft";
import { BulkDialog } from "@/features/images/list/bulk-dialog";
import { useCanRemove, useCanScan } from "@/features/images/rights";
import type { WorkloadSummary } from "@/gen/model";
import { useNow } from "@/lib/clock";
import { countColumns, type CsvColumns } from "@/lib/csv";
import { plural } from "@/lib/format";
import { workloadName } from "@/lib/paths";
import { imagesOf } from "./images-of";

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
  const { selected, clear } = selection;
  const canScan = useCanScan();
  const canRemove = useCanRemove();
  const notify = useNotify();
  const decide = useDecide();
  const now = useNow();
  const [dialog, setDialog] = useState<{ imageIds: string[]; count: number }>();
  const [open, setOpen] = useState(false);
  const [finding, setFinding] = useState(false);
  const stop = useRef<AbortController>(undefined);
  useEffect(() => () => stop.current?.abort(), []);
  const workloads = selected.map(({ workload }) => workload);
  const withImages = async (then: (imageIds: string[]) => void, { all = false } = {}) => {
    const controller = new AbortController();
    stop.current = controller;
    setFinding(true);
    const { imageIds, failed } = await imagesOf(workloads, controller.signal);
    if (controller.signal.aborted) return;
    setFinding(false);
    for (const { item, error } of failed) {
      notify.failed(`Could not find all images of ${workloadName(item)}`, error);
    }
    if (imageIds.length > 0 && !(all && failed.length > 0)) then(imageIds);
  };
  const scan = (imageIds: string[]) => {
    // Each time the dialog is opened it starts again.
    setDialog((before) => ({ imageIds, count: (before?.count ?? 0) + 1 }));
    setOpen(true);
  };
  const decideAbout = (imageIds: string[]) => {
    const reason = notNamed(imageIds, now);
    if (reason) {
      notify.failed("Could not decide about these workloads", new Error(reason));
      return;
    }
    decide({
      title: `Decide about vulnerabilities of ${plural(workloads.length, "workload")}`,
      initial: (namespaces) => draftForWorkloads(workloads, imageIds, now, namespaces),
      onSaved: clear,
    });
  };
  return (
    <>
      <SelectionBar
        label="Selected workloads"
        selection={selection}
        count={plural(selected.length, "workload")}
      >
        {/* A decision about some of the images would look like one about the workloads. */}
        <Button size="sm" disabled={finding} onClick={() => void withImages(decideAbout, { all: true })}>
          <Gavel aria-hidden />
          Decide
        </Button>
        {canScan && (
          <Button size="sm" disabled={finding} onClick={() => void withImages(scan)}>
            <RefreshCw aria-hidden />
            Scan again
          </Button>
        )}
        {canRemove && <p className="text-[13px] text-muted">Results of images that run cannot be removed.</p>}
        <ExportRows name="workloads" columns={csvColumns} rows={selected} />
      </SelectionBar>
      {dialog && (
        <BulkDialog
          key={dialog.count}
          action="rescan"
          imageIds={dialog.imageIds}
          open={open}
          onOpenChange={setOpen}
          onDone={clear}
        />
      )}
    </>
  );
}
