import { useQuery } from "@tanstack/react-query";
import { Download, FileQuestion } from "lucide-react";
import { useDownload } from "@/components/export-menu";
import { Button } from "@/components/ui/button";
import { FilterBar } from "@/components/ui/filter-bar";
import { LoadError } from "@/components/ui/load-error";
import { Skeleton } from "@/components/ui/skeleton";
import { ErrorPanel, StatePanel } from "@/components/ui/state";
import { getGetSBOMUrl } from "@/gen/images/images";
import type { Image } from "@/gen/model";
import { orAbsent } from "@/lib/address";
import { formatBytes } from "@/lib/format";
import { fileName } from "@/lib/image-id";
import { indentJSON } from "@/lib/indent";
import { costlyKey } from "@/lib/lists";
import { requestBeginning, requestBlob } from "@/lib/request";
import { visible } from "@/lib/text";

const type = "application/vnd.syft+json";

/** How much of an SBOM is read to be shown, and how many characters are shown once it is broken into lines. */
const maxRead = 1 << 20;
const maxShown = 2 << 20;

/** The SBOM as it is stored, or its beginning. */
export function SBOM({ image }: { image: Image }) {
  const { imageId, platform, catalogedAt } = image;
  const { busy, download } = useDownload();
  const url = getGetSBOMUrl(imageId, { platform: orAbsent(platform) });
  const known = catalogedAt !== undefined;
  // An SBOM is another one only after another scan.
  const { data, error, refetch } = useQuery({
    queryKey: [...costlyKey, "sbom", imageId, platform, catalogedAt],
    queryFn: async ({ signal }) => {
      const { text, whole } = await requestBeginning(url, type, maxRead, signal);
      return { lines: visible(indentJSON(text, maxShown)), whole };
    },
    enabled: known,
    staleTime: Infinity,
  });
  const retry = () => void refetch();
  return (
    <section aria-label="SBOM">
      <FilterBar
        label="SBOM"
        count={data && !data.whole ? `first ${formatBytes(maxRead)}` : ""}
        filtered={false}
        onClear={() => undefined}
        actions={
          known && (
            <Button
              disabled={busy}
              onClick={() =>
                void download("the SBOM", fileName(imageId, "syft.json"), () => requestBlob(url, type))
              }
            >
              <Download aria-hidden />
              {busy ? "Downloading…" : "Download all"}
            </Button>
          )
        }
      >
        <p className="text-[13px] text-muted">
          {image.fromReport
            ? "The report that was uploaded."
            : "The packages and files of the image, as Syft cataloged them."}
        </p>
      </FilterBar>
      <h2 className="sr-only">SBOM</h2>
      {error && data && <LoadError error={error} onRetry={retry} />}
      <div
        aria-busy={known && !data && !error}
        className="mt-3 rounded-xl border border-line bg-surface shadow-card"
      >
        {!known ? (
          <StatePanel icon={FileQuestion} title="No SBOM">
            <p>The image has not been cataloged yet.</p>
          </StatePanel>
        ) : data ? (
          <pre
            tabIndex={0}
            role="region"
            aria-label="SBOM, text"
            className="max-h-[70vh] overflow-auto rounded-xl p-4 font-mono text-xs leading-5"
          >
            {data.lines}
          </pre>
        ) : error ? (
          <ErrorPanel error={error} onRetry={retry} />
        ) : (
          <div role="status" className="space-y-3 p-4">
            <span className="sr-only">Loading: SBOM</span>
            {Array.from({ length: 8 }, (_, index) => (
              <Skeleton key={index} className="h-3.5 w-3/4" />
            ))}
          </div>
        )}
      </div>
      {data && !data.whole && (
        <p className="mt-3 text-center text-[13px] text-muted">
          {`Only the first ${formatBytes(maxRead)} are shown. Download the SBOM to see all of it.`}
        </p>
      )}
    </section>
  );
}
