import { useQuery } from "@tanstack/react-query";
import { X } from "lucide-react";
import { useState } from "react";
import { SeverityCounts } from "@/components/severity";
import { ImageName } from "@/components/image-name";
import { Button } from "@/components/ui/button";
import { SearchInput } from "@/components/ui/search-input";
import { Skeleton } from "@/components/ui/skeleton";
import { ErrorPanel } from "@/components/ui/state";
import { listImages } from "@/gen/images/images";
import type { ImageState } from "@/gen/model";
import { plural } from "@/lib/format";
import { parseImageId } from "@/lib/image-id";
import { visible } from "@/lib/text";

const most = 50;

interface Props {
  title: string;
  /** The image that is chosen already; empty for none. Images of its repository are offered first. */
  other: string;
  /** Images of other platforms are not offered; empty for all. */
  platform: string;
  onAllPlatforms: () => void;
  onChoose: (imageId: string, platform: string) => void;
}

/** The repository of an image ID, as it stands there. */
const repositoryOf = (imageId: string) => imageId.replace(/@.*$/, "");

/** Images of reports that are not matched have no findings to compare. */
const states: ImageState[] = ["Scanned", "Reported"];

/** A search for images that are matched: scanned ones, and those of which only a report was uploaded. */
export function Picker({ title, other, platform: wanted, onAllPlatforms, onChoose }: Props) {
  const [text, setText] = useState(other ? repositoryOf(other) : "");
  const { data, error, refetch } = useQuery({
    queryKey: ["compare", "images", text, wanted],
    queryFn: ({ signal }) =>
      listImages(
        { text: text || undefined, state: states, platform: wanted || undefined, pageSize: most },
        { signal },
      ),
  });
  const images = data?.items.filter(({ imageId, matchedAt }) => matchedAt !== undefined && imageId !== other);
  return (
    <section
      aria-label={title}
      className="mt-4 min-w-0 rounded-xl border border-line bg-surface p-4 shadow-card"
    >
      {other && (
        <p className="mb-3 truncate text-[13px] text-muted">
          {title === "To" ? "From" : "To"}: <ImageName imageId={other} className="text-ink" />
        </p>
      )}
      <div className="flex flex-wrap gap-2">
        <SearchInput
          label={`Search the image "${title}"`}
          placeholder="Part of the image ID"
          value={text}
          maxLength={512}
          onChange={setText}
          className="w-full sm:w-96"
        />
        {wanted && (
          <Button
            onClick={onAllPlatforms}
            aria-label={`${visible(wanted)}, show images of all platforms`}
            className="max-w-72 border-accent bg-accent-soft"
          >
            <span className="untrusted truncate">{visible(wanted)}</span>
            <X aria-hidden />
          </Button>
        )}
      </div>
      {error && <ErrorPanel error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Skeleton className="mt-3 h-40 rounded-xl" />}
      {images?.length === 0 && <p className="mt-3 text-[13px] text-muted">No other scanned image matches.</p>}
      <ul className="mt-3 divide-y divide-line">
        {images?.map(({ imageId, platform, counts }) => (
          <li key={`${imageId} ${platform}`}>
            <button
              type="button"
              onClick={() => onChoose(imageId, platform)}
              className="grid w-full min-w-0 cursor-pointer gap-x-4 gap-y-1 rounded-md px-2 py-2 text-left text-[13px] hover:bg-subtle sm:grid-cols-[minmax(0,1fr)_18.75rem] sm:items-center"
            >
              <span className="min-w-0">
                <span className="block truncate text-sm font-medium">
                  <ImageName imageId={parseImageId(imageId).repository} />
                </span>
                <span className="untrusted block truncate text-xs text-muted">
                  <span className="font-mono">{parseImageId(visible(imageId)).digest || "no digest"}</span> ·{" "}
                  {visible(platform)}
                </span>
              </span>
              <SeverityCounts counts={counts} className="max-w-full" />
            </button>
          </li>
        ))}
      </ul>
      {data && data.total > most && (
        <p className="tabular mt-2 px-2 text-[13px] text-muted">
          {`The first ${most} of ${plural(data.total, "image")}. Search to see others.`}
        </p>
      )}
    </section>
  );
}
