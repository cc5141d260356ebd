import { CircleCheck, CircleDashed, CircleX, FileText, LoaderCircle, type LucideIcon } from "lucide-react";
import type { FailureReason, Image, ImageState } from "@/gen/model";
import { cn } from "@/lib/cn";

const states: Record<ImageState, { icon: LucideIcon; className: string; hint: string }> = {
  Scanned: { icon: CircleCheck, className: "text-ok", hint: "Cataloged and matched" },
  Reported: { icon: FileText, className: "text-accent", hint: "Uploaded report" },
  Cataloged: { icon: LoaderCircle, className: "text-muted", hint: "Cataloged; waiting for matching" },
  Pending: { icon: CircleDashed, className: "text-muted", hint: "Waiting for a scan" },
  Failed: { icon: CircleX, className: "text-danger", hint: "The last attempt failed" },
};

export const allStates = Object.keys(states) as ImageState[];

export function StateBadge({ state, className }: { state: ImageState; className?: string }) {
  const { icon: Icon, className: tone, hint } = states[state];
  return (
    <span
      title={hint}
      className={cn("flex items-center gap-1.5 text-[13px] leading-5 font-medium", className)}
    >
      <Icon className={cn("size-4 shrink-0", tone)} aria-hidden />
      {state}
    </span>
  );
}

interface Explanation {
  what: string;
  advice: string;
}

const reasons: Record<FailureReason, Explanation> = {
  ImagePullDenied: {
    what: "The registry refused access",
    advice: "Check the pull secrets of a pod that runs the image.",
  },
  ImageNotFound: {
    what: "The registry no longer has this image",
    advice: "The digest was removed; deploy an image that still exists.",
  },
  RegistryRateLimited: {
    what: "The pull rate limit of the registry was reached",
    advice: "Use pull secrets with a higher limit, or a mirror. The scan is retried later.",
  },
  RegistryUnavailable: {
    what: "The registry cannot be reached",
    advice: "Check the network, the proxy and the registry. The scan is retried later.",
  },
  NotPullable: {
    what: "The image has no registry address",
    advice: "It was loaded directly into the node. Push it to a registry.",
  },
  PlatformMismatch: {
    what: "The image does not support the platform of the node",
    advice: "Check the platforms that the image was built for.",
  },
  ImageTooLarge: {
    what: "The image is larger than the limit",
    advice: "Raise the size limit of the Scanner or make the image smaller.",
  },
  OutOfMemory: {
    what: "The scan job ran out of memory",
    advice: "Raise spec.job.resources of the Scanner.",
  },
  OutOfDisk: {
    what: "The scan job ran out of disk space",
    advice: "Raise the ephemeral storage in spec.job.resources of the Scanner.",
  },
  DeadlineExceeded: {
    what: "The scan job exceeded its deadline",
    advice: "Give the job more CPU, or check whether the registry is slow.",
  },
  Unschedulable: {
    what: "The scan job cannot be scheduled",
    advice: "Check spec.job: resources, nodeSelector and tolerations.",
  },
  CatalogFailed: {
    what: "The contents of the image could not be read",
    advice: "See the message below.",
  },
  UploadFailed: {
    what: "The SBOM could not be delivered to the operator",
    advice: "Check that scan pods can reach the Service of the operator.",
  },
  MatchFailed: {
    what: "Matching against the vulnerability database failed",
    advice: "Check the state of the database.",
  },
};

export const explain = (reason: FailureReason): Explanation =>
  (reasons as Partial<Record<string, Explanation>>)[reason] ?? {
    what: reason,
    advice: "See the message below.",
  };

/** Whether counts of findings mean anything: before the first match they are zero. */
export const hasResults = (image: Image) =>
  image.matchedAt !== undefined || image.state === "Scanned" || image.state === "Reported";

export const scannedAt = (image: Image) => image.matchedAt ?? image.catalogedAt;
