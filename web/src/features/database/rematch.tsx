import { ChevronDown, RefreshCw } from "lucide-react";
import { useState } from "react";
import { Menu, MenuContent, MenuItem, MenuTrigger } from "@/components/ui/menu";
import { useNotify } from "@/components/ui/toast";
import { rematch } from "@/gen/databases/databases";
import { useGetSession } from "@/gen/operator/operator";

/** Lets who may do so have packages matched again. */
export function Rematch({ onRequested }: { onRequested: () => void }) {
  const { data: session } = useGetSession({ query: { staleTime: 60_000 } });
  const notify = useNotify();
  const [busy, setBusy] = useState(false);
  if (!session?.canUpdate) return null;

  const request = async (full: boolean) => {
    setBusy(true);
    try {
      await rematch({ full });
      notify.done("Matching again", "What you see stays as it is until the new answer is complete.");
      onRequested();
    } catch (error) {
      notify.failed("Could not have packages matched again", error);
    } finally {
      setBusy(false);
    }
  };

  return (
    <Menu modal={false}>
      <MenuTrigger disabled={busy}>
        <RefreshCw aria-hidden />
        Match again
        <ChevronDown aria-hidden />
      </MenuTrigger>
      <MenuContent>
        <MenuItem onClick={() => void request(false)}>
          <span>
            What may have changed{" "}
            <span className="block text-xs text-muted">Quick; also what failed before</span>
          </span>
        </MenuItem>
        <MenuItem onClick={() => void request(true)}>
          <span>
            Every package{" "}
            <span className="block text-xs text-muted">Gives the same result, and takes longer</span>
          </span>
        </MenuItem>
      </MenuContent>
    </Menu>
  );
}
