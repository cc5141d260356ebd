import { useQueryClient } from "@tanstack/react-query";
import { CircleAlert, KeyRound } from "lucide-react";
import { useRef, useState, type SubmitEvent } from "react";
import { Link, useLocation, useNavigate } from "react-router";
import { Logo } from "@/components/logo";
import { ThemeSwitch } from "@/components/theme-switch";
import { Button } from "@/components/ui/button";
import { Callout } from "@/components/ui/callout";
import { CopyButton } from "@/components/ui/copy-button";
import type { Session } from "@/gen/model";
import { createSession, getGetSessionQueryKey } from "@/gen/operator/operator";
import { describe } from "@/lib/problem";
import { ProviderSignIn } from "./provider-sign-in";
import { signInError, wanted } from "./session";

const command = "kubectl create token NAME --audience scanner-operator";

export function SignIn({ session: { provider, anonymousRead } }: { session: Session }) {
  const client = useQueryClient();
  const navigate = useNavigate();
  const location = useLocation();
  const { pathname, search, hash } = location;
  const returnTo = wanted(location);
  const input = useRef<HTMLInputElement>(null);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();

  const submit = async (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const token = input.current?.value.trim() ?? "";
    if (token === "") return;
    setBusy(true);
    setError(undefined);
    try {
      const session = await createSession({ token });
      if (input.current) input.current.value = "";
      client.setQueryData(getGetSessionQueryKey(), session);
      if (!session.authenticated) setError(new Error("The token was not accepted."));
      else if (returnTo !== pathname + search + hash) await navigate(returnTo, { replace: true });
    } catch (failure) {
      setError(failure);
      input.current?.select();
    } finally {
      setBusy(false);
    }
  };

  const problem = error === undefined ? undefined : describe(error);
  return (
    <main className="flex min-h-dvh flex-col items-center justify-center px-4 py-10">
      <div className="absolute top-3 right-4">
        <ThemeSwitch />
      </div>
      <div className="w-full max-w-md">
        <div className="mb-6 flex items-center justify-center gap-3">
          <Logo className="size-9" />
          <span className="text-lg font-semibold tracking-tight">scanner-operator</span>
        </div>
        <form
          onSubmit={(event) => void submit(event)}
          className="rounded-xl border border-line bg-surface p-6 shadow-card"
        >
          <h1 className="text-base font-semibold">Sign in</h1>
          {provider && <ProviderSignIn provider={provider} error={signInError(search)} returnTo={returnTo} />}
          <p className={provider ? "mt-5 text-sm text-muted" : "mt-1 text-sm text-muted"}>
            {provider ? "Or use a Kubernetes" : "Use a Kubernetes"} token with the right to read{" "}
            <code className="font-mono text-[13px]">scanresults</code>.
          </p>
          <label htmlFor="token" className="mt-5 block text-sm font-medium">
            Token
          </label>
          <input
            ref={input}
            id="token"
            name="token"
            type="password"
            required
            maxLength={16_384}
            autoComplete="off"
            autoFocus={!provider}
            spellCheck={false}
            aria-describedby="token-hint"
            className="mt-1.5 h-10 w-full rounded-md border border-line-strong bg-surface px-3 font-mono text-sm"
          />
          {problem && (
            <Callout tone="danger" icon={CircleAlert} title={problem.title} role="alert" className="mt-3">
              {problem.detail && <p className="untrusted">{problem.detail}</p>}
            </Callout>
          )}
          <Button
            type="submit"
            variant={provider ? undefined : "primary"}
            disabled={busy}
            className="mt-4 w-full"
          >
            <KeyRound aria-hidden />
            {busy ? "Signing in…" : provider ? "Sign in with a token" : "Sign in"}
          </Button>
          <div id="token-hint" className="mt-5 border-t border-line pt-4 text-sm text-muted">
            <p>Create one for a service account, valid for scanner-operator only:</p>
            <div className="mt-2 flex items-start gap-1 rounded-md bg-subtle py-1.5 pr-1.5 pl-3">
              <code className="min-w-0 flex-1 py-0.5 font-mono text-[13px] break-words text-ink">
                {command}
              </code>
              <CopyButton text={command} label="Copy the command" />
            </div>
            <p className="mt-2">
              A token without <code className="font-mono text-[13px]">--audience</code> also works, but anyone
              who obtains it can use it with the Kubernetes API. The token is stored in a cookie that scripts
              cannot read, until you sign out or the token expires.
            </p>
          </div>
        </form>
        {anonymousRead && (
          <p className="mt-4 text-center text-sm">
            <Link to={returnTo}>Continue without signing in</Link>
          </p>
        )}
      </div>
    </main>
  );
}
