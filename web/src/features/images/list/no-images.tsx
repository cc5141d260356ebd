import { PackageSearch } from "lucide-react";
import { Callout } from "@/components/ui/callout";
import { StatePanel } from "@/components/ui/state";

const scanner = `kubectl apply -f - <<EOF
apiVersion: scanner.zoltankerezsi.xyz/v1
kind: Scanner
metadata:
  name: scanner
  namespace: default
EOF`;

/** What to do when the operator has found no image. */
export function NoImages() {
  return (
    <StatePanel icon={PackageSearch} title="No images yet">
      <p>Create a Scanner in the namespace to scan, and run a pod there.</p>
      <Callout
        tone="info"
        icon={PackageSearch}
        title="A Scanner for the default namespace"
        className="text-left"
      >
        <pre className="overflow-x-auto font-mono text-xs leading-5" tabIndex={0}>
          {scanner}
        </pre>
      </Callout>
      <p>Images appear here automatically.</p>
    </StatePanel>
  );
}
