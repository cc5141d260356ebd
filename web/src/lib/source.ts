import type { ImageSource } from "@/gen/model";

const sources: Record<ImageSource, string> = {
  Registry: "its registry",
  ImageVolume: "the node (image volume)",
};

/** Where the image was read from for its SBOM. */
export const sourceName = (source?: ImageSource) => (source ? sources[source] : "unknown");
