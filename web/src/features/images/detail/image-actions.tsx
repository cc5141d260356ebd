import { ChevronDown, Download, FileDown, FileText, Package, RefreshCw, Trash2 } from "lucide-react";
import { useState } from "react";
import { useNavigate } from "react-router";
import { allFormats, exportFormats, useDownload, type ExportFormat } from "@/components/export-menu";
import { Button } from "@/components/ui/button";
import { Menu, MenuContent, MenuItem, MenuSeparator, MenuTrigger } from "@/components/ui/menu";
import { useNotify } from "@/components/ui/toast";
import { getGetImageUrl, getGetSBOMUrl, scanImage } from "@/gen/images/images";
import type { Image } from "@/gen/model";
import { getScanResult } from "@/gen/scan-results/scan-results";
import { fileName } from "@/lib/image-id";
import { requestBlob } from "@/lib/request";
import { RemoveDialog } from "../remove-dialog";
import { deniedReason, isDenied, useCanRemove, useCanScan, type PermittedAction } from "../rights";
import { hasResults } from "../state";

export function ImageActions({ image }: { image: Image }) {
  const canRemove = useCanRemove() || image.permissions?.delete;
  const canScan = useCanScan() || image.permissions?.update;
  return (
    <div className="space-y-2">
      <div className="flex flex-wrap gap-2">
        <Downloads image={image} />
        {canScan && <ScanAgain imageId={image.imageId} denied={isDenied(image, "rescan")} />}
        {canRemove && <Remove imageId={image.imageId} denied={isDenied(image, "remove")} />}
      </div>
      {canScan && isDenied(image, "rescan") && <Denied action="rescan" />}
      {canRemove && isDenied(image, "remove") && <Denied action="remove" />}
    </div>
  );
}

const reasonId = (action: PermittedAction) => `${action}-denied`;

function Denied({ action }: { action: PermittedAction }) {
  return (
    <p id={reasonId(action)} className="max-w-96 text-[13px] text-muted">
      {deniedReason[action]}
    </p>
  );
}

interface ActionProps {
  imageId: string;
  /** The user may do it with other images only. */
  denied: boolean;
}

function Downloads({ image }: { image: Image }) {
  const { imageId, platform } = image;
  const { busy, download } = useDownload();

  const report = async () => {
    const result = await getScanResult(imageId);
    return new Blob([JSON.stringify(result.report, null, 2)], { type: "application/vnd.cyclonedx+json" });
  };
  const sbom = () => requestBlob(getGetSBOMUrl(imageId, { platform }), "application/vnd.syft+json");
  const exported = (format: ExportFormat) =>
    requestBlob(getGetImageUrl(imageId, { platform, format }), "*/*");

  const hasReport = hasResults(image);
  const hasSBOM = image.catalogedAt !== undefined;
  if (!hasReport && !hasSBOM) return null;
  return (
    <Menu modal={false}>
      <MenuTrigger disabled={busy}>
        <Download aria-hidden />
        {busy ? "Downloading…" : "Download"}
        <ChevronDown aria-hidden />
      </MenuTrigger>
      <MenuContent>
        <MenuItem
          disabled={!hasReport}
          onClick={() => void download("the report", fileName(imageId, "cdx.json"), report)}
        >
          <FileText aria-hidden />
          <span>
            Report <span className="text-muted">CycloneDX</span>
          </span>
        </MenuItem>
        <MenuItem
          disabled={!hasSBOM}
          onClick={() => void download("the SBOM", fileName(imageId, "syft.json"), sbom)}
        >
          <Package aria-hidden />
          <span>
            SBOM <span className="text-muted">Syft</span>
          </span>
        </MenuItem>
        <MenuSeparator />
        {allFormats.map((format) => {
          const { label, hint, extension } = exportFormats[format];
          return (
            <MenuItem
              key={format}
              onClick={() => void download(label, fileName(imageId, extension), () => exported(format))}
            >
              <FileDown aria-hidden />
              <span>
                {label} <span className="text-muted">{hint}</span>
              </span>
            </MenuItem>
          );
        })}
      </MenuContent>
    </Menu>
  );
}

function ScanAgain({ imageId, denied }: ActionProps) {
  const notify = useNotify();
  const [busy, setBusy] = useState(false);
  const scan = async () => {
    setBusy(true);
    try {
      await scanImage(imageId);
      notify.done("The image will be scanned again");
    } catch (error) {
      notify.failed("Could not start the scan", error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Button
      disabled={busy || denied}
      aria-describedby={denied ? reasonId("rescan") : undefined}
      onClick={() => void scan()}
    >
      <RefreshCw aria-hidden />
      Scan again
    </Button>
  );
}

function Remove({ imageId, denied }: ActionProps) {
  const navigate = useNavigate();
  const [open, setOpen] = useState(false);
  return (
    <>
      <Button
        variant="danger-outline"
        disabled={denied}
        aria-describedby={denied ? reasonId("remove") : undefined}
        onClick={() => setOpen(true)}
      >
        <Trash2 aria-hidden />
        Remove
      </Button>
      <RemoveDialog
        imageId={imageId}
        open={open}
        onOpenChange={setOpen}
        onRemoved={() => void navigate("/images")}
      />
    </>
  );
}
