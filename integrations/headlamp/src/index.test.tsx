import { fireEvent, render, screen, waitFor } from "@testing-library/react";
import { type ComponentType, createElement, useState } from "react";
import { expect, test, vi } from "vitest";
import { cluster, pages } from "./testing";
import { Page } from "./testing-page";

const registered = vi.hoisted(() => ({
  section: undefined as ComponentType<{ resource?: unknown }> | undefined,
  settings: [] as unknown[],
  stored: { address: "https://scanner.example.com" } as object | undefined,
  request: vi.fn(),
}));

vi.mock("@kinvolk/headlamp-plugin/lib", () => ({
  ApiProxy: { request: registered.request },
  ConfigStore: class {
    useConfig = () => () => registered.stored;
  },
  registerDetailsViewSection: (section: typeof registered.section) => (registered.section = section),
  registerPluginSettings: (...settings: unknown[]) => (registered.settings = settings),
}));
vi.mock("@kinvolk/headlamp-plugin/lib/CommonComponents", async () => ({
  SectionBox: (await import("@kinvolk/headlamp-plugin/lib/components/common/SectionBox")).SectionBox,
  SimpleTable: (await import("@kinvolk/headlamp-plugin/lib/components/common/SimpleTable")).default,
}));

test("a section on the pages of workloads, in the cluster of the page and with the stored settings", async () => {
  await import("./index");
  const { sent, request } = cluster(pages);
  registered.request.mockImplementation(request);
  const Section = registered.section!;
  const { container, rerender } = render(
    <Section
      resource={{
        kind: "ConfigMap",
        metadata: { namespace: "shop", name: "a" },
      }}
    />,
    { wrapper: Page },
  );
  expect(container.textContent).toBe("");
  rerender(<Section />);
  expect(container.textContent).toBe("");
  rerender(
    <Section
      resource={{
        kind: "Deployment",
        metadata: { namespace: "shop", name: "web" },
        cluster: "other",
      }}
    />,
  );
  await screen.findByRole("link", { name: "CVE-2021-44228" });
  expect(sent.map(({ params }) => params.cluster)).toEqual(["other", "other", "other", "other"]);
  // An object that changes, as those of a watch do, is not read about again.
  rerender(
    <Section
      resource={{
        kind: "Deployment",
        metadata: { namespace: "shop", name: "web" },
        cluster: "other",
      }}
    />,
  );
  rerender(
    <Section
      resource={{
        kind: "Deployment",
        metadata: { namespace: "shop", name: "api" },
        cluster: "other",
      }}
    />,
  );
  await waitFor(() => expect(sent).toHaveLength(8));
  expect(sent.slice(4).every(({ path }) => path.includes("workload=api"))).toBe(true);
});

test("settings are stored under the name of the package", async () => {
  await import("./index");
  const [name, Form, saves] = registered.settings as [
    string,
    ComponentType<Record<string, unknown>>,
    boolean,
  ];
  expect([name, saves]).toEqual([(await import("../package.json")).name, true]);
  const changes = vi.fn();
  function Page() {
    const [data, setData] = useState<object>();
    return createElement(Form, {
      data,
      onDataChange: (next: object) => {
        changes(next);
        setData(next);
      },
    });
  }
  render(<Page />);
  fireEvent.change(screen.getByLabelText("Address of the UI"), {
    target: { value: "javascript:alert(1)" },
  });
  screen.getByText(/Use an address that begins with https/);
  fireEvent.change(screen.getByLabelText("Address of the UI"), {
    target: { value: "https://scanner.example.com" },
  });
  fireEvent.change(screen.getByLabelText("ServiceAccount"), {
    target: { value: "viewer" },
  });
  expect(changes).toHaveBeenLastCalledWith({
    address: "https://scanner.example.com",
    serviceAccount: "viewer",
  });
  expect(screen.queryByText(/begins with https/)).toBeNull();
});
