import { useQuery } from "@tanstack/react-query";
import { useList } from "@/components/ui/use-list";
import { listFindings } from "@/gen/images/images";
import type {
  ImagePackage,
  ImagePackagePage,
  ListFindingsParams,
  ListImageLayersParams,
  ListImagePackagesParams,
} from "@/gen/model";
import { listImageLayers, listImagePackages } from "@/gen/packages/packages";
import { findingsKey } from "../../queries";
import { packageKey } from "../finding";

/** The layers of an image; those of the previous filters stay until there are others. */
export const useImageLayers = (imageId: string, params: ListImageLayersParams) =>
  useQuery({
    queryKey: [...findingsKey(imageId), "layers", params],
    queryFn: ({ signal }) => listImageLayers(imageId, params, { signal }),
    placeholderData: (previous, before) => (before?.queryKey[1] === imageId ? previous : undefined),
  });

/** The packages of one layer. */
export const useImagePackages = (imageId: string, layer: number, params: ListImagePackagesParams) =>
  useList<ImagePackage, ImagePackagePage>({
    queryKey: [...findingsKey(imageId), "packages", layer, params],
    load: (page, init) => listImagePackages(imageId, { ...params, layer, ...page }, init),
    rowKey: packageKey,
  });

/** The findings in packages of this name, as many as a detail shows. */
export const useFindingsOfPackage = (imageId: string, params: ListFindingsParams) =>
  useQuery({
    queryKey: [...findingsKey(imageId), "package", params],
    queryFn: ({ signal }) => listFindings(imageId, params, { signal }),
  });
