import { useSession } from "@/features/session/session";
import type { Image } from "@/gen/model";

/** Whether the user may remove scan results of some images. */
export function useCanRemove(): boolean {
  return useSession()?.canDelete ?? false;
}

/** Whether the user may have some images scanned again. */
export function useCanScan(): boolean {
  return useSession()?.canUpdate ?? false;
}

/** The action on an image that needs one of its permissions. */
export type PermittedAction = "remove" | "rescan";

/** Whether the operator would refuse an action on this image. If it does not say, the request tells. */
export const isDenied = (image: Image | undefined, action: PermittedAction) =>
  image?.permissions !== undefined && !image.permissions[action === "remove" ? "delete" : "update"];

/** Why an action is not possible on an image, for users who may do it with others. */
export const deniedReason: Record<PermittedAction, string> = {
  remove:
    "You may not remove this result: that requires permission in every namespace that runs the image or ran it, also in those that you do not see.",
  rescan:
    "You may not have this image scanned again: that requires permission in every namespace that runs it or ran it, also in those that you do not see.",
};
