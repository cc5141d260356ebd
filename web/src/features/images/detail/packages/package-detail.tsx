import { Link } from "react-router";
import { FixedIn } from "@/components/fixed-in";
import { SeverityBadge } from "@/components/severity";
import { LoadError } from "@/components/ui/load-error";
import { Skeleton } from "@/components/ui/skeleton";
import { maxShown, Part, Tags } from "@/components/vulnerability-facts";
import { ListFindingsSort, type ImagePackage } from "@/gen/model";
import { useAddress } from "@/lib/address";
import { plural } from "@/lib/format";
import { vulnerabilityPath } from "@/lib/paths";
import { totalFindings } from "@/lib/severity";
import { visible } from "@/lib/text";
import { useFindingsOfPackage } from "./queries";
import { findingFilters } from "../filters";
import { packageKey } from "../finding";

/** How many findings are asked for: packages of similar names are among them. */
const asked = 100;

/** All about a package of an image: its findings, and where its files are. */
export function PackageDetail({
  imageId,
  row,
  matched,
}: {
  imageId: string;
  row: ImagePackage;
  /** Whether the image was matched: without, its findings are not known. */
  matched: boolean;
}) {
  const { package: pkg, locations } = row;
  return (
    <div className="grid gap-x-10 gap-y-5 border-t border-line bg-canvas/60 px-4 py-4 lg:grid-cols-2 lg:pl-14">
      <Part title="Findings">
        {row.excluded ? (
          <p>Not matched: a package of the distribution owns its files.</p>
        ) : !matched ? (
          <p>Not matched yet.</p>
        ) : totalFindings(row.counts) === 0 ? (
          <p>No open findings.</p>
        ) : (
          <PackageFindings imageId={imageId} row={row} />
        )}
      </Part>
      <div className="min-w-0 space-y-5">
        <Part title="Package">
          <p className="untrusted font-mono text-xs leading-5">
            {visible(pkg.purl ?? `${pkg.name} ${pkg.version}`)}
          </p>
          {(pkg.licenses?.length ?? 0) > 0 && <Tags values={pkg.licenses ?? []} />}
        </Part>
        <Part title="Locations">
          {locations.length === 0 && <p className="text-muted">Unknown.</p>}
          {locations.slice(0, maxShown).map(({ path, layer }, index) => (
            <div key={index}>
              <p className="untrusted font-mono text-xs leading-5">{visible(path)}</p>
              <p className="untrusted truncate text-xs text-muted" title={visible(layer ?? "")}>
                layer {layer ? <span className="font-mono">{visible(layer)}</span> : "unknown"}
              </p>
            </div>
          ))}
          {locations.length > maxShown && <p className="text-muted">and more</p>}
        </Part>
      </div>
    </div>
  );
}

function PackageFindings({ imageId, row }: { imageId: string; row: ImagePackage }) {
  const { filters } = useAddress(findingFilters);
  const { data, error, refetch } = useFindingsOfPackage(imageId, {
    ...(filters.platform && { platform: filters.platform }),
    text: row.package.name.slice(0, 256),
    sort: ListFindingsSort["-severity"],
    pageSize: asked,
  });
  if (!data)
    return error ? (
      <LoadError error={error} onRetry={() => void refetch()} />
    ) : (
      <div role="status">
        <span className="sr-only">Loading</span>
        <Skeleton className="h-3.5 w-48 max-w-full" />
      </div>
    );
  const key = packageKey(row);
  const shown = data.items.filter((finding) => packageKey(finding) === key).slice(0, maxShown);
  const search = findingFilters.write({
    ...filters,
    ...findingFilters.none,
    tab: "findings",
    text: row.package.name,
  });
  const total = totalFindings(row.counts);
  return (
    <>
      <ul className="space-y-1">
        {shown.map(({ vulnerability, fix }, index) => (
          <li key={index} className="flex min-w-0 items-center gap-2">
            <SeverityBadge severity={vulnerability.severity} className="shrink-0" />
            <Link
              to={vulnerabilityPath(vulnerability.id)}
              className="untrusted min-w-0 truncate font-medium text-accent underline-offset-2 hover:underline"
            >
              {visible(vulnerability.id)}
            </Link>
            <span className="min-w-0 flex-1">
              <FixedIn fix={fix} />
            </span>
          </li>
        ))}
      </ul>
      <p>
        <Link to={{ search: search.toString() }} className="text-accent underline-offset-2 hover:underline">
          {shown.length < total ? `All ${plural(total, "finding")}` : "In the list of findings"}
        </Link>
      </p>
    </>
  );
}
