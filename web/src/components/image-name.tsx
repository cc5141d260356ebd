import { cn } from "@/lib/cn";
import { parseImageId } from "@/lib/image-id";
import { visible } from "@/lib/text";

/** The repository with the part that tells images apart in front of the eye; the full ID is the title. */
export function ImageName({ imageId, className }: { imageId: string; className?: string }) {
  const { prefix, name } = parseImageId(visible(imageId));
  return (
    <bdi title={visible(imageId)} className={cn("untrusted", className)}>
      {prefix && <span className="font-normal text-muted">{prefix}</span>}
      <span>{name}</span>
    </bdi>
  );
}
