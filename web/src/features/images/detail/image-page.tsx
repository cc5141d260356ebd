import { useQuery } from "@tanstack/react-query";
import { CalendarX, CircleX, Clock, FileQuestion, FileText, FileWarning } from "lucide-react";
import { Link, useParams } from "react-router";
import { KevMark, SeverityBar, SeverityCounts } from "@/components/severity";
import { BackLink } from "@/components/ui/back-link";
import { buttonVariants } from "@/components/ui/button";
import { Callout } from "@/components/ui/callout";
import { RelativeTime } from "@/components/ui/relative-time";
import { Select } from "@/components/ui/select";
import { Skeleton } from "@/components/ui/skeleton";
import { ErrorPanel, StatePanel } from "@/components/ui/state";
import { Tabs } from "@/components/ui/tabs";
import { DecideProvider } from "@/features/exceptions/decide-provider";
import { InOthers } from "@/features/session/empty";
import { listImages, useGetImage } from "@/gen/images/images";
import type { Image } from "@/gen/model";
import { useAddress } from "@/lib/address";
import { formatDay, plural } from "@/lib/format";
import { parseImageId } from "@/lib/image-id";
import { comparePath, fixesOfImagePath, rolloutsOfImagePath } from "@/lib/paths";
import { ApiError } from "@/lib/problem";
import { visible } from "@/lib/text";
import { describeCounts, totalFindings } from "@/lib/severity";
import { usePageTitle } from "@/lib/use-page-title";
import { ImageName } from "@/components/image-name";
import { LoadError } from "@/components/ui/load-error";
import { distributionName } from "../lifecycle";
import { explain, hasResults, StateBadge } from "../state";
import { findingFilters, tabs } from "./filters";
import { FindingHistory } from "./finding-history";
import { Findings } from "./findings";
import { ImageActions } from "./image-actions";
import { ImageFacts } from "./image-facts";
import { Layers } from "./layers";
import { NewerTags } from "./newer-tags";
import { Packages } from "./packages/packages";
import { Presences } from "./presences";
import { SBOM } from "./sbom";

export function ImagePage() {
  const { imageId = "" } = useParams();
  const { filters } = useAddress(findingFilters);
  const { platform } = filters;
  const { data: image, error, refetch } = useGetImage(imageId, platform ? { platform } : undefined);
  usePageTitle(parseImageId(imageId).repository);
  return (
    <>
      <BackLink to="/images">Images</BackLink>
      {image ? (
        <>
          {error && <LoadError error={error} onRetry={() => void refetch()} />}
          <ImageView key={`${image.imageId} ${image.platform}`} image={image} />
        </>
      ) : error instanceof ApiError && error.status === 404 ? (
        <NotKnown imageId={imageId} />
      ) : error ? (
        <ErrorPanel error={error} onRetry={() => void refetch()} />
      ) : (
        <PageSkeleton imageId={imageId} />
      )}
    </>
  );
}

const tabOptions = [
  { value: tabs.findings, label: "Findings" },
  { value: tabs.packages, label: "Packages" },
  { value: tabs.layers, label: "Layers" },
  { value: tabs.history, label: "Finding history" },
  { value: tabs.presences, label: "Run history" },
  { value: tabs["newer-tags"], label: "Newer tags" },
  { value: tabs.sbom, label: "SBOM" },
];

function ImageView({ image }: { image: Image }) {
  const { filters, update } = useAddress(findingFilters);
  const hasFindings = image.matchedAt !== undefined && totalFindings(image.counts) > 0;
  return (
    <>
      <div className="mt-2 flex flex-wrap items-start gap-x-6 gap-y-3">
        <div className="min-w-0 flex-1 basis-72">
          <h1 className="max-h-[50vh] overflow-y-auto text-xl leading-7 font-semibold tracking-tight">
            <ImageName imageId={image.imageId} />
          </h1>
          <div className="mt-1.5 flex flex-wrap items-center gap-x-3 gap-y-1">
            <StateBadge state={image.state} />
            {image.counts.kev > 0 && <KevMark />}
            <Platforms image={image} />
            <Link
              to={rolloutsOfImagePath(image.imageId)}
              className="text-[13px] text-accent underline-offset-2 hover:underline"
            >
              Rollouts
            </Link>
            <Link
              to={fixesOfImagePath(image.imageId)}
              className="text-[13px] text-accent underline-offset-2 hover:underline"
            >
              Fixes
            </Link>
            <Link
              to={comparePath(image.imageId, image.platform)}
              className="text-[13px] text-accent underline-offset-2 hover:underline"
            >
              Compare
            </Link>
          </div>
        </div>
        <ImageActions image={image} />
      </div>
      <Situation image={image} />
      <EndOfLife image={image} />
      <div className="mt-5 grid gap-3 xl:grid-cols-[1.6fr_1fr]">
        <ImageFacts image={image} />
        <Summary image={image} />
      </div>
      <div className="mt-5">
        <Tabs
          label="Image details"
          options={tabOptions}
          value={filters.tab}
          onChange={(tab) => update({ tab })}
        >
          {filters.tab === tabs.presences ? (
            <Presences imageId={image.imageId} platform={image.platform} />
          ) : filters.tab === tabs.packages ? (
            <Packages image={image} />
          ) : filters.tab === tabs.layers ? (
            <Layers image={image} />
          ) : filters.tab === tabs.history ? (
            <FindingHistory imageId={image.imageId} />
          ) : filters.tab === tabs.sbom ? (
            <SBOM image={image} />
          ) : filters.tab === tabs["newer-tags"] ? (
            <NewerTags image={image} />
          ) : image.state === "Scanned" || hasFindings ? (
            <DecideProvider>
              <Findings imageId={image.imageId} base={image.base} />
            </DecideProvider>
          ) : (
            <NoFindingsYet image={image} />
          )}
        </Tabs>
      </div>
    </>
  );
}

/** What stands between this image and its findings, or has to be known about them. */
function Situation({ image }: { image: Image }) {
  if (image.state !== "Failed") {
    if (image.partial) return <Incomplete image={image} />;
    return image.fromReport ? <FromReport image={image} /> : null;
  }
  const reason = image.reason && explain(image.reason);
  return (
    <Callout
      tone="danger"
      icon={CircleX}
      title={reason ? visible(`${reason.what} (${image.reason ?? ""})`) : "The last attempt failed"}
      className="mt-4"
    >
      {reason && <p>{reason.advice}</p>}
      {image.message && (
        <p className="untrusted font-mono text-xs leading-5 whitespace-pre-line">{visible(image.message)}</p>
      )}
      <p className="flex flex-wrap items-center gap-x-1.5 text-[13px]">
        <Clock className="size-3.5" aria-hidden />
        {plural(image.attempts, "failed attempt")}
        {image.nextAttempt && (
          <span>
            · next one <RelativeTime iso={image.nextAttempt} />
          </span>
        )}
      </p>
    </Callout>
  );
}

function EndOfLife({ image: { distribution } }: { image: Image }) {
  if (!distribution?.endOfLifeReached) return null;
  return (
    <Callout
      tone="warn"
      icon={CalendarX}
      title={`${distributionName(distribution)} has reached its end of life`}
      className="mt-4"
    >
      <p>
        {`It has had no security updates since ${formatDay(distribution.endOfLife ?? "")}. New vulnerabilities of its packages may have no fix, or may be missing here, because no advisories are published.`}
      </p>
      <p>Rebuild the image from a release that is still maintained.</p>
    </Callout>
  );
}

function Incomplete({ image: { unreadable = 0 } }: { image: Image }) {
  return (
    <Callout tone="warn" icon={FileWarning} title="The result is partial" className="mt-4">
      <p>
        {`The scan could not read ${plural(unreadable, "file or directory", "files or directories")} of the image. Packages in them, and their findings, are missing.`}
      </p>
      <p>
        Let the scan pull the image from its registry (<code>spec.job.source: Registry</code> of the Scanner),
        or let scan pods run in a user namespace, in which they may read these files.
      </p>
    </Callout>
  );
}

function FromReport({ image: { reported } }: { image: Image }) {
  return (
    <Callout tone="info" icon={FileText} title="Uploaded report only" className="mt-4">
      <p>
        The packages come from an uploaded report; the operator has not scanned the image. The findings are
        the matches of these packages in the current database.
      </p>
      {reported && <p>The report lists {describeCounts(reported)}.</p>}
    </Callout>
  );
}

function Summary({ image }: { image: Image }) {
  const { counts, overdue } = image;
  const total = totalFindings(counts);
  if (!hasResults(image)) {
    return (
      <section
        aria-label="Findings by severity"
        className="rounded-xl border border-line bg-surface p-4 text-sm text-muted shadow-card"
      >
        This image has not been scanned yet.
      </section>
    );
  }
  return (
    <section
      aria-label="Findings by severity"
      className="rounded-xl border border-line bg-surface p-4 shadow-card"
    >
      <p className="flex items-baseline gap-2 text-[13px]">
        <span className="tabular text-2xl leading-8 font-semibold tracking-tight">{total}</span>
        <span className="font-medium">{total === 1 ? "finding" : "findings"}</span>
      </p>
      <SeverityBar counts={counts} className="mt-3" />
      <SeverityCounts counts={counts} className="mt-3" />
      <p className="tabular mt-3 text-[13px] text-muted">
        {counts.fixable} fixable · {counts.kev} known to be exploited
        {(overdue ?? 0) > 0 && <span className="text-danger"> · {overdue} overdue</span>}
      </p>
    </section>
  );
}

/** Other platforms under which the same image ID runs. */
function Platforms({ image }: { image: Image }) {
  const { update } = useAddress(findingFilters);
  const { data = [] } = useQuery({
    queryKey: ["platforms", image.imageId],
    queryFn: async ({ signal }) => {
      const page = await listImages({ text: image.imageId, pageSize: 50 }, { signal });
      return page.items.filter((item) => item.imageId === image.imageId).map((item) => item.platform);
    },
  });
  if (data.length < 2)
    return <span className="untrusted text-[13px] text-muted">{visible(image.platform)}</span>;
  return (
    <Select
      label="Platform"
      className="h-7 text-[13px]"
      options={data.map((platform) => ({ value: platform, label: platform }))}
      value={image.platform}
      onChange={(platform) => update({ platform })}
    />
  );
}

function NoFindingsYet({ image }: { image: Image }) {
  const words = {
    Pending: ["Not scanned yet", "A scan job will catalog the packages. This page updates automatically."],
    Cataloged: ["Waiting for matching", "The packages are cataloged. Findings appear here automatically."],
    Failed: ["No findings yet", "The image has no SBOM, because the scan failed."],
    Reported: ["Report only", "The report was uploaded. Download it to see its contents."],
    Scanned: ["No findings", "No known vulnerabilities were found in this image."],
  }[image.state];
  return (
    <div className="mt-3 rounded-xl border border-line bg-surface shadow-card">
      <StatePanel icon={Clock} title={words[0] ?? ""}>
        <p>{words[1]}</p>
      </StatePanel>
    </div>
  );
}

function NotKnown({ imageId }: { imageId: string }) {
  return (
    <StatePanel
      icon={FileQuestion}
      title="Image not found"
      action={
        <Link to="/images" className={buttonVariants({ variant: "primary" })}>
          All images
        </Link>
      }
    >
      <p className="font-mono text-xs">{visible(imageId)}</p>
      <p>It was removed, or no container runs it any longer.</p>
      <InOthers />
    </StatePanel>
  );
}

function PageSkeleton({ imageId }: { imageId: string }) {
  return (
    <div role="status" className="mt-2">
      <h1 className="max-h-[50vh] overflow-y-auto text-xl leading-7 font-semibold tracking-tight">
        <ImageName imageId={imageId} />
      </h1>
      <span className="sr-only">Loading</span>
      <Skeleton className="mt-2 h-4 w-40" />
      <div className="mt-5 grid gap-3 xl:grid-cols-[1.6fr_1fr]">
        <Skeleton className="h-44 rounded-xl" />
        <Skeleton className="h-44 rounded-xl" />
      </div>
      <Skeleton className="mt-6 h-9 w-72" />
      <Skeleton className="mt-3 h-80 rounded-xl" />
    </div>
  );
}
