import type { Session } from "@/gen/model";
import { getStartSignInUrl, useGetSession } from "@/gen/operator/operator";
import { below } from "@/lib/base-path";

/** The session of this browser; undefined until it is known. */
export const useSession = () => useGetSession({ query: { staleTime: 60_000 } }).data;

/** What is left of a session when its user is signed out: how to sign in again. */
export const signedOut = (session?: Session): Session => ({
  auth: "kubernetes",
  authenticated: false,
  canDelete: false,
  canUpdate: false,
  ...(session?.provider && { provider: session.provider }),
  ...(session?.anonymousRead && { anonymousRead: true }),
});

/** Who a session belongs to: "" for nobody. */
export const userOf = ({ authenticated, method, user }: Session) =>
  authenticated ? `${method ?? "none"} ${user ?? ""}` : "";

/** The page on which users sign in who can also read without. */
export const signInPage = "/sign-in";

const errorParameter = "signInError";

interface Address {
  pathname: string;
  search: string;
  hash: string;
}

/** Why signing in with the identity provider failed, as the operator says in the address. */
export const signInError = (search: string) => new URLSearchParams(search).get(errorParameter);

/** The address without the reason of a failure. */
export function withoutError({ pathname, search, hash }: Address): string {
  const parameters = new URLSearchParams(search);
  if (!parameters.has(errorParameter)) return pathname + search + hash;
  parameters.delete(errorParameter);
  const rest = parameters.toString();
  return pathname + (rest && `?${rest}`) + hash;
}

/** Where a user wanted to go who is on the sign-in page; only addresses of this operator. */
export function wanted(address: Address): string {
  if (address.pathname !== signInPage) return withoutError(address);
  const returnTo = new URLSearchParams(address.search).get("returnTo") ?? "/";
  try {
    const url = new URL(returnTo, window.location.origin);
    const inside =
      url.origin === window.location.origin && url.pathname !== signInPage && returnTo.startsWith("/");
    const address = withoutError(url);
    return inside && !address.startsWith("//") ? address : "/";
  } catch {
    return "/";
  }
}

/** The sign-in page that leads back to an address. */
export const signInFrom = (address: Address) => ({
  pathname: signInPage,
  search: `?${new URLSearchParams({ returnTo: withoutError(address) }).toString()}`,
});

/** Where signing in with the identity provider begins; returnTo is an address of the router. */
export const providerURL = (returnTo: string) => below(getStartSignInUrl({ returnTo }));
