import { useQueryClient } from "@tanstack/react-query";
import { CircleAlert, Info } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { ImageName } from "@/components/image-name";
import { AlertDialog } from "@/components/ui/alert-dialog";
import { Button } from "@/components/ui/button";
import { Callout } from "@/components/ui/callout";
import { useNotify } from "@/components/ui/toast";
import { getGetOverviewQueryKey } from "@/gen/images/images";
import type { Outcome } from "@/lib/bulk";
import { plural } from "@/lib/format";
import { invalidateLists } from "@/lib/lists";
import { describe } from "@/lib/problem";
import { forgetImages } from "../queries";
import type { PermittedAction } from "../rights";
import { carryOut, planOf, type Plan } from "./bulk";

const words = {
  remove: {
    title: (count: number) => `Remove the scan results of ${plural(count, "image")}?`,
    button: "Remove",
    variant: "danger",
    effect:
      "This deletes the reports, the SBOMs, the findings and the run history of these images for all platforms.",
    left: (count: number) => `${count} of the images still run${count === 1 ? "s" : ""}`,
    advice: "Their results stay. Use Scan again to renew these.",
    done: (count: number) => `Results of ${plural(count, "image")} removed`,
    denied: (count: number) => `You may not remove the results of ${plural(count, "image")}`,
    failed: "Could not remove the results of",
    nothing: "No image can be removed",
  },
  rescan: {
    title: (count: number) => `Scan ${plural(count, "image")} again?`,
    button: "Scan again",
    variant: "primary",
    effect:
      "The operator scans these images again, on all platforms. Their present results stay until the new ones replace them, and history stays.",
    left: (count: number) => `${count} of the images no longer run${count === 1 ? "s" : ""}`,
    advice: "Only images that a container runs are scanned.",
    done: (count: number) => `${plural(count, "image")} will be scanned again`,
    denied: (count: number) => `You may not have ${plural(count, "image")} scanned again`,
    failed: "Could not start the scan of",
    nothing: "No image can be scanned again",
  },
} as const;

interface Props {
  action: PermittedAction;
  /** At least one. */
  imageIds: string[];
  open: boolean;
  onOpenChange: (open: boolean) => void;
  /** Called with the images to which it was applied. */
  onDone: (imageIds: ReadonlySet<string>) => void;
}

/** Asks for confirmation, then applies an action to images, and says what failed for which. */
export function BulkDialog({ action, imageIds, open, onOpenChange, onDone }: Props) {
  const client = useQueryClient();
  const notify = useNotify();
  const [plan, setPlan] = useState<Plan>();
  const [progress, setProgress] = useState<number>();
  const [failed, setFailed] = useState<Outcome<string>[]>([]);
  const stop = useRef<AbortController>(undefined);
  const text = words[action];

  // The dialog is made anew for other images.
  useEffect(() => {
    const controller = new AbortController();
    void planOf(action, imageIds, controller.signal).then((next) => {
      if (controller.signal.aborted) return;
      setPlan(next);
      setFailed(next.failed);
    });
    return () => controller.abort();
  }, [action, imageIds]);
  useEffect(() => () => stop.current?.abort(), []);

  const apply = async ({ applies, ...others }: Plan) => {
    const controller = new AbortController();
    stop.current = controller;
    setProgress(0);
    setFailed([]);
    const outcomes = await carryOut(action, applies, {
      signal: controller.signal,
      onOutcome: () => setProgress((count = 0) => count + 1),
    });
    const done = new Set(outcomes.filter(({ error }) => error === undefined).map(({ item }) => item));
    const errors = outcomes.filter(({ error }) => error !== undefined);
    if (action === "remove") forgetImages(client, done);
    void invalidateLists(client);
    void client.invalidateQueries({ queryKey: getGetOverviewQueryKey() });
    if (done.size > 0) {
      notify.done(text.done(done.size));
      onDone(done);
    }
    setProgress(undefined);
    setFailed(errors);
    if (errors.length === 0) onOpenChange(false);
    else setPlan({ ...others, applies: applies.filter((imageId) => !done.has(imageId)), failed: [] });
  };

  const running = progress !== undefined;
  const applies = plan?.applies ?? imageIds;
  // What is under way ends first, and may fail.
  const close = () => (running ? stop.current?.abort() : onOpenChange(false));
  return (
    <AlertDialog
      open={open}
      onOpenChange={(next) => next || close()}
      title={plan && applies.length === 0 ? text.nothing : text.title(applies.length)}
      actions={
        <>
          <Button onClick={close}>{running ? "Stop" : "Cancel"}</Button>
          {applies.length > 0 && (
            <Button
              variant={text.variant}
              disabled={!plan || running}
              onClick={() => plan && void apply(plan)}
            >
              {text.button}
            </Button>
          )}
        </>
      }
    >
      <p role="status" className="tabular sr-only not-empty:not-sr-only">
        {!plan
          ? "Checking which of the images run…"
          : running
            ? `${progress} of ${plural(applies.length, "image")}`
            : ""}
      </p>
      {applies.length > 0 && (
        <>
          <Images imageIds={applies} />
          <p>{text.effect}</p>
        </>
      )}
      {plan && plan.left.length > 0 && (
        <Callout tone="info" icon={Info} title={text.left(plan.left.length)}>
          <p>{text.advice}</p>
        </Callout>
      )}
      {plan && plan.denied.length > 0 && (
        <Callout tone="info" icon={Info} title={text.denied(plan.denied.length)}>
          <p>
            That requires permission in every namespace that runs the image or ran it, also in those that you
            do not see.
          </p>
        </Callout>
      )}
      {failed.length > 0 && (
        <Callout
          tone="danger"
          icon={CircleAlert}
          role="alert"
          title={`${text.failed} ${plural(failed.length, "image")}`}
        >
          <Failures failed={failed} />
        </Callout>
      )}
    </AlertDialog>
  );
}

const list = "max-h-40 overflow-y-auto rounded-md";

function Images({ imageIds }: { imageIds: string[] }) {
  return (
    <ul aria-label="Images" tabIndex={0} className={`${list} space-y-0.5 bg-subtle px-3 py-2 text-ink`}>
      {imageIds.map((imageId) => (
        <li key={imageId} className="truncate">
          <ImageName imageId={imageId} />
        </li>
      ))}
    </ul>
  );
}

function Failures({ failed }: { failed: Outcome<string>[] }) {
  return (
    <ul aria-label="Images that failed" tabIndex={0} className={`${list} space-y-1`}>
      {failed.map(({ item, error }) => {
        const { title, detail } = describe(error);
        return (
          <li key={item}>
            <span className="block truncate font-medium">
              <ImageName imageId={item} />
            </span>
            <span className="untrusted block text-[13px]">{detail ? `${title}: ${detail}` : title}</span>
          </li>
        );
      })}
    </ul>
  );
}
