import { useQueryClient } from "@tanstack/react-query";
import { CircleAlert, LogIn, TriangleAlert } from "lucide-react";
import { Button, buttonVariants } from "@/components/ui/button";
import { Callout } from "@/components/ui/callout";
import type { IdentityProvider } from "@/gen/model";
import { getGetSessionQueryKey } from "@/gen/operator/operator";
import { providerURL } from "./session";

interface Props {
  provider: IdentityProvider;
  /** Why the last sign-in failed, as in the address. */
  error: string | null;
  returnTo: string;
}

/** Why a sign-in failed, and what to do. */
const failures: Partial<Record<string, [title: string, detail: string]>> = {
  expired: ["The sign-in has expired", "It took too long, or was started in another browser. Sign in again."],
  denied: ["The provider did not sign you in", "Sign in again, or ask an administrator for access."],
  rejected: [
    "Your account was not accepted",
    "What the provider reports about it cannot be used here. The operator's log has the reason; ask an administrator.",
  ],
  unavailable: ["The provider cannot be used now", "Try again later, or sign in with a token."],
};

/** Signs in with the identity provider. The browser leaves the page and returns to the address that was wanted. */
export function ProviderSignIn({ provider, error, returnTo }: Props) {
  const client = useQueryClient();
  const [title, detail] = failures[error ?? ""] ?? ["Signing in failed", "Sign in again."];
  return (
    <section aria-label={provider.name} className="mt-5 border-b border-line pb-5">
      {error && (
        <Callout tone="danger" icon={CircleAlert} title={title} role="alert" className="mb-4">
          <p>{detail}</p>
        </Callout>
      )}
      {provider.available ? (
        <a
          href={providerURL(returnTo)}
          className={buttonVariants({ variant: "primary", className: "untrusted w-full" })}
        >
          <LogIn aria-hidden />
          Sign in with {provider.name}
        </a>
      ) : (
        <>
          <Callout tone="warn" icon={TriangleAlert} title={`${provider.name} cannot be reached`}>
            <p>Sign in with a token, or try again later.</p>
          </Callout>
          <Button
            className="mt-3 w-full"
            onClick={() => void client.invalidateQueries({ queryKey: getGetSessionQueryKey() })}
          >
            Try again
          </Button>
        </>
      )}
    </section>
  );
}
