import type { QueryKey } from "@tanstack/react-query";
import { type SubmitEvent, useState } from "react";
import { FindingChange } from "@/components/finding-change";
import { Button } from "@/components/ui/button";
import { RelativeTime } from "@/components/ui/relative-time";
import { Skeleton } from "@/components/ui/skeleton";
import { Part } from "@/components/vulnerability-facts";
import { usePreviewFix } from "@/gen/images/images";
import type { FixItem, FixPreview, PreviewFixParams } from "@/gen/model";
import { formatNumber, plural } from "@/lib/format";
import { costlyKey } from "@/lib/lists";
import { describe } from "@/lib/problem";
import { visible } from "@/lib/text";

/** Packages that could not be matched that are listed. */
const maxShown = 5;

/** Asks what an action does; version is another one than that of the action, or empty. */
function previewParams({ action, imageId, platform, packages }: FixItem, version: string): PreviewFixParams {
  const image = { imageId, platform };
  const [pkg] = packages;
  if (action !== "update" || !pkg) return { ...image, action: "rebuild" };
  return {
    ...image,
    action,
    packageName: pkg.name,
    packageVersion: pkg.version,
    packageType: pkg.type,
    packageId: pkg.id,
    fixVersion: version || pkg.fixVersion,
  };
}

const sameParams = (key: QueryKey | undefined, params: PreviewFixParams) =>
  JSON.stringify(key?.[2]) === JSON.stringify(params);

/** What an update or a rebuild closes, and what it opens. */
export function Preview({ row }: { row: FixItem }) {
  const [version, setVersion] = useState("");
  const params = previewParams(row, version);
  // With other findings of the action, its preview is another one; that before is shown meanwhile.
  const { data, error, refetch } = usePreviewFix(params, {
    query: {
      queryKey: [...costlyKey, "fix preview", params, row.counts],
      staleTime: 60_000,
      placeholderData: (previous, before) => (sameParams(before?.queryKey, params) ? previous : undefined),
    },
  });
  return (
    <Part title="Preview">
      <div className="min-w-0 space-y-2">
        {error && <Failure error={error} onRetry={() => void refetch()} />}
        {data && <Outcome preview={data} />}
        {!data && !error && (
          <div role="status" className="space-y-2">
            <span className="sr-only">Computing the preview</span>
            <Skeleton className="h-4 w-64 max-w-full" />
            <Skeleton className="h-4 w-48 max-w-full" />
          </div>
        )}
        {row.action === "update" && (
          <VersionForm suggested={row.packages[0]?.fixVersion ?? ""} onChoose={setVersion} />
        )}
      </div>
    </Part>
  );
}

function Failure({ error, onRetry }: { error: unknown; onRetry: () => void }) {
  const { title, detail } = describe(error);
  return (
    <div role="alert" className="space-y-1.5">
      <p className="untrusted text-danger">
        Could not compute the preview: {title}
        {detail && `. ${detail}`}
      </p>
      <Button size="sm" onClick={onRetry}>
        Try again
      </Button>
    </div>
  );
}

function Outcome({ preview }: { preview: FixPreview }) {
  const failed = preview.packages.filter(({ failure }) => failure !== undefined);
  const matched = preview.packages.length - failed.length;
  const [only] = preview.packages;
  return (
    <>
      {matched > 0 && (
        <>
          <p className="text-muted">
            {preview.action === "update" && only?.fixVersion !== undefined ? (
              <>
                In version <span className="untrusted font-mono text-xs">{visible(only.fixVersion)}</span>
              </>
            ) : (
              `With ${plural(matched, "package")} in the fixed version`
            )}
            , matched with the vulnerability database that was built{" "}
            <RelativeTime iso={preview.databaseBuilt} />:
          </p>
          <dl className="grid grid-cols-[auto_minmax(0,1fr)] items-center gap-x-4 gap-y-1.5">
            <FindingChange name="Closes" counts={preview.closed} />
            <FindingChange name="Opens" counts={preview.opened} findings={preview.openedFindings} />
            <FindingChange
              name="Leaves open"
              counts={preview.remaining}
              findings={preview.remainingFindings}
            />
          </dl>
        </>
      )}
      {failed.length > 0 && (
        <ul className="space-y-1">
          {failed.slice(0, maxShown).map(({ name, failure }, index) => (
            <li key={index} className="untrusted text-warn">
              {visible(name)} was not previewed: {visible(failure ?? "")}
            </li>
          ))}
          {failed.length > maxShown && (
            <li className="text-muted">{`and ${formatNumber(failed.length - maxShown)} more`}</li>
          )}
        </ul>
      )}
      {preview.packageCount > preview.packages.length && (
        <p className="text-muted">
          {`Only the first ${formatNumber(preview.packages.length)} of ${formatNumber(preview.packageCount)} packages, by name, are in this preview.`}
        </p>
      )}
    </>
  );
}

/** Asks for a preview of another version. */
function VersionForm({ suggested, onChoose }: { suggested: string; onChoose: (version: string) => void }) {
  const submit = (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const version = new FormData(event.currentTarget).get("version");
    onChoose(typeof version === "string" ? version.trim() : "");
  };
  return (
    <form onSubmit={submit} className="flex flex-wrap items-center gap-2 pt-1">
      <label className="flex min-w-0 items-center gap-2 text-muted">
        Another version
        <input
          name="version"
          maxLength={255}
          placeholder={visible(suggested)}
          autoComplete="off"
          spellCheck={false}
          className="h-8 w-36 min-w-0 rounded-md border border-line-strong bg-surface px-2 font-mono text-xs text-ink placeholder:text-muted"
        />
      </label>
      <Button size="sm" type="submit">
        Preview
      </Button>
    </form>
  );
}
