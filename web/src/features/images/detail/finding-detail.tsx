import type { ReactNode } from "react";
import { ExternalLink } from "@/components/ui/external-link";
import type { Finding, MatchDetail } from "@/gen/model";
import { visible } from "@/lib/text";
import { formatPercent } from "@/lib/format";
import { facts, matchType, type Fact } from "./finding";

const maxShown = 20;

function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className="min-w-0">
      <h3 className="text-xs font-semibold text-muted">{title}</h3>
      <div className="mt-1.5 space-y-1 text-[13px]">{children}</div>
    </section>
  );
}

function FactList({ title, list }: { title: string; list: Fact[] }) {
  if (list.length === 0) return null;
  return (
    <div>
      <p className="text-muted">{title}</p>
      <dl className="mt-0.5 grid grid-cols-[auto_minmax(0,1fr)] gap-x-3 gap-y-0.5">
        {list.map(({ name, value }, index) => (
          <div key={index} className="contents">
            <dt className="untrusted text-muted">{name || "value"}</dt>
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
        {matchType(detail)} <span className="text-muted">({detail.matcher})</span>
      </p>
      <FactList title="Found" list={facts(detail.found)} />
      <FactList title="Searched by" list={facts(detail.searchedBy)} />
    </div>
  );
}

function Tags({ values }: { values: string[] }) {
  return (
    <p className="untrusted flex flex-wrap gap-1.5">
      {values.slice(0, maxShown).map((value, index) => (
        <span key={index} className="untrusted rounded border border-line px-1.5 font-mono text-xs leading-5">
          {visible(value)}
        </span>
      ))}
      {values.length > maxShown && <span className="text-muted">and {values.length - maxShown} more</span>}
    </p>
  );
}

/** Everything about one finding: what it is, how bad, why it matched and where it lies. */
export function FindingDetail({ finding }: { finding: Finding }) {
  const { vulnerability, package: pkg, locations, details } = finding;
  const { description, cvss = [], aliases = [], cwes = [], kev = [], urls = [], epss } = vulnerability;
  return (
    <div className="grid gap-x-10 gap-y-5 border-t border-line bg-canvas/60 px-4 py-4 lg:grid-cols-[minmax(0,1.2fr)_minmax(0,1fr)] lg:pl-14">
      <div className="min-w-0 space-y-5">
        <Part title="Description">
          <p className="untrusted max-w-prose leading-5 whitespace-pre-line">
            {visible(description ?? "The database holds no description.")}
          </p>
        </Part>
        {kev.map((entry, index) => (
          <Part key={index} title="Known to be exploited">
            <p className="untrusted">
              {[entry.vendorProject, entry.product].filter(Boolean).join(" ")}
              {entry.dateAdded && ` · listed ${entry.dateAdded}`}
              {entry.dueDate && ` · due ${entry.dueDate}`}
              {entry.knownRansomwareUse && ` · ransomware: ${entry.knownRansomwareUse}`}
            </p>
            {entry.requiredAction && <p className="untrusted max-w-prose">{entry.requiredAction}</p>}
          </Part>
        ))}
        {cvss.length > 0 && (
          <Part title="CVSS">
            {cvss.slice(0, maxShown).map(({ version, vector, score, source, type }, index) => (
              <p key={index} className="untrusted">
                <span className="tabular font-semibold">{score.toFixed(1)}</span>{" "}
                <span className="font-mono text-xs">{vector}</span>{" "}
                <span className="text-muted">
                  {["v" + version, type, source].filter(Boolean).join(" · ")}
                </span>
              </p>
            ))}
          </Part>
        )}
        {epss && (
          <Part title="EPSS">
            <p className="untrusted tabular">
              {formatPercent(epss.score)} within 30 days, percentile {formatPercent(epss.percentile)}
              {epss.date && <span className="text-muted"> · {epss.date}</span>}
            </p>
          </Part>
        )}
        {aliases.length > 0 && (
          <Part title="Aliases">
            <Tags values={aliases} />
          </Part>
        )}
        {cwes.length > 0 && (
          <Part title="Weaknesses">
            <Tags values={cwes} />
          </Part>
        )}
        {urls.length > 0 && (
          <Part title="References">
            {urls.slice(0, maxShown).map((url, index) => (
              <p key={index}>
                <ExternalLink href={url}>{url}</ExternalLink>
              </p>
            ))}
          </Part>
        )}
      </div>
      <div className="min-w-0 space-y-5">
        <Part title="Why it matched">
          {details.length === 0 && <p className="text-muted">The report does not say.</p>}
          {details.slice(0, maxShown).map((detail, index) => (
            <Match key={index} detail={detail} />
          ))}
          <p className="untrusted text-muted">Namespace {vulnerability.namespace}</p>
        </Part>
        <Part title="Package">
          <p className="untrusted font-mono text-xs leading-5">
            {visible(pkg.purl ?? `${pkg.name} ${pkg.version}`)}
          </p>
          {(pkg.licenses?.length ?? 0) > 0 && <Tags values={pkg.licenses ?? []} />}
        </Part>
        <Part title="Locations">
          {locations.length === 0 && <p className="text-muted">Not known.</p>}
          {locations.slice(0, maxShown).map(({ path, layer }, index) => (
            <div key={index}>
              <p className="untrusted font-mono text-xs leading-5">{visible(path)}</p>
              {layer && (
                <p className="untrusted truncate text-xs text-muted" title={layer}>
                  layer <span className="font-mono">{layer}</span>
                </p>
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
