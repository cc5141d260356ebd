export interface ImageName {
  /** Registry and path that may be shown muted; empty for well-known defaults. */
  prefix: string;
  /** The last segment of the repository, with a tag if there is one. */
  name: string;
  /** The whole repository, without what Docker Hub leaves out. */
  repository: string;
  /** Such as sha256:1e42bbe25081; empty when the ID holds no digest. */
  digest: string;
}

const digestPattern = /@?(sha\d{3}:[0-9a-f]{12})[0-9a-f]*$/i;

/** Shortens an image ID for display. Anything that is not understood stays as it is. */
export function parseImageId(imageId: string): ImageName {
  const match = digestPattern.exec(imageId);
  const digest = match?.[1] ?? "";
  const rest = match ? imageId.slice(0, match.index) : imageId;
  const repository = rest
    .replace(/^[a-z-]+:\/\//, "")
    .replace(/^(index\.)?docker\.io\//, "")
    .replace(/^library\//, "");
  if (repository === "") return { prefix: "", name: imageId, repository: imageId, digest: "" };
  const cut = repository.lastIndexOf("/") + 1;
  if (cut >= repository.length) return { prefix: "", name: repository, repository, digest };
  return { prefix: repository.slice(0, cut), name: repository.slice(cut), repository, digest };
}

/** A name for a downloaded file without its extension: letters, digits, dot, dash and underscore only. */
export function fileStem(imageId: string): string {
  const { repository, digest } = parseImageId(imageId);
  const stem = [repository, digest.replace(/^sha\d+:/, "")]
    .filter(Boolean)
    .join("-")
    .replace(/[^\w.-]+/g, "-")
    .replace(/^[.-]+|[.-]+$/g, "");
  return stem || "image";
}

export const fileName = (imageId: string, extension: string) => `${fileStem(imageId)}.${extension}`;

export function imagePath(imageId: string, platform?: string): string {
  const query = platform ? `?platform=${encodeURIComponent(platform)}` : "";
  return `/images/${encodeURIComponent(imageId)}${query}`;
}

/** Where the newer tags of an image are. */
export const newerTagsPath = (imageId: string, platform: string) =>
  `${imagePath(imageId)}?${new URLSearchParams({ tab: "newer-tags", ...(platform && { platform }) }).toString()}`;
