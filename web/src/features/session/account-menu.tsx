import { CircleUserRound, LogIn } from "lucide-react";
import { lazy } from "react";
import { Link, useLocation } from "react-router";
import { buttonVariants } from "@/components/ui/button";
import { OnDemand, type TriggerProps } from "@/components/ui/on-demand";
import { describeNamespaces, limitedTo } from "./namespaces";
import { signInFrom, useSession } from "./session";

const load = () => import("./account");
const Account = lazy(load);

/** Who is signed in and what they may do, and the way out; or the way in for those who read without signing in. */
export function AccountMenu() {
  const location = useLocation();
  const session = useSession();
  if (session?.auth !== "kubernetes") return null;
  if (!session.authenticated) {
    return (
      <Link to={signInFrom(location)} className={buttonVariants({ variant: "ghost" })}>
        <LogIn aria-hidden />
        Sign in
      </Link>
    );
  }
  const { user, displayName } = session;
  const limits = limitedTo(session);
  const name = displayName ?? user;
  const trigger: TriggerProps = {
    variant: "ghost",
    title: user,
    children: (
      <>
        <CircleUserRound aria-hidden />
        <span className="sr-only">Account{name && ": "}</span>
        <span className="untrusted max-w-40 text-left leading-4 max-lg:sr-only">
          <span className="block truncate">{name}</span>
          {limits && <span className="tabular block text-xs font-normal">{describeNamespaces(limits)}</span>}
        </span>
      </>
    ),
  };
  return (
    <OnDemand popup="dialog" load={load} trigger={trigger}>
      <Account session={session} trigger={trigger} />
    </OnDemand>
  );
}
