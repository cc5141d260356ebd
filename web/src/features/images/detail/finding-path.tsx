import { ChevronRight } from "lucide-react";
import type { ReactNode } from "react";
import { Link } from "react-router";
import { ImageName } from "@/components/image-name";
import { Button } from "@/components/ui/button";
import { Part } from "@/components/vulnerability-facts";
import { Origin, type BaseImage, type Finding } from "@/gen/model";
import { useAddress } from "@/lib/address";
import { plural } from "@/lib/format";
import { describe } from "@/lib/problem";
import { visible } from "@/lib/text";
import { BaseName } from "../bases/base-name";
import { packageFilters } from "./filters";
import { lowestLocation } from "./finding";
import { useImageLayers } from "./packages/queries";

function Step({ name, children }: { name: string; children: ReactNode }) {
  return (
    <li className="flex min-w-0 items-start gap-1.5">
      <ChevronRight className="mt-0.5 size-3.5 shrink-0 text-muted" aria-hidden />
      <span className="w-24 shrink-0 text-muted">{name}</span>
      <span className="min-w-0 flex-1">{children}</span>
    </li>
  );
}

/** How a vulnerability gets into an image: from the image through a layer and a location to the package. */
export function FindingPath({
  finding: { package: pkg, vulnerability, locations, origin, fixedAt },
  imageId,
  base,
}: {
  finding: Finding;
  imageId: string;
  base: BaseImage | undefined;
}) {
  const { filters } = useAddress(packageFilters);
  const { data, error, refetch } = useImageLayers(
    imageId,
    filters.platform ? { platform: filters.platform } : {},
  );
  const { location, layer } = lowestLocation(locations, data?.items ?? []);
  const number = layer?.number;
  const known = data?.items.filter((each) => each.number !== undefined).length;
  const place = `${number} of ${known}${layer?.origin === Origin.base ? ", of the base image" : ""}`;
  const others = locations.length - 1;
  const search = packageFilters.write({
    ...filters,
    ...packageFilters.none,
    tab: "packages",
    text: pkg.name,
    layer: number,
  });
  return (
    <Part title="Path">
      <ol className="space-y-1">
        <Step name="Image">
          <ImageName imageId={imageId} />
        </Step>
        {origin === Origin.base && base && (
          <Step name="Base image">
            <BaseName base={base} />
          </Step>
        )}
        <Step name="Layer">
          {number !== undefined ? (
            fixedAt ? (
              place
            ) : (
              <Link
                to={{ search: search.toString() }}
                className="text-accent underline-offset-2 hover:underline"
              >
                {place}
              </Link>
            )
          ) : data || !location?.layer ? (
            <span className="text-muted">Not known</span>
          ) : error ? (
            <span role="alert" className="flex flex-wrap items-center gap-x-2 gap-y-1">
              <span className="untrusted text-danger">Could not load: {describe(error).title}</span>
              <Button size="sm" onClick={() => void refetch()}>
                Try again
              </Button>
            </span>
          ) : (
            <span className="text-muted">…</span>
          )}
        </Step>
        <Step name="Location">
          <span className="untrusted font-mono text-xs leading-5">
            {visible(location?.path ?? "Not known")}
          </span>
          {others > 0 && <span className="text-muted"> and {plural(others, "other")}</span>}
        </Step>
        <Step name="Package">
          <span className="untrusted">
            {visible(pkg.name)} <span className="font-mono text-xs">{visible(pkg.version)}</span>
          </span>
        </Step>
        <Step name="Vulnerability">
          <span className="untrusted">{visible(vulnerability.id)}</span>
        </Step>
      </ol>
    </Part>
  );
}
