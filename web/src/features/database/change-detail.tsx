import { ArrowRight } from "lucide-react";
import type { ReactNode } from "react";
import { Link } from "react-router";
import { ImageName } from "@/components/image-name";
import type { Change, ChangeSide } from "@/gen/model";
import { formatNumber } from "@/lib/format";
import { imagePath } from "@/lib/image-id";
import { workloadName } from "@/lib/paths";
import { visible } from "@/lib/text";
import { describeEPSS, describeFix, findingPath } from "./change";

const rows: { name: string; tell: (side: ChangeSide) => string }[] = [
  { name: "Severity", tell: ({ severity }) => visible(severity) },
  { name: "Fixed in", tell: describeFix },
  { name: "EPSS", tell: describeEPSS },
  { name: "Known to be exploited", tell: ({ kev }) => (kev ? "Yes" : "No") },
];

function Sides({ change: { before, after } }: { change: Change }) {
  return (
    <dl className="grid grid-cols-[max-content_1fr] gap-x-4 gap-y-1.5 text-[13px]">
      {rows.map(({ name, tell }) => {
        const [was, is] = [before && tell(before), after && tell(after)];
        const differs = was !== undefined && is !== undefined && was !== is;
        return (
          <div key={name} className="contents">
            <dt className="text-muted">{name}</dt>
            <dd className="untrusted">
              {differs ? (
                <>
                  <span className="text-muted">{was}</span>
                  <ArrowRight className="mx-1.5 inline size-3 text-muted" aria-hidden />
                  <span className="sr-only">became</span>
                  <span className="font-medium">{is}</span>
                </>
              ) : (
                (is ?? was)
              )}
            </dd>
          </div>
        );
      })}
    </dl>
  );
}

function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className="min-w-0">
      <h3 className="mb-1.5 text-xs font-medium text-muted">{title}</h3>
      {children}
    </section>
  );
}

function More({ count }: { count: number }) {
  return count > 0 ? <li className="text-muted">and {formatNumber(count)} more</li> : null;
}

/** Both sides of a change, and what it reaches. */
export function ChangeDetail({ change }: { change: Change }) {
  const { package: pkg, imageIds, images, workloads } = change;
  return (
    <div className="grid gap-x-8 gap-y-4 border-t border-line bg-subtle/50 px-4 py-4 md:grid-cols-2 lg:grid-cols-3 lg:pl-14">
      <Part title={change.kind === "closed" ? "Before" : "Details"}>
        <Sides change={change} />
        <p className="untrusted mt-3 text-xs text-muted">
          {[visible(change.namespace), visible(pkg.type), visible(pkg.distro ?? "")]
            .filter(Boolean)
            .join(" · ")}
        </p>
        {pkg.purl && (
          <p className="untrusted mt-1 font-mono text-xs break-all text-muted">{visible(pkg.purl)}</p>
        )}
      </Part>
      <Part title={`Images (${formatNumber(images)})`}>
        <ul className="space-y-1 text-[13px]">
          {imageIds.map((imageId, index) => (
            <li key={index} className="truncate">
              <Link
                to={
                  change.kind === "closed" ? imagePath(imageId) : findingPath(imageId, change.vulnerabilityId)
                }
                className="text-accent underline-offset-2 hover:underline"
              >
                <ImageName imageId={imageId} />
              </Link>
            </li>
          ))}
          {imageIds.length === 0 && <li className="text-muted">No image contains the package any longer.</li>}
          <More count={images - imageIds.length} />
        </ul>
      </Part>
      <Part title="Workloads">
        <ul className="space-y-1 text-[13px]">
          {workloads.map((workload, index) => (
            <li key={index} className="untrusted truncate">
              {workloadName(workload)}
            </li>
          ))}
          {workloads.length === 0 && <li className="text-muted">No running workload uses the package.</li>}
          {workloads.length === 20 && <li className="text-muted">and perhaps more</li>}
        </ul>
      </Part>
    </div>
  );
}
