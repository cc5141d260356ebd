import { useSession } from "@/features/session/session";

/** Whether the user may remove scan results. */
export function useCanRemove(): boolean {
  return useSession()?.canDelete ?? false;
}

/** Whether the user may have images scanned again. */
export function useCanScan(): boolean {
  return useSession()?.canUpdate ?? false;
}
