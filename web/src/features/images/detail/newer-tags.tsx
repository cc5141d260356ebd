import { CircleX, Tags } from "lucide-react";
import { FindingChange } from "@/components/finding-change";
import { Callout } from "@/components/ui/callout";
import { LoadError } from "@/components/ui/load-error";
import { RelativeTime } from "@/components/ui/relative-time";
import { Skeleton } from "@/components/ui/skeleton";
import { ErrorPanel, StatePanel } from "@/components/ui/state";
import { useGetNewerTags } from "@/gen/images/images";
import type { Image, NewerTag, TagLookup } from "@/gen/model";
import { formatNumber, plural } from "@/lib/format";
import { visible } from "@/lib/text";

/** Newer tags of an image, compared with it. */
export function NewerTags({ image: { imageId, platform } }: { image: Image }) {
  const { data, error, refetch } = useGetNewerTags(imageId, platform ? { platform } : undefined);
  const retry = () => void refetch();
  return (
    <section aria-label="Newer tags" className="mt-3 space-y-3">
      {error && data && <LoadError error={error} onRetry={retry} />}
      {data && data.items.length > 0 ? (
        data.items.map((lookup, index) => <Lookup key={index} lookup={lookup} />)
      ) : (
        <div className="rounded-xl border border-line bg-surface shadow-card">
          {data ? <NotLookedUp /> : error ? <ErrorPanel error={error} onRetry={retry} /> : <Loading />}
        </div>
      )}
    </section>
  );
}

function Loading() {
  return (
    <div role="status" className="space-y-3 p-4">
      <span className="sr-only">Loading newer tags</span>
      <Skeleton className="h-5 w-72 max-w-full" />
      <Skeleton className="h-16 w-full" />
      <Skeleton className="h-16 w-full" />
    </div>
  );
}

function NotLookedUp() {
  return (
    <StatePanel icon={Tags} title="Newer tags are not looked up">
      <p>
        They are looked up for images with findings that containers run with a tag that is a version, such as{" "}
        <code>1.27.1-alpine</code>, if the Scanner has <code>spec.newerTags</code>.
      </p>
    </StatePanel>
  );
}

function Lookup({ lookup }: { lookup: TagLookup }) {
  const { repository, tag, state, lookedUpAt, listed, source, incomplete, message, tags } = lookup;
  return (
    <article className="rounded-xl border border-line bg-surface shadow-card">
      <header className="border-b border-line px-4 py-3">
        <h2 className="untrusted font-mono text-sm font-semibold [overflow-wrap:anywhere]">
          {visible(`${repository}:${tag}`)}
        </h2>
        <p className="mt-0.5 text-[13px] text-muted">
          {lookedUpAt ? (
            <>
              Looked up <RelativeTime iso={lookedUpAt} />, {plural(listed, "tag")} in{" "}
              <span className="untrusted">{source ? `the mirror ${visible(source)}` : "the repository"}</span>
            </>
          ) : state === "Pending" ? (
            "The next lookup of this Scanner includes it, after all scans."
          ) : (
            "Not looked up yet"
          )}
        </p>
        {incomplete && (
          <p className="untrusted mt-1 text-[13px] text-warn">{`Newer tags can be missing: ${visible(incomplete)}`}</p>
        )}
      </header>
      {state === "Failed" && <Failure lookup={lookup} />}
      {tags.length > 0 ? (
        <ul className="divide-y divide-line">
          {tags.map((newer) => (
            <Newer key={newer.tag} newer={newer} />
          ))}
        </ul>
      ) : (
        lookedUpAt && (
          <p className="untrusted px-4 py-3 text-[13px] text-muted">
            {message ? `There is no newer tag: ${visible(message)}.` : "There is no newer tag."}
          </p>
        )
      )}
    </article>
  );
}

function Failure({ lookup: { failureReason = "", failureMessage, nextAttemptAt } }: { lookup: TagLookup }) {
  return (
    <Callout
      tone="danger"
      icon={CircleX}
      title={visible(`The last lookup failed (${failureReason})`)}
      className="m-3"
    >
      {failureMessage && (
        <p className="untrusted font-mono text-xs leading-5 whitespace-pre-line">{visible(failureMessage)}</p>
      )}
      {nextAttemptAt && (
        <p className="text-[13px]">
          Next attempt <RelativeTime iso={nextAttemptAt} />
        </p>
      )}
    </Callout>
  );
}

const kinds: Record<NewerTag["kind"], string> = {
  patch: "Same minor version",
  minor: "Same major version",
  major: "Other major version",
};

function Newer({ newer }: { newer: NewerTag }) {
  const { tag, kind, digest, recommended } = newer;
  return (
    <li className="grid gap-x-6 gap-y-2 px-4 py-3 md:grid-cols-[minmax(0,16rem)_minmax(0,1fr)]">
      <div className="min-w-0">
        <h3 className="flex flex-wrap items-center gap-2">
          <span className="untrusted font-mono text-sm font-semibold [overflow-wrap:anywhere]">
            {visible(tag)}
          </span>
          {recommended && (
            <span className="rounded-full border border-accent px-2 text-xs leading-5 font-medium text-accent">
              Recommended
            </span>
          )}
        </h3>
        <p className="text-[13px] text-muted">{kinds[kind]}</p>
        {digest && (
          <p className="untrusted truncate font-mono text-xs text-muted" title={digest}>
            {visible(digest)}
          </p>
        )}
      </div>
      <Effect newer={newer} />
    </li>
  );
}

function Effect({
  newer: { state, message, riskRemoved = 0, closed, opened, remaining, closedFindings, openedFindings },
}: {
  newer: NewerTag;
}) {
  if (state === "Failed") {
    return (
      <p className="untrusted text-[13px] text-warn">{`It cannot be compared: ${visible(message ?? "")}`}</p>
    );
  }
  if (state === "Pending" || !closed || !opened || !remaining) {
    return (
      <p className="text-[13px] text-muted">
        It is compared when it is matched with the vulnerability database.
      </p>
    );
  }
  return (
    <div className="min-w-0 space-y-1.5 text-[13px]">
      <dl className="grid grid-cols-[auto_minmax(0,1fr)] items-center gap-x-4 gap-y-1.5">
        <FindingChange name="Closes" counts={closed} findings={closedFindings} />
        <FindingChange name="Opens" counts={opened} findings={openedFindings} />
        <FindingChange name="Leaves open" counts={remaining} />
      </dl>
      <p className="text-muted">
        {riskRemoved >= 0 ? "Removes" : "Adds"} {formatNumber(Math.round(Math.abs(riskRemoved) * 10) / 10)} of
        risk
      </p>
    </div>
  );
}
