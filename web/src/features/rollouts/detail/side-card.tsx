import { Link } from "react-router";
import type { ReactNode } from "react";
import { KevMark, SeverityCounts } from "@/components/severity";
import { ImageName } from "@/components/image-name";
import { StateBadge } from "@/features/images/state";
import type { RolloutSide } from "@/gen/model";
import { imagePath, parseImageId } from "@/lib/image-id";
import { visible } from "@/lib/text";

/** One of the two images, as it stands today. */
export function SideCard({ title, side, action }: { title: string; side: RolloutSide; action?: ReactNode }) {
  const { imageId, platform, state, counts } = side;
  return (
    <section
      aria-label={title}
      className="min-w-0 rounded-xl border border-line bg-surface p-4 text-[13px] shadow-card"
    >
      <div className="flex items-start justify-between gap-3">
        <h2 className="text-xs font-semibold text-muted">{title}</h2>
        {action}
      </div>
      <Link
        to={imagePath(imageId, platform)}
        className="mt-1 block truncate text-sm font-medium text-accent underline-offset-2 hover:underline"
      >
        <ImageName imageId={parseImageId(imageId).repository} />
      </Link>
      <p className="untrusted truncate text-xs text-muted" title={visible(imageId)}>
        <span className="font-mono">{parseImageId(visible(imageId)).digest || "no digest"}</span> ·{" "}
        {visible(platform)}
      </p>
      <div className="mt-3 flex min-h-6 flex-wrap items-center gap-x-3 gap-y-1">
        {state ? <StateBadge state={state} /> : <span className="text-muted">No longer stored</span>}
        {counts && (
          <>
            <SeverityCounts counts={counts} className="w-75 max-w-full" />
            {counts.kev > 0 && <KevMark />}
            <span className="text-xs text-muted">today</span>
          </>
        )}
      </div>
    </section>
  );
}
