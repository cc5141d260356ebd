import { maxShown, Part, Tags, VulnerabilityFacts } from "@/components/vulnerability-facts";
import { Due } from "@/components/due";
import { RelativeTime } from "@/components/ui/relative-time";
import { Decide } from "@/features/exceptions/decide";
import { Decisions } from "@/features/exceptions/decisions";
import { Origin, type BaseImage, type Finding, type MatchDetail } from "@/gen/model";
import { visible } from "@/lib/text";
import { facts, matchType, type Fact } from "./finding";
import { FindingPath } from "./finding-path";

function FactList({ title, list }: { title: string; list: Fact[] }) {
  if (list.length === 0) return null;
  return (
    <div>
      <p className="text-muted">{title}</p>
      <dl className="mt-0.5 grid grid-cols-[auto_minmax(0,1fr)] gap-x-3 gap-y-0.5">
        {list.map(({ name, value }, index) => (
          <div key={index} className="contents">
            <dt className="untrusted text-muted">{visible(name) || "value"}</dt>
            <dd className="untrusted font-mono text-xs leading-5">{visible(value)}</dd>
          </div>
        ))}
      </dl>
    </div>
  );
}

function Match({ detail }: { detail: MatchDetail }) {
  return (
    <div className="space-y-1.5 border-l-2 border-line pl-3">
      <p className="untrusted">
        {visible(matchType(detail))} <span className="text-muted">({visible(detail.matcher)})</span>
      </p>
      <FactList title="Found" list={facts(detail.found)} />
      <FactList title="Searched by" list={facts(detail.searchedBy)} />
    </div>
  );
}

/** Everything about one finding: what it is, how bad, why it matched and where it lies. */
export function FindingDetail({
  finding,
  imageId,
  base,
}: {
  finding: Finding;
  imageId?: string;
  /** The base image of the image, if there is one. */
  base?: BaseImage;
}) {
  const { vulnerability, package: pkg, locations, details } = finding;
  return (
    <div className="grid gap-x-10 gap-y-5 border-t border-line bg-canvas/60 px-4 py-4 lg:grid-cols-[minmax(0,1.2fr)_minmax(0,1fr)] lg:pl-14">
      <div className="min-w-0 space-y-5">
        <VulnerabilityFacts vulnerability={vulnerability} />
      </div>
      <div className="min-w-0 space-y-5">
        {!finding.fixedAt && (
          <Part title={finding.suppressed ? "Suppressed" : "Exceptions"}>
            <Decisions decisions={finding.decisions ?? []} />
            {!finding.suppressed && <Decide subjects={[{ vulnerability: vulnerability.id, pkg, imageId }]} />}
          </Part>
        )}
        {imageId !== undefined && <FindingPath finding={finding} imageId={imageId} base={base} />}
        <Part title="Match details">
          {details.length === 0 && <p className="text-muted">The report contains no match details.</p>}
          {details.slice(0, maxShown).map((detail, index) => (
            <Match key={index} detail={detail} />
          ))}
          <p className="untrusted text-muted">Namespace {visible(vulnerability.namespace)}</p>
        </Part>
        <Part title="Package">
          <p className="untrusted font-mono text-xs leading-5">
            {visible(pkg.purl ?? `${pkg.name} ${pkg.version}`)}
          </p>
          {(pkg.licenses?.length ?? 0) > 0 && <Tags values={pkg.licenses ?? []} />}
        </Part>
        <Part title="In this image">
          <p>
            First seen <RelativeTime iso={finding.firstSeen} none="at an unknown time" />
            {finding.fixedAt && (
              <>
                , closed <RelativeTime iso={finding.fixedAt} />
              </>
            )}
          </p>
          {finding.due && (
            <p>
              Due <Due of={finding.due} />, policy{" "}
              <span className="untrusted">{visible(finding.due.policy)}</span>
            </p>
          )}
        </Part>
        <Part title="Locations">
          {finding.origin && (
            <p>{finding.origin === Origin.base ? "From the base image." : "Not from the base image."}</p>
          )}
          {locations.length === 0 && <p className="text-muted">Unknown.</p>}
          {locations.slice(0, maxShown).map(({ path, layer }, index) => (
            <div key={index}>
              <p className="untrusted font-mono text-xs leading-5">{visible(path)}</p>
              {layer ? (
                <p className="untrusted truncate text-xs text-muted" title={visible(layer)}>
                  layer <span className="font-mono">{visible(layer)}</span>
                </p>
              ) : (
                <p className="text-xs text-muted">layer unknown</p>
              )}
            </div>
          ))}
          {locations.length > maxShown && (
            <p className="text-muted">and {locations.length - maxShown} more</p>
          )}
        </Part>
      </div>
    </div>
  );
}
