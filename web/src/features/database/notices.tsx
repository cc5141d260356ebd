import { FlaskConical, History } from "lucide-react";
import { Callout } from "@/components/ui/callout";
import { RelativeTime } from "@/components/ui/relative-time";
import type { DatabaseBuild } from "@/gen/model";

export const sources: Record<DatabaseBuild["source"], string> = {
  official: "official build",
  sample: "sample",
  imported: "imported",
};

export function SampleNotice() {
  return (
    <Callout tone="warn" icon={FlaskConical} title="Sample vulnerability database" className="mb-3">
      <p>
        It is small and for demonstration only: most vulnerabilities of these images are not in it. Import or
        download an official build before you rely on what you see.
      </p>
    </Callout>
  );
}

export function StaleNotice({ built }: { built: string }) {
  return (
    <Callout tone="warn" icon={History} title="The vulnerability database is old" className="mb-3">
      <p>
        It was built <RelativeTime iso={built} />: vulnerabilities that became known since are not found. Let
        the operator reach the update server, or import a newer build.
      </p>
    </Callout>
  );
}
