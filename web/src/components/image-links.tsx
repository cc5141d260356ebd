import { Link } from "react-router";
import { ImageName } from "@/components/image-name";
import { formatNumber } from "@/lib/format";
import { imagePath, parseImageId } from "@/lib/image-id";
import { visible } from "@/lib/text";

interface Named {
  imageId: string;
  platform?: string;
}

/** The first of some images, and how many there are beside it. */
export function FirstImage({ images, count }: { images: Named[]; count: number }) {
  const [first] = images;
  if (!first) return <span className="text-muted">–</span>;
  return (
    <span className="flex items-center gap-1.5">
      <Link
        to={imagePath(first.imageId, first.platform)}
        title={visible(first.imageId)}
        className="untrusted relative min-w-0 truncate text-accent underline-offset-2 hover:underline"
      >
        {parseImageId(visible(first.imageId)).name}
      </Link>
      {count > 1 && <span className="tabular shrink-0 text-muted">+{formatNumber(count - 1)}</span>}
    </span>
  );
}

/** Some images as links, and how many there are beside them. */
export function ImageLinks({ images, count, none }: { images: Named[]; count: number; none: string }) {
  return (
    <ul className="text-[13px] leading-7">
      {images.map((image, index) => (
        <li key={index} className="truncate">
          <Link
            to={imagePath(image.imageId, image.platform)}
            className="text-accent underline-offset-2 hover:underline"
          >
            <ImageName imageId={image.imageId} />
          </Link>
          {image.platform && <span className="untrusted text-xs text-muted"> {visible(image.platform)}</span>}
        </li>
      ))}
      {images.length === 0 && <li className="text-muted">{none}</li>}
      {count > images.length && (
        <li className="text-muted">and {formatNumber(count - images.length)} more</li>
      )}
    </ul>
  );
}
