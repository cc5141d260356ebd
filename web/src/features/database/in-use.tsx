import type { ReactNode } from "react";
import { CopyButton } from "@/components/ui/copy-button";
import { RelativeTime } from "@/components/ui/relative-time";
import type { Database, DatabaseUpdate } from "@/gen/model";
import { formatDateTime, formatNumber, plural } from "@/lib/format";
import { visible } from "@/lib/text";
import { sources } from "./notices";

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div className="min-w-0">
      <dt className="text-[13px] text-muted">{name}</dt>
      <dd className="untrusted mt-0.5 text-sm">{children}</dd>
    </div>
  );
}

const box = "min-w-0 rounded-xl border border-line bg-surface p-4 shadow-card";

/** The build that everything which is shown comes from. */
export function InUse({ database }: { database: Database }) {
  return (
    <section aria-labelledby="in-use" className={box}>
      <h2 id="in-use" className="flex flex-wrap items-baseline gap-x-2 text-[13px] text-muted">
        <span>In use:</span>
        <span className="text-base font-semibold text-ink">
          built <RelativeTime iso={database.built} />
        </span>
        <span>{sources[database.source]}</span>
      </h2>
      <dl className="mt-3 grid grid-cols-2 gap-x-4 gap-y-3 sm:grid-cols-3">
        <Fact name="Built">{formatDateTime(database.built)}</Fact>
        <Fact name="In use since">{formatDateTime(database.currentSince)}</Fact>
        <Fact name="Findings from it">{plural(database.images, "image")}</Fact>
        <Fact name="Packages matched">
          <span className="tabular">{formatNumber(database.matched)}</span>
          <span className="text-muted">{database.full ? ", all of them" : ", those that it can touch"}</span>
        </Fact>
        <Fact name="Schema">{visible(database.schemaVersion)}</Fact>
        <Fact name="Matched by">{visible(database.engine)}</Fact>
      </dl>
      <p className="mt-3 flex items-center gap-1 border-t border-line pt-2 text-xs text-muted">
        Build <span className="untrusted min-w-0 truncate font-mono">{visible(database.id)}</span>
        <CopyButton text={database.id} label="Copy the build ID" />
      </p>
    </section>
  );
}

const days = (seconds: number) => plural(Math.round((10 * seconds) / 86_400) / 10, "day");

/** When updates are looked for. */
export function Updates({ update }: { update: DatabaseUpdate | undefined }) {
  return (
    <section aria-labelledby="updates" className={box}>
      <h2 id="updates" className="text-[13px] text-muted">
        <span className="text-base font-semibold text-ink">Updates</span>
      </h2>
      {update ? (
        <>
          <dl className="mt-3 grid grid-cols-2 gap-x-4 gap-y-3">
            <Fact name="Last check">
              <RelativeTime iso={update.lastCheck} />
            </Fact>
            <Fact name="Next check">
              <RelativeTime iso={update.nextCheck} />
            </Fact>
            <Fact name="Outdated after">{days(update.maxAge)}</Fact>
            <Fact name="Last result">
              {update.lastError ? "Failed" : update.lastCheck ? "Succeeded" : "–"}
            </Fact>
          </dl>
          {update.lastError && (
            <p className="untrusted mt-3 max-h-24 overflow-y-auto border-t border-line pt-2 text-[13px] text-danger">
              {visible(update.lastError)}
            </p>
          )}
        </>
      ) : (
        <p className="mt-3 text-sm text-muted">Another replica of the operator manages the databases.</p>
      )}
    </section>
  );
}
