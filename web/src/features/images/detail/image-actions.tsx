import { useQueryClient } from "@tanstack/react-query";
import { ChevronDown, Download, FileDown, FileText, Package, Trash2 } from "lucide-react";
import { useState } from "react";
import { useNavigate } from "react-router";
import { allFormats, exportFormats, useDownload, type ExportFormat } from "@/components/export-menu";
import { AlertDialog } from "@/components/ui/alert-dialog";
import { Button } from "@/components/ui/button";
import { Menu, MenuContent, MenuItem, MenuSeparator, MenuTrigger } from "@/components/ui/menu";
import { useNotify } from "@/components/ui/toast";
import { getGetImageUrl, getGetOverviewQueryKey, getGetSBOMUrl } from "@/gen/images/images";
import type { Image } from "@/gen/model";
import { useGetSession } from "@/gen/operator/operator";
import { deleteScanResult, getScanResult } from "@/gen/scan-results/scan-results";
import { fileName } from "@/lib/image-id";
import { invalidateLists } from "@/lib/lists";
import { requestBlob } from "@/lib/request";
import { forgetImage } from "../queries";
import { ImageName } from "../image-name";
import { hasResults } from "../state";

export function ImageActions({ image }: { image: Image }) {
  const { data: session } = useGetSession({ query: { staleTime: 60_000 } });
  return (
    <div className="flex flex-wrap gap-2">
      <Downloads image={image} />
      {session?.canDelete && <Remove imageId={image.imageId} />}
    </div>
  );
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
  const hasSBOM = image.cataloguedAt !== undefined;
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

function Remove({ imageId }: { imageId: string }) {
  const client = useQueryClient();
  const navigate = useNavigate();
  const notify = useNotify();
  const [open, setOpen] = useState(false);
  const [busy, setBusy] = useState(false);

  const remove = async () => {
    setBusy(true);
    try {
      await deleteScanResult(imageId);
      forgetImage(client, imageId);
      void invalidateLists(client);
      void client.invalidateQueries({ queryKey: getGetOverviewQueryKey() });
      notify.done("Scan result removed");
      await navigate("/");
    } catch (error) {
      setOpen(false);
      notify.failed("Could not remove the scan result", error);
    } finally {
      setBusy(false);
    }
  };

  return (
    <>
      <Button variant="danger-outline" onClick={() => setOpen(true)}>
        <Trash2 aria-hidden />
        Remove
      </Button>
      <AlertDialog
        open={open}
        onOpenChange={setOpen}
        title="Remove this scan result?"
        actions={
          <>
            <Button onClick={() => setOpen(false)}>Keep</Button>
            <Button variant="danger" disabled={busy} onClick={() => void remove()}>
              {busy ? "Removing…" : "Remove"}
            </Button>
          </>
        }
      >
        <p className="rounded-md bg-subtle px-3 py-2 font-medium text-ink">
          <ImageName imageId={imageId} />
        </p>
        <p>
          Its report, SBOM and findings are deleted, for all platforms. While a container that is not ignored
          still runs the image, it is scanned anew and comes back.
        </p>
      </AlertDialog>
    </>
  );
}
