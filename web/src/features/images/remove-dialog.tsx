import { useQueryClient } from "@tanstack/react-query";
import { CircleAlert, Info } from "lucide-react";
import { useState } from "react";
import { ImageName } from "@/components/image-name";
import { AlertDialog } from "@/components/ui/alert-dialog";
import { Button } from "@/components/ui/button";
import { Callout } from "@/components/ui/callout";
import { useNotify } from "@/components/ui/toast";
import { getGetOverviewQueryKey, useGetImage } from "@/gen/images/images";
import { deleteScanResult } from "@/gen/scan-results/scan-results";
import { invalidateLists } from "@/lib/lists";
import { describe } from "@/lib/problem";
import { forgetImages } from "./queries";
import { deniedReason, isDenied } from "./rights";

interface Props {
  imageId: string;
  open: boolean;
  onOpenChange: (open: boolean) => void;
  /** Called when the result was removed, before the dialog closes. */
  onRemoved: () => void;
  /** Returns the element that gets the focus when the dialog closes; without it, the one that had the focus before. */
  focusAfter?: () => HTMLElement | null;
}

/** Asks for confirmation and removes the scan result of an image. */
export function RemoveDialog({ imageId, open, onOpenChange, onRemoved, focusAfter }: Props) {
  const client = useQueryClient();
  const notify = useNotify();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  // Lists do not say it of each image.
  const { data: image } = useGetImage(imageId, undefined, { query: { enabled: open } });
  const denied = isDenied(image, "remove");

  const change = (next: boolean) => {
    if (!next) setError(undefined);
    onOpenChange(next);
  };
  const remove = async () => {
    setBusy(true);
    setError(undefined);
    try {
      await deleteScanResult(imageId);
      forgetImages(client, new Set([imageId]));
      void invalidateLists(client);
      void client.invalidateQueries({ queryKey: getGetOverviewQueryKey() });
      notify.done("Scan result removed");
      onRemoved();
      change(false);
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  };

  return (
    <AlertDialog
      open={open}
      onOpenChange={change}
      focusAfter={focusAfter}
      title="Remove this scan result?"
      actions={
        <>
          <Button onClick={() => change(false)}>Cancel</Button>
          <Button variant="danger" disabled={busy || denied} onClick={() => void remove()}>
            {busy ? "Removing…" : "Remove"}
          </Button>
        </>
      }
    >
      <p className="rounded-md bg-subtle px-3 py-2 font-medium text-ink">
        <ImageName imageId={imageId} />
      </p>
      <p>
        This deletes the report, the SBOM and the findings of the image for all platforms. If a container that
        is not ignored still runs the image, it is scanned again.
      </p>
      {denied && <Callout tone="info" icon={Info} title={deniedReason.remove} />}
      {error !== undefined && <Failure error={error} />}
    </AlertDialog>
  );
}

function Failure({ error }: { error: unknown }) {
  const { title, detail } = describe(error);
  return (
    <Callout
      tone="danger"
      icon={CircleAlert}
      role="alert"
      title={`Could not remove the scan result: ${title}`}
    >
      {detail && <p className="untrusted">{detail}</p>}
    </Callout>
  );
}
