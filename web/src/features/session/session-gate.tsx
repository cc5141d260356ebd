import { useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { Outlet } from "react-router";
import { Logo } from "@/components/logo";
import { ErrorPanel } from "@/components/ui/state";
import { getGetSessionQueryKey, useGetSession } from "@/gen/operator/operator";
import { SignIn } from "./sign-in";

/** Lets in who may come in; everybody else sees the sign-in page, at the same address. */
export function SessionGate() {
  const client = useQueryClient();
  const { data: session, error, refetch } = useGetSession({ query: { staleTime: 60_000 } });
  const signedOut = session?.auth === "kubernetes" && !session.authenticated;

  useEffect(() => {
    if (!signedOut) return;
    const [sessionKey] = getGetSessionQueryKey();
    client.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== sessionKey });
  }, [signedOut, client]);

  if (session) return signedOut ? <SignIn /> : <Outlet />;
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
