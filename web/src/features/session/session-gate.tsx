import { Fragment } from "react";
import { Navigate, Outlet, useLocation } from "react-router";
import { Logo } from "@/components/logo";
import { ErrorPanel } from "@/components/ui/state";
import type { Session } from "@/gen/model";
import { useGetSession } from "@/gen/operator/operator";
import { NoAccess } from "./no-access";
import { signInError, signInPage, userOf, wanted } from "./session";
import { SignIn } from "./sign-in";

/** How often, in milliseconds, a user who sees nothing asks again. */
const retryInterval = 15_000;

const seesNothing = (session: Session | undefined) =>
  session?.namespaces?.visible === 0 && !session.namespaces.all;

/**
 * Lets in who may come in. Everybody else sees, at the same address, the sign-in page, or which permission is missing.
 * What one user did with a page does not pass to another one.
 */
export function SessionGate() {
  const location = useLocation();
  const {
    data: session,
    error,
    refetch,
  } = useGetSession({
    query: {
      staleTime: 60_000,
      refetchInterval: ({ state }) => seesNothing(state.data) && retryInterval,
    },
  });

  if (session) {
    const signedOut = session.auth === "kubernetes" && !session.authenticated;
    const signsIn = location.pathname === signInPage || signInError(location.search) !== null;
    if (signedOut && (signsIn || !session.anonymousRead)) return <SignIn session={session} />;
    if (signsIn) return <Navigate to={wanted(location)} replace />;
    if (seesNothing(session)) return <NoAccess session={session} onRetry={() => void refetch()} />;
    return (
      <Fragment key={userOf(session)}>
        <Outlet />
      </Fragment>
    );
  }
  if (error) {
    return (
      <main className="mx-auto max-w-3xl">
        <ErrorPanel error={error} onRetry={() => void refetch()} />
      </main>
    );
  }
  return (
    <main role="status" className="flex min-h-dvh items-center justify-center">
      <Logo className="size-10 animate-pulse" />
      <span className="sr-only">Loading</span>
    </main>
  );
}
