import { ShieldX } from "lucide-react";
import { Link, useLocation } from "react-router";
import { Logo } from "@/components/logo";
import { ThemeSwitch } from "@/components/theme-switch";
import { Button, buttonVariants } from "@/components/ui/button";
import { StatePanel } from "@/components/ui/state";
import type { Session } from "@/gen/model";
import { usePageTitle } from "@/lib/use-page-title";
import { AccountMenu } from "./account-menu";
import { Command } from "./command";
import { checkCommand, grantCommand, resource } from "./kubectl";
import { signInFrom } from "./session";

interface Props {
  session: Session;
  /** Asks again what the user may see. */
  onRetry: () => void;
}

/** What a user sees who may see no namespace: which right is missing, and how to get it. */
export function NoAccess({ session, onRetry }: Props) {
  usePageTitle("No access");
  const location = useLocation();
  const right = <code className="font-mono text-[13px]">list {resource}</code>;
  return (
    <>
      <header className="border-b border-line bg-surface">
        <div className="mx-auto flex h-(--bar) max-w-[100rem] items-center gap-3 px-4 sm:px-6">
          <Logo className="size-7 shrink-0" />
          <span className="truncate font-semibold tracking-tight max-sm:sr-only">scanner-operator</span>
          <div className="ml-auto flex items-center gap-1.5">
            <ThemeSwitch />
            <AccountMenu />
          </div>
        </div>
      </header>
      <main className="mx-auto max-w-3xl">
        <h1 className="sr-only">No access</h1>
        <StatePanel
          role="alert"
          icon={ShieldX}
          title={
            session.authenticated ? "You have no access to results" : "There is no access without signing in"
          }
          action={
            <>
              {!session.authenticated && (
                <Link to={signInFrom(location)} className={buttonVariants({ variant: "primary" })}>
                  Sign in
                </Link>
              )}
              <Button variant={session.authenticated ? "primary" : undefined} onClick={onRetry}>
                Check again
              </Button>
            </>
          }
        >
          {session.authenticated ? (
            <>
              <p>
                The user <strong className="font-medium text-ink">{session.user}</strong> does not have the
                permission to {right} in any namespace that the operator has records of.
              </p>
              <p className="text-left font-medium text-ink">Check the permission in a namespace</p>
              <Command text={checkCommand(session)} label="Copy the command that checks the permission" />
              <p className="text-left font-medium text-ink">Grant it, as an administrator</p>
              <Command text={grantCommand(session)} label="Copy the command that grants the permission" />
              <p className="text-left">
                The name of the ClusterRole depends on that of the Helm release; here it is{" "}
                <code className="font-mono text-[13px]">scanner</code>. When the permission is granted, this
                page shows the results, usually within a minute.
              </p>
            </>
          ) : (
            <p>Users who are not signed in do not have the permission to {right}.</p>
          )}
        </StatePanel>
      </main>
    </>
  );
}
