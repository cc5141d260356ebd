import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen } from "@testing-library/react";
import { describe, expect, it, vi } from "vitest";
import { ToastProvider } from "@/components/ui/toast";
import type { Session, SessionNamespaces } from "@/gen/model";
import { getGetSessionQueryKey } from "@/gen/operator/operator";
import { Empty } from "./empty";
import { mayRematch } from "./namespaces";

const some: SessionNamespaces = { all: false, visible: 2, names: ["shop", "web"], total: 40 };
const sessionOf = (namespaces: SessionNamespaces): Session => ({
  auth: "kubernetes",
  authenticated: true,
  user: "alice",
  canDelete: true,
  canUpdate: true,
  namespaces,
});

function show(namespaces: SessionNamespaces, filtered: boolean, namespace?: string) {
  const client = new QueryClient();
  client.setQueryData(getGetSessionQueryKey(), sessionOf(namespaces));
  vi.spyOn(globalThis, "fetch").mockRejectedValue(new Error("nothing is asked for"));
  render(
    <QueryClientProvider client={client}>
      <ToastProvider>
        <Empty
          filtered={filtered}
          namespace={namespace}
          noMatch="No image matches"
          nothing="No images in your namespaces"
          onClear={() => undefined}
        >
          <h2>No images yet</h2>
        </Empty>
      </ToastProvider>
    </QueryClientProvider>,
  );
  return screen.getByRole("heading").textContent;
}

const inOthers = () => screen.queryByText(/^You see /)?.textContent;

describe("an empty list", () => {
  it("is empty because of the filters", () => {
    expect(show({ ...some, all: true }, true)).toBe("No image matches");
    expect(inOthers()).toBeUndefined();
  });

  it("is empty because of the filters, in the namespaces that the user sees", () => {
    expect(show(some, true, "shop")).toBe("No image matches");
    expect(inOthers()).toContain("You see 2 of 40 namespaces: shop, web.");
  });

  it("is filtered by a namespace that the user does not see", () => {
    show(some, true, "bank");
    expect(screen.getByText("bank").closest("p")).toHaveTextContent(
      "The namespace bank is not one of those that you see.",
    );
    expect(inOthers()).toBeUndefined();
  });

  it("claims nothing of a namespace when not all that the user sees are named", () => {
    show({ ...some, visible: 3 }, true, "bank");
    expect(inOthers()).toBe("You see 3 of 40 namespaces.");
  });

  it("has nothing in the namespaces of the user", () => {
    expect(show(some, false)).toBe("No images in your namespaces");
    expect(inOthers()).toContain("scanresults.scanner.zoltankerezsi.xyz");
    expect(document.querySelector("details code")).toHaveTextContent(
      /^kubectl create rolebinding .* --user=alice$/,
    );
  });

  it.each<[string, SessionNamespaces]>([
    ["the whole cluster", { ...some, all: true }],
    ["every namespace", { ...some, total: 2 }],
  ])("has nothing anywhere, for a user who sees %s", (_, namespaces) => {
    expect(show(namespaces, false)).toBe("No images yet");
    expect(inOthers()).toBeUndefined();
  });
});

it("matching again needs the permission in the whole cluster", () => {
  expect(mayRematch(sessionOf(some))).toBe(false);
  expect(mayRematch(sessionOf({ ...some, all: true }))).toBe(true);
  expect(mayRematch(undefined)).toBe(false);
});
