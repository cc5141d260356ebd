import { CopyButton } from "@/components/ui/copy-button";
import { Popover, PopoverContent, PopoverTrigger } from "@/components/ui/popover";
import type { Package } from "@/gen/model";
import { useNow } from "@/lib/clock";
import { exceptionManifest } from "./manifest";

/** Shows the manifest of an exception for a vulnerability in a package, to copy. */
export function WriteException({ vulnerability, pkg }: { vulnerability: string; pkg: Package }) {
  const manifest = exceptionManifest(vulnerability, pkg, useNow());
  if (!manifest)
    return (
      <p className="text-muted">
        Exceptions cannot name this vulnerability: its ID has characters that they do not allow.
      </p>
    );
  return (
    <Popover>
      <PopoverTrigger variant="outline" size="sm">
        Write an exception
      </PopoverTrigger>
      <PopoverContent title="Exception">
        <div className="space-y-2 px-4 pt-1 pb-4 text-[13px]">
          <p className="text-muted">
            Applied with kubectl, it suppresses the findings that it matches in all images of the cluster.
            This requires permission to create ClusterVulnerabilityExceptions. Check the column MATCHED of
            kubectl get cvex afterwards.
          </p>
          <div className="flex items-start gap-1 rounded-md bg-subtle py-1.5 pr-1.5 pl-3">
            <pre
              aria-label="Manifest of the exception"
              className="untrusted min-w-0 flex-1 overflow-x-auto py-0.5 font-mono text-xs leading-5"
              tabIndex={0}
            >
              {manifest}
            </pre>
            <CopyButton text={manifest} label="Copy the manifest" />
          </div>
        </div>
      </PopoverContent>
    </Popover>
  );
}
