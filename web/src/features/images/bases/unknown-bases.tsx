import { Info } from "lucide-react";
import { Callout } from "@/components/ui/callout";
import type { ListedBase } from "@/gen/model";
import { formatNumber } from "@/lib/format";
import { visible } from "@/lib/text";

/** The number of entries that are shown. */
const maxShown = 10;

/** The entries of the list of base images that recognize none, since they match no image that is known. */
export function UnknownBases({ listed = [] }: { listed: ListedBase[] | undefined }) {
  const unknown = listed.filter(({ images }) => images === 0);
  if (unknown.length === 0) return null;
  const rest = unknown.length - maxShown;
  return (
    <Callout
      tone="info"
      icon={Info}
      className="mt-3"
      title={
        unknown.length === 1
          ? "One entry of the list of base images matches no image with known layers"
          : `${formatNumber(unknown.length)} entries of the list of base images match no image with known layers`
      }
    >
      <ul className="untrusted">
        {unknown.slice(0, maxShown).map(({ pattern }, index) => (
          <li key={index}>
            <code className="font-mono text-xs">{visible(pattern)}</code>
          </li>
        ))}
        {rest > 0 && <li>and {formatNumber(rest)} more</li>}
      </ul>
      <p>A base image is known once a container has run it in a namespace that you see.</p>
    </Callout>
  );
}
