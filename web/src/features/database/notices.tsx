import { FlaskConical, History } from "lucide-react";
import { Callout } from "@/components/ui/callout";
import { RelativeTime } from "@/components/ui/relative-time";
import type { DatabaseBuild } from "@/gen/model";

export const sources: Record<DatabaseBuild["source"], string> = {
  official: "official build",
  sample: "sample",
  imported: "imported",
};

/** Warns about the database in use, once: a sample is always outdated. */
export function DatabaseNotice({ database, stale }: { database?: DatabaseBuild; stale?: boolean }) {
  if (database?.source === "sample") {
    return <SampleNotice />;
  }
  return database && stale ? <StaleNotice built={database.built} /> : null;
}

function SampleNotice() {
  return (
    <Callout tone="warn" icon={FlaskConical} title="Sample vulnerability database" className="mb-3">
      <p>
        This small database is for demonstration only and lacks most vulnerabilities of these images. Import
        or download an official build to get complete results.
      </p>
    </Callout>
  );
}

function StaleNotice({ built }: { built: string }) {
  return (
    <Callout tone="warn" icon={History} title="The vulnerability database is outdated" className="mb-3">
      <p>
        It was built <RelativeTime iso={built} />. Vulnerabilities published since then are not found. Allow
        the operator to reach the update server, or import a newer build.
      </p>
    </Callout>
  );
}
