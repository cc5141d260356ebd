import { ChevronRight, Layers as LayersIcon, PackageSearch } from "lucide-react";
import { useId } from "react";
import { SeverityFilter } from "@/components/filter-fields";
import { KevMark, SeverityCounts } from "@/components/severity";
import { Callout } from "@/components/ui/callout";
import { FilterBar } from "@/components/ui/filter-bar";
import { LoadError } from "@/components/ui/load-error";
import { SearchInput } from "@/components/ui/search-input";
import { Skeleton } from "@/components/ui/skeleton";
import { ErrorPanel, NothingFound, StatePanel } from "@/components/ui/state";
import { ToggleButton } from "@/components/ui/toggle-button";
import { ImageSource, type Image, type ImageLayer } from "@/gen/model";
import { useAddress } from "@/lib/address";
import { cn } from "@/lib/cn";
import { formatBytes, plural } from "@/lib/format";
import { visible } from "@/lib/text";
import { useImageLayers } from "./queries";
import { packageFilters, toLayersRequest, type PackageFilters } from "../filters";
import { OriginFilter, OriginMark } from "../origin";
import { LayerPackages } from "./layer-packages";

/** The packages of an image: by layer, then by location. */
export function Packages({ image }: { image: Image }) {
  const { filters: chosen, update } = useAddress(packageFilters);
  const matched = image.matchedAt !== undefined;
  // Before the first match there are no findings to filter by.
  const filters = matched ? chosen : { ...chosen, severity: undefined, vulnerable: false };
  const { data, error, refetch, isPlaceholderData, isPending } = useImageLayers(
    image.imageId,
    toLayersRequest(filters),
  );
  const filtered = packageFilters.isFiltered(filters);
  const clear = () => update(packageFilters.none);
  const layers = data?.items ?? [];
  const known = layers.filter(({ number }) => number !== undefined).length;
  const matching = layers.filter((layer) => layer.number !== undefined && layer.packages > 0).length;
  const packages = layers.reduce((sum, layer) => sum + layer.packages, 0);
  // The registry states the layers, and the mounted files are in none of them.
  const mounted = known > 0 && image.source === ImageSource.ImageVolume;
  const retry = () => void refetch();
  return (
    <section aria-label="Packages">
      <FilterBar
        label="Packages"
        count={
          data && !isPlaceholderData
            ? [plural(packages, "package"), known > 0 && plural(filtered ? matching : known, "layer")]
                .filter(Boolean)
                .join(", ")
            : ""
        }
        filtered={filtered}
        onClear={clear}
      >
        <SearchInput
          label="Search packages"
          placeholder="Package"
          value={filters.text}
          maxLength={256}
          onChange={(text) => update({ text })}
          className="w-full sm:w-72"
        />
        {matched && (
          <>
            <SeverityFilter value={filters.severity} onChange={(severity) => update({ severity })} />
            <ToggleButton pressed={filters.vulnerable} onChange={(vulnerable) => update({ vulnerable })}>
              With findings
            </ToggleButton>
          </>
        )}
        {(image.base?.layers !== undefined || filters.origin) && (
          <OriginFilter value={filters.origin} onChange={(origin) => update({ origin })} />
        )}
      </FilterBar>
      <h2 className="sr-only">Packages by layer</h2>
      {error && data && <LoadError error={error} onRetry={retry} />}
      {data && known === 0 && layers.length > 0 && <UnknownLayers image={image} />}
      {mounted && packages > 0 && <MountedPackages />}
      <div
        aria-busy={isPending || isPlaceholderData}
        className="mt-3 rounded-xl border border-line bg-surface shadow-card"
      >
        {!data ? (
          error ? (
            <ErrorPanel error={error} onRetry={retry} />
          ) : (
            <Loading />
          )
        ) : packages > 0 || (known > 0 && !filtered) ? (
          <div className={cn(isPlaceholderData && "opacity-60 transition-opacity")}>
            <LayerList image={image} layers={layers} filters={filters} filtered={filtered} update={update} />
          </div>
        ) : filtered ? (
          <NothingFound title="No package matches" onClear={clear} />
        ) : (
          <NoPackages image={image} />
        )}
      </div>
    </section>
  );
}

interface ListProps {
  image: Image;
  layers: ImageLayer[];
  filters: PackageFilters;
  filtered: boolean;
  update: (change: Partial<PackageFilters>) => void;
}

/** The layers, of which one is open. Layers without a package that matches are left out. */
function LayerList({ image, layers, filters, filtered, update }: ListProps) {
  const matched = image.matchedAt !== undefined;
  const shown = filtered ? layers.filter((layer) => layer.packages > 0) : layers;
  const only = shown.length === 1;
  return (
    <ol className="divide-y divide-line">
      {shown.map((layer) => {
        const number = layer.number ?? 0;
        return (
          <Layer
            key={number}
            layer={layer}
            matched={matched}
            mounted={image.source === ImageSource.ImageVolume}
            open={only || filters.layer === number}
            onToggle={
              only ? undefined : () => update({ layer: filters.layer === number ? undefined : number })
            }
          >
            <LayerPackages
              imageId={image.imageId}
              matched={matched}
              layer={number}
              request={toLayersRequest(filters)}
            />
          </Layer>
        );
      })}
    </ol>
  );
}

function Layer({
  layer: { number, diffId, size, origin, packages, counts },
  matched,
  mounted,
  open,
  onToggle,
  children,
}: {
  layer: ImageLayer;
  matched: boolean;
  /** Files are in no known layer. */
  mounted: boolean;
  open: boolean;
  /** Absent if the layer cannot be closed. */
  onToggle: (() => void) | undefined;
  children: React.ReactNode;
}) {
  const id = useId();
  const toggles = onToggle && packages > 0;
  const label = number === undefined ? "No known layer" : `Layer ${number}`;
  return (
    <li>
      <div
        className={cn(
          "relative flex flex-wrap items-center gap-x-4 gap-y-1.5 px-4 py-2.5 transition-colors has-[button:focus-visible]:bg-accent-soft/60",
          toggles && "hover:bg-subtle/70",
        )}
      >
        <h3 className="flex min-w-0 basis-80 grow items-center gap-3 text-sm">
          {toggles ? (
            <button
              type="button"
              aria-expanded={open}
              aria-controls={open ? id : undefined}
              onClick={onToggle}
              className="flex shrink-0 items-center gap-2 rounded font-medium outline-none after:absolute after:inset-0"
            >
              <ChevronRight
                className={cn("size-4 text-muted transition-transform", open && "rotate-90")}
                aria-hidden
              />
              {label}
            </button>
          ) : (
            <span className={cn("shrink-0 font-medium", !onToggle || "pl-6", packages === 0 && "text-muted")}>
              {label}
            </span>
          )}
          {diffId && (
            <span
              className="untrusted min-w-0 truncate font-mono text-xs font-normal text-muted"
              title={visible(diffId)}
            >
              {visible(diffId.slice(0, 19))}
            </span>
          )}
          <OriginMark origin={origin} />
          {size !== undefined && (
            <span
              className="tabular ml-auto shrink-0 text-[13px] font-normal text-muted"
              title="Size as it is pulled"
            >
              {formatBytes(size)}
            </span>
          )}
        </h3>
        <span className="tabular w-28 text-[13px] text-muted sm:text-right">
          {packages === 0 ? (mounted ? "Not known" : "No packages") : plural(packages, "package")}
        </span>
        <span className="flex w-full items-center gap-2 sm:w-88">
          {packages > 0 &&
            (matched ? (
              <>
                <SeverityCounts counts={counts} className="w-75 min-w-0" />
                {counts.kev > 0 && <KevMark />}
              </>
            ) : (
              <span className="text-[13px] text-muted">Not matched yet</span>
            ))}
        </span>
      </div>
      {open && packages > 0 && (
        <div id={id} className="px-2 pb-3 sm:px-4">
          {children}
        </div>
      )}
    </li>
  );
}

/** Why all packages are in no known layer. */
export function UnknownLayers({ image }: { image: Image }) {
  return (
    <Callout tone="info" icon={LayersIcon} title="The layers of this image are not known" className="mt-3">
      {image.fromReport ? (
        <p>The packages come from an uploaded report, which does not say in which layers they are.</p>
      ) : image.source === ImageSource.ImageVolume ? (
        <>
          <p>
            The scan read the image from an image volume, which has the files without the layers that they
            come from. <code>spec.job.source: Registry</code> of the Scanner makes layers known.
          </p>
          {image.layersUnknown && (
            <p className="untrusted">
              They could not be read from the registry either: {visible(image.layersUnknown)}
            </p>
          )}
        </>
      ) : (
        <p>The SBOM of the image does not say in which layers the packages are.</p>
      )}
    </Callout>
  );
}

/** Why packages are in no layer although the image has some. */
export function MountedPackages() {
  return (
    <Callout
      tone="info"
      icon={LayersIcon}
      title="Which layer has which package is not known"
      className="mt-3"
    >
      <p>
        The layers are those that the registry states. The scan read the files from an image volume, which
        does not say from which layer they come. With <code>spec.job.source: Registry</code> of the Scanner,
        scans read each layer.
      </p>
    </Callout>
  );
}

function NoPackages({ image: { state } }: { image: Image }) {
  const [title, text] =
    state === "Pending"
      ? ["Not scanned yet", "A scan job will catalog the packages. This page updates automatically."]
      : state === "Failed"
        ? ["No packages yet", "The image has no SBOM, because the scan failed."]
        : ["No packages", "The scan found no packages in this image."];
  return (
    <StatePanel icon={PackageSearch} title={title}>
      <p>{text}</p>
    </StatePanel>
  );
}

function Loading() {
  return (
    <div role="status" className="divide-y divide-line">
      <span className="sr-only">Loading: Packages</span>
      {Array.from({ length: 6 }, (_, index) => (
        <div key={index} className="flex h-11 items-center gap-6 px-4">
          <Skeleton className="h-3.5 w-48 max-w-full" />
          <Skeleton className="ml-auto hidden h-5 w-72 sm:block" />
        </div>
      ))}
    </div>
  );
}
