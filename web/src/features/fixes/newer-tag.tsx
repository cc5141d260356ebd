import { Link } from "react-router";
import { FindingChange } from "@/components/finding-change";
import { Part } from "@/components/vulnerability-facts";
import { useGetNewerTags } from "@/gen/images/images";
import type { FixItem, FixItemTag } from "@/gen/model";
import { newerTagsPath } from "@/lib/image-id";
import { visible } from "@/lib/text";

/** The recommended newer tag of the image of a fix, if there is one. */
export function RecommendedTag({ row: { imageId, platform } }: { row: FixItem }) {
  const { data } = useGetNewerTags(imageId, platform ? { platform } : undefined);
  const found = data?.items.flatMap((item) => item.tags).find(({ recommended }) => recommended);
  if (!found?.closed || !found.opened) return null;
  return (
    <Part title="Newer tag">
      <p>
        The tag{" "}
        <Link
          to={newerTagsPath(imageId, platform)}
          className="untrusted font-mono text-accent underline-offset-2 hover:underline"
        >
          {visible(found.tag)}
        </Link>{" "}
        of the same image is recommended:
      </p>
      <dl className="grid grid-cols-[auto_minmax(0,1fr)] items-center gap-x-4 gap-y-1.5">
        <FindingChange name="Closes" counts={found.closed} />
        <FindingChange name="Opens" counts={found.opened} findings={found.openedFindings} />
      </dl>
    </Part>
  );
}

/** What the newer tag of an action is, that of the image or of its base, and what it opens. */
export function NewerTagOfFix({ row, tag }: { row: FixItem; tag: FixItemTag }) {
  const { imageId, platform } = row.base ?? row;
  return (
    <Part title={row.base ? "Newer tag of the base image" : "Newer tag"}>
      <p className="untrusted font-mono text-xs leading-5 [overflow-wrap:anywhere]">
        {visible(tag.from)} → {visible(tag.to)}
      </p>
      {tag.digest && (
        <p className="untrusted truncate font-mono text-xs text-muted" title={visible(tag.digest)}>
          {visible(tag.digest)}
        </p>
      )}
      <dl className="grid grid-cols-[auto_minmax(0,1fr)] items-center gap-x-4 gap-y-1.5">
        <FindingChange name="Opens" counts={tag.opened} findings={tag.openedFindings} />
      </dl>
      <p className="pt-2">
        <Link
          to={newerTagsPath(imageId, platform)}
          className="text-accent underline-offset-2 hover:underline"
        >
          {row.base ? "All newer tags of the base image" : "All newer tags of the image"}
        </Link>
      </p>
    </Part>
  );
}
