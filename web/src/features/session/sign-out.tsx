import { useQueryClient } from "@tanstack/react-query";
import { CircleUserRound, LogOut } from "lucide-react";
import { Menu, MenuContent, MenuItem, MenuTrigger } from "@/components/ui/menu";
import { useNotify } from "@/components/ui/toast";
import type { Session } from "@/gen/model";
import { deleteSession, getGetSessionQueryKey, useGetSession } from "@/gen/operator/operator";

export function SignOut() {
  const client = useQueryClient();
  const notify = useNotify();
  const { data: session } = useGetSession({ query: { staleTime: 60_000 } });
  if (session?.auth !== "kubernetes") return null;

  const signOut = async () => {
    try {
      await deleteSession();
      client.setQueryData<Session>(getGetSessionQueryKey(), {
        auth: "kubernetes",
        authenticated: false,
        canDelete: false,
        canUpdate: false,
      });
    } catch (error) {
      notify.failed("Could not sign out", error);
    }
  };

  return (
    <Menu modal={false}>
      <MenuTrigger variant="ghost" size="icon" aria-label="Account" title={session.user ?? "Account"}>
        <CircleUserRound aria-hidden />
      </MenuTrigger>
      <MenuContent>
        {session.user && (
          <p className="untrusted max-w-72 border-b border-line px-2 pt-1 pb-2 text-[13px] text-muted">
            {session.user}
          </p>
        )}
        <MenuItem onClick={() => void signOut()} className="mt-1">
          <LogOut aria-hidden />
          Sign out
        </MenuItem>
      </MenuContent>
    </Menu>
  );
}
