import { Link } from "react-router";
import { ImageName } from "@/components/image-name";
import type { BaseImage } from "@/gen/model";
import { imagePath } from "@/lib/image-id";
import { visible } from "@/lib/text";

/** A base image: an image that the operator knows, or what images on it state. */
export function BaseName({
  base,
}: {
  base: Pick<BaseImage, "imageId" | "platform" | "statedName" | "statedDigest">;
}) {
  if (base.imageId)
    return (
      <Link
        to={imagePath(base.imageId, base.platform)}
        className="text-accent underline-offset-2 hover:underline"
      >
        <ImageName imageId={base.imageId} />
      </Link>
    );
  const stated = base.statedName ?? base.statedDigest;
  return stated ? (
    <span className="untrusted">{visible(stated)}</span>
  ) : (
    <span className="text-muted">Not known</span>
  );
}
