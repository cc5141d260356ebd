import { ChevronDown, RefreshCw } from "lucide-react";
import { useState } from "react";
import { Menu, MenuContent, MenuItem, MenuTrigger } from "@/components/ui/menu";
import { useNotify } from "@/components/ui/toast";
import { rematch } from "@/gen/databases/databases";
import { mayRematch } from "@/features/session/namespaces";
import { useSession } from "@/features/session/session";

/** Lets who may do so have packages matched again. */
export function Rematch({ onRequested }: { onRequested: () => void }) {
  const session = useSession();
  const notify = useNotify();
  const [busy, setBusy] = useState(false);
  if (!mayRematch(session)) return null;

  const request = async (full: boolean) => {
    setBusy(true);
    try {
      await rematch({ full });
      notify.done("Matching again", "The results shown do not change until matching is complete.");
      onRequested();
    } catch (error) {
      notify.failed("Could not start matching", error);
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
            Packages that may have changed{" "}
            <span className="block text-xs text-muted">Faster; also retries failed packages</span>
          </span>
        </MenuItem>
        <MenuItem onClick={() => void request(true)}>
          <span>
            All packages <span className="block text-xs text-muted">Same result, takes longer</span>
          </span>
        </MenuItem>
      </MenuContent>
    </Menu>
  );
}
