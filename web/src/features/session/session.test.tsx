import { QueryClient, QueryClientProvider, useQuery } from "@tanstack/react-query";
import { render, screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { createMemoryRouter, RouterProvider } from "react-router";
import { afterEach, describe, expect, it, vi } from "vitest";
import { ToastProvider } from "@/components/ui/toast";
import type { Session } from "@/gen/model";
import { getGetSessionQueryKey } from "@/gen/operator/operator";
import { request } from "@/lib/request";
import { AccountMenu } from "./account-menu";
import { followUser } from "./follow-user";
import { wanted, withoutError } from "./session";
import { SessionGate } from "./session-gate";

const provider = { name: "Example ID", available: true };
const nobody: Session = { auth: "kubernetes", authenticated: false, canDelete: false, canUpdate: false };
const alice: Session = {
  ...nobody,
  authenticated: true,
  user: "https://id.example#123",
  displayName: "Alice",
  method: "provider",
  provider,
};

/** The tabs of a browser, which a test listens to. */
const otherTab = new BroadcastChannel("scanner-operator-session");
afterEach(() => {
  otherTab.onmessage = null;
});

/** A page with what it loaded. */
function Page() {
  const { data } = useQuery({ queryKey: ["list"], queryFn: () => request<{ row: string }>("/list") });
  return (
    <>
      <AccountMenu />
      <p>{data?.row}</p>
    </>
  );
}

const json = (body: object) =>
  new Response(JSON.stringify(body), { headers: { "Content-Type": "application/json" } });

/** Answers with this session, which can change, and to signing out with that address. */
function open(session: Session, path = "/images/x?q=a", endSessionUrl?: string) {
  const deleted: string[] = [];
  const answers = { session, row: Promise.resolve("a row") };
  vi.spyOn(globalThis, "fetch").mockImplementation(async (input, init) => {
    if (init?.method === "DELETE") {
      deleted.push(input as string);
      return endSessionUrl ? json({ endSessionUrl }) : new Response(null, { status: 204 });
    }
    return json(input === "/list" ? { row: await answers.row } : answers.session);
  });
  const router = createMemoryRouter(
    [{ element: <SessionGate />, children: [{ path: "*", element: <Page /> }] }],
    { initialEntries: [path] },
  );
  const client = new QueryClient();
  followUser(client);
  render(
    <QueryClientProvider client={client}>
      <ToastProvider>
        <RouterProvider router={router} />
      </ToastProvider>
    </QueryClientProvider>,
  );
  return { deleted, router, client, answers };
}

const link = () => screen.findByRole("link", { name: "Sign in with Example ID" });

describe("signing in with the provider", () => {
  it("returns to the page that was wanted", async () => {
    open({ ...nobody, provider }, "/images/x?q=a#b");
    expect(await link()).toHaveAttribute(
      "href",
      "/api/v1/session/sign-in?returnTo=%2Fimages%2Fx%3Fq%3Da%23b",
    );
    expect(screen.getByLabelText("Token")).toBeInTheDocument();
  });

  it("says why it failed, and forgets it at the next try", async () => {
    open({ ...nobody, provider }, "/images/x?q=a&signInError=rejected");
    expect(await screen.findByRole("alert")).toHaveTextContent("Your account was not accepted");
    expect(await link()).toHaveAttribute("href", "/api/v1/session/sign-in?returnTo=%2Fimages%2Fx%3Fq%3Da");
  });

  it("leaves the token when the provider cannot be reached", async () => {
    open({ ...nobody, provider: { ...provider, available: false } });
    expect(await screen.findByText("Example ID cannot be reached")).toBeInTheDocument();
    expect(screen.queryByRole("link", { name: /Example ID/ })).toBeNull();
    expect(screen.getByRole("button", { name: "Sign in with a token" })).toBeEnabled();
  });
});

describe("reading without signing in", () => {
  it("offers to sign in and leads back", async () => {
    const { router } = open({ ...nobody, anonymousRead: true, provider });
    await userEvent.click(await screen.findByRole("link", { name: "Sign in" }));
    expect(router.state.location.pathname).toBe("/sign-in");
    expect(await link()).toHaveAttribute("href", "/api/v1/session/sign-in?returnTo=%2Fimages%2Fx%3Fq%3Da");
    await userEvent.click(screen.getByRole("link", { name: "Continue without signing in" }));
    expect(router.state.location.pathname + router.state.location.search).toBe("/images/x?q=a");
  });
});

describe("the account", () => {
  it("is named in the header, and signs out everywhere and at the provider", async () => {
    const assign = vi.fn();
    vi.stubGlobal("location", { origin: window.location.origin, assign });
    const { deleted } = open(alice, "/", "https://id.example/logout?x=1");
    await userEvent.click(await screen.findByRole("button", { name: /^Account: ?Alice/ }));
    expect(await screen.findByText("https://id.example#123")).toBeInTheDocument();
    await userEvent.click(screen.getByRole("button", { name: "Sign out everywhere" }));
    await waitFor(() => expect(assign).toHaveBeenCalledWith("https://id.example/logout?x=1"));
    expect(deleted).toEqual(["/api/v1/session?everywhere=true"]);
    expect(await link()).toBeInTheDocument();
    vi.unstubAllGlobals();
  });

  it("with a token has no other sessions", async () => {
    open({ ...alice, method: "token", displayName: undefined });
    await userEvent.click(await screen.findByRole("button", { name: /^Account: ?https:\/\/id.example#123/ }));
    expect(await screen.findByRole("button", { name: "Sign out" })).toBeInTheDocument();
    expect(screen.queryByRole("button", { name: "Sign out everywhere" })).toBeNull();
  });

  it("of a front proxy signs out there", async () => {
    const { deleted } = open({ ...alice, method: "frontProxy", displayName: undefined, provider: undefined });
    await userEvent.click(await screen.findByRole("button", { name: /^Account: ?https:\/\/id.example#123/ }));
    const account = within(await screen.findByRole("dialog"));
    expect(account.getByText("the proxy in front of the operator")).toBeInTheDocument();
    expect(account.getByText(/^The proxy signed you in\. Sign out there/)).toBeInTheDocument();
    expect(account.queryByRole("button", { name: /Sign out/ })).toBeNull();
    expect(deleted).toEqual([]);
  });

  it("says what it may see and do", async () => {
    const groups = ["a", "b", "c", "d", "e", "f", "g", "h"];
    const namespaces = { all: false, visible: 2, names: ["shop", "web"], total: 40 };
    open({ ...alice, groups, namespaces, canDelete: true, canUpdate: true });
    const button = await screen.findByRole("button", { name: /^Account: ?Alice/ });
    expect(button).toHaveTextContent("2 of 40 namespaces");
    await userEvent.click(button);
    const account = within(await screen.findByRole("dialog", { name: "Alice" }));
    expect(account.getByText("Example ID")).toBeInTheDocument();
    expect(account.getByText("You see 2 of 40 namespaces.")).toBeInTheDocument();
    expect(account.getByText("shop, web")).toBeInTheDocument();
    expect(account.getByText("2 more groups")).toBeInTheDocument();
    // Matching again concerns the whole cluster.
    expect(account.getByText("Read results, remove results")).toBeInTheDocument();
  });

  it("leaves the sign-in page when there is nothing to sign in for", async () => {
    const { router } = open(alice, "/sign-in?returnTo=%2Fcoverage%3Fq%3D1");
    await screen.findByRole("button", { name: /^Account: ?Alice/ });
    expect(router.state.location.pathname + router.state.location.search).toBe("/coverage?q=1");
  });
});

describe("the tabs of a browser", () => {
  it("follow when nobody is signed in any more, and forget what was loaded", async () => {
    const { client, answers } = open({ ...alice });
    expect(await screen.findByText("a row")).toBeInTheDocument();
    answers.session = { ...nobody, provider };
    otherTab.postMessage("");
    expect(await link()).toBeInTheDocument();
    expect(
      client
        .getQueryCache()
        .getAll()
        .map(({ queryKey }) => queryKey),
    ).toEqual([getGetSessionQueryKey()]);
  });

  it("show nothing of the previous user to the next one", async () => {
    const { answers } = open({ ...alice });
    expect(await screen.findByText("a row")).toBeInTheDocument();
    answers.session = { ...alice, user: "bob", displayName: "Bob" };
    let resolve: (row: string) => void = () => undefined;
    answers.row = new Promise((done) => (resolve = done));
    otherTab.postMessage("provider bob");
    expect(await screen.findByRole("button", { name: /^Account: ?Bob/ })).toBeInTheDocument();
    expect(screen.queryByText("a row")).toBeNull();
    resolve("another row");
    expect(await screen.findByText("another row")).toBeInTheDocument();
  });

  it("are told who is signed in", async () => {
    const told = new Promise((resolve) => {
      otherTab.onmessage = ({ data }: MessageEvent<unknown>) => resolve(data);
    });
    open({ ...alice });
    expect(await told).toBe("provider https://id.example#123");
  });
});

const commands = () =>
  [...document.querySelectorAll("code")]
    .map(({ textContent }) => textContent)
    .filter((text) => text.startsWith("kubectl"));

describe("a user without any namespace", () => {
  const nothing = { all: false, visible: 0, names: [] };

  it("is told which permission is missing, and comes in when it is there", async () => {
    const { answers } = open({ ...alice, groups: ["oidc:a b"], namespaces: nothing });
    expect(await screen.findByRole("alert")).toHaveTextContent("list scanresults.scanner.zoltankerezsi.xyz");
    expect(commands()[0]).toBe(
      "kubectl auth can-i list scanresults.scanner.zoltankerezsi.xyz --namespace=NAMESPACE --as='https://id.example#123' --as-group='oidc:a b'",
    );
    answers.session = { ...alice, namespaces: { all: false, visible: 1, names: ["shop"], total: 3 } };
    await userEvent.click(screen.getByRole("button", { name: "Check again" }));
    expect(await screen.findByText("a row")).toBeInTheDocument();
  });

  it("can sign in when reading needs no account", async () => {
    const { router } = open({ ...nobody, anonymousRead: true, namespaces: nothing }, "/coverage?q=1");
    const [, signIn] = await screen.findAllByRole("link", { name: "Sign in" });
    if (signIn) await userEvent.click(signIn);
    expect(router.state.location.search).toBe("?returnTo=%2Fcoverage%3Fq%3D1");
  });

  it("is let in with the permission for a cluster that has no records yet", async () => {
    open({ ...alice, namespaces: { all: true, visible: 0, names: [] } });
    expect(await screen.findByText("a row")).toBeInTheDocument();
  });
});

describe("addresses to return to", () => {
  it.each([
    ["/coverage?q=1&signInError=denied#b", "/coverage?q=1#b"],
    ["//evil.example", "/"],
    ["/.//evil.example", "/"],
    ["/\\evil.example", "/"],
    ["https://evil.example/", "/"],
    ["javascript:alert(1)", "/"],
    ["/sign-in?returnTo=/", "/"],
    ["", "/"],
  ])("%s leads to %s", (returnTo, want) => {
    const search = `?${new URLSearchParams({ returnTo }).toString()}`;
    expect(wanted({ pathname: "/sign-in", search, hash: "" })).toBe(want);
  });

  it("keep their other parameters", () => {
    const address = { pathname: "/a", hash: "#e" };
    expect(withoutError({ ...address, search: "?b=c%20d" })).toBe("/a?b=c%20d#e");
    expect(withoutError({ ...address, search: "?signInError=expired" })).toBe("/a#e");
  });
});
