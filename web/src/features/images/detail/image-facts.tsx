import type { ReactNode } from "react";
import { Link } from "react-router";
import { CopyButton } from "@/components/ui/copy-button";
import { RelativeTime } from "@/components/ui/relative-time";
import { BaseSource, type BaseImage, type Image } from "@/gen/model";
import { visible } from "@/lib/text";
import { formatBytes, formatDay, formatNumber, plural } from "@/lib/format";
import { imagesOnBasePath } from "@/lib/paths";
import { sourceName } from "@/lib/source";
import { BaseName } from "../bases/base-name";
import { distributionName } from "../lifecycle";

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div className="min-w-0">
      <dt className="text-[13px] text-muted">{name}</dt>
      <dd className="untrusted tabular mt-0.5 text-sm">{children}</dd>
    </div>
  );
}

/** What the image was built on, as far as it is known. */
function Base({ base }: { base: BaseImage }) {
  return (
    <>
      <BaseName base={base} />
      {base.layers !== undefined && base.chainId && (
        <span className="block text-[13px] text-muted">
          {base.source === BaseSource.listed && "listed, "}
          {plural(base.layers, "layer")},{" "}
          <Link
            to={imagesOnBasePath({ chainId: base.chainId, layers: base.layers })}
            className="text-accent underline-offset-2 hover:underline"
          >
            all images on it
          </Link>
        </span>
      )}
    </>
  );
}

export function ImageFacts({ image }: { image: Image }) {
  const { database } = image;
  return (
    <div className="rounded-xl border border-line bg-surface shadow-card">
      <div className="flex items-center gap-2 border-b border-line py-2 pr-2 pl-4">
        <code className="untrusted min-w-0 flex-1 font-mono text-xs leading-5">{visible(image.imageId)}</code>
        <CopyButton text={image.imageId} label="Copy the image ID" />
      </div>
      <dl className="grid grid-cols-2 gap-x-6 gap-y-4 p-4 sm:grid-cols-3 xl:grid-cols-4">
        <Fact name="Platform">{visible(image.platform) || "unknown"}</Fact>
        <Fact name="Distribution">{distributionName(image.distribution) || "unknown"}</Fact>
        {image.distribution && (
          <Fact name="End of life">
            {image.distribution.endOfLife ? formatDay(image.distribution.endOfLife) : "unknown"}{" "}
            {image.distribution.endOfLifeReached && <span className="font-medium text-warn">(reached)</span>}
          </Fact>
        )}
        {image.distribution?.endOfSupport && (
          <Fact name="End of active support">{formatDay(image.distribution.endOfSupport)}</Fact>
        )}
        <Fact name="Created">
          <RelativeTime iso={image.created} none="unknown" />
        </Fact>
        {image.base && (
          <Fact name="Base image">
            <Base base={image.base} />
          </Fact>
        )}
        {image.layersUnknown && !image.base && (
          <Fact name="Base image">
            unknown,{" "}
            <Link to="?tab=packages" className="text-accent underline-offset-2 hover:underline">
              as are the layers
            </Link>
          </Fact>
        )}
        {image.owners && (
          <Fact name={image.owners.length === 1 ? "Owner" : "Owners"}>
            {image.owners.map(visible).join(", ")}
          </Fact>
        )}
        <Fact name="Packages">{image.packages > 0 ? formatNumber(image.packages) : "unknown"}</Fact>
        <Fact name="Size">{image.size > 0 ? formatBytes(image.size) : "unknown"}</Fact>
        <Fact name="First seen">
          <RelativeTime iso={image.firstSeen} />
        </Fact>
        <Fact name="Cataloged">
          <RelativeTime iso={image.catalogedAt} />
        </Fact>
        {image.catalogedAt && <Fact name="Cataloger">{visible(image.cataloger ?? "unknown")}</Fact>}
        {image.catalogedAt && !image.fromReport && <Fact name="Read from">{sourceName(image.source)}</Fact>}
        {image.attestedBy && <Fact name="Attested by key">{visible(image.attestedBy)}</Fact>}
        {image.scannedIn && <Fact name="Scanned in namespace">{visible(image.scannedIn)}</Fact>}
        <Fact name="Matched">
          <RelativeTime iso={image.matchedAt} />
        </Fact>
        <Fact name="Database">
          {database ? (
            <>
              <RelativeTime iso={database.built} /> <span className="text-muted">({database.source})</span>
            </>
          ) : (
            "none yet"
          )}
        </Fact>
      </dl>
    </div>
  );
}
