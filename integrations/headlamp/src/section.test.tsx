import { render, screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test, vi } from "vitest";
import { Client, type Request } from "./client";
import { FindingsSection } from "./section";
import { defaults } from "./settings";
import { cluster, json, nothing, type Pages, pages, refused } from "./testing";
import { Page } from "./testing-page";

// The components of Headlamp that the section uses, without the rest of Headlamp, which takes long to load.
vi.mock("@kinvolk/headlamp-plugin/lib/CommonComponents", async () => ({
  SectionBox: (await import("@kinvolk/headlamp-plugin/lib/components/common/SectionBox")).SectionBox,
  SimpleTable: (await import("@kinvolk/headlamp-plugin/lib/components/common/SimpleTable")).default,
}));

const web = { namespace: "shop", kind: "Deployment", name: "web" };

const show = (request: Request, { settings = defaults, pod = false } = {}) =>
  render(
    <FindingsSection client={new Client(request, "main")} settings={settings} workload={web} pod={pod} />,
    { wrapper: Page },
  );

const showPages = (answers: Pages, options?: Parameters<typeof show>[1]) =>
  show(cluster(answers).request, options);

const part = (name: string) => within(screen.getByRole("region", { name }));

test("counts, actions, vulnerabilities and images of a workload", async () => {
  showPages(pages);
  expect(screen.getByRole("status").textContent).toContain("Reading findings");
  await screen.findByText("Critical 1");
  for (const chip of ["High 2", "Low 3", "Known exploited 1", "Overdue 2", "Fixable 4"])
    screen.getByText(chip);
  expect(screen.queryByText(/^Medium/)).toBeNull();
  screen.getByText("Suppressed findings do not count.");
  part("What to do first").getByText("Closes: 1 critical, 1 high");
  const vulnerabilities = part("Vulnerabilities with the highest risk");
  vulnerabilities.getByText("CVE-2021-44228");
  vulnerabilities.getByText("94.0%");
  vulnerabilities.getByText("(10 of 37)", { exact: false });
  part("Images").getByText("registry.example.com/shop/web");
  part("Images").getByText("1 critical, 2 high, 3 low");
  expect(screen.queryByRole("link")).toBeNull();
  expect(screen.queryByRole("alert")).toBeNull();
});

test("waiting for a fix is no action", async () => {
  const [update] = pages.fixes.items;
  const wait = { ...update!, action: "wait" as const, summary: "Wait: there is no fix yet for 2 packages" };
  const { unmount } = showPages({ ...pages, fixes: { items: [update!, wait], total: 2 } });
  await screen.findByText(update!.summary);
  expect(screen.queryByText(/^Wait/)).toBeNull();
  unmount();
  showPages({ ...pages, fixes: { items: [wait], total: 1 } });
  await screen.findByText("Nothing to do until there is a fix.");
  expect(screen.queryByText(/^Wait/)).toBeNull();
});

test("links to the UI if its address is known", async () => {
  showPages(pages, {
    settings: { ...defaults, address: "https://scanner.example.com/base/" },
  });
  const link = await screen.findByRole("link", { name: "CVE-2021-44228" });
  expect(link.getAttribute("href")).toBe("https://scanner.example.com/base/vulnerabilities/CVE-2021-44228");
  expect(link.getAttribute("rel")).toContain("noopener");
  const open = screen.getByRole("link", { name: "Open in the scanner" });
  expect(open.getAttribute("href")).toBe(
    "https://scanner.example.com/base/images?namespace=shop&kind=Deployment&workload=web",
  );
});

test("says on the page of a pod whose findings these are", async () => {
  showPages(pages, { pod: true });
  await screen.findByText(/findings of Deployment web, which this pod belongs to/);
});

test("no image is known", async () => {
  showPages(nothing);
  await screen.findByText("No image of Deployment web is known.");
});

const [workload] = pages.workloads.items;
const [image] = pages.images.items;
const none = {
  critical: 0,
  high: 0,
  medium: 0,
  low: 0,
  negligible: 0,
  unknown: 0,
  kev: 0,
  fixable: 0,
};

test("no findings", async () => {
  showPages({
    ...nothing,
    workloads: {
      items: [{ ...workload!, counts: none, overdue: undefined }],
      total: 1,
    },
    images: { items: [{ ...image!, counts: none }], total: 1 },
  });
  await screen.findByText("No findings.");
  part("Images").getByText("no findings");
  expect(screen.queryByText(/highest risk/)).toBeNull();
});

test("images without a result are no images without findings", async () => {
  showPages({
    ...nothing,
    workloads: {
      items: [{ ...workload!, counts: none, imageCount: 3, scanned: 1 }],
      total: 1,
    },
    images: {
      items: [
        {
          ...image!,
          state: "Failed",
          reason: "ImageNotFound",
          message: "manifest unknown",
          matchedAt: undefined,
          counts: none,
        },
      ],
      total: 30,
    },
  });
  await screen.findByText("2 of 3 images without a result: findings are missing.");
  expect(screen.queryByText("No findings.")).toBeNull();
  part("Images").getByText("Failed (ImageNotFound)");
  part("Images").getByText("manifest unknown");
  part("Images").getByText("No result yet");
  part("Images").getByText("(20 of 30)", { exact: false });
});

test("an error says what to do, and can be tried again", async () => {
  let request = refused(403, 'Forbidden - cannot get resource "services/proxy"');
  show((...call) => request(...call));
  const alert = await screen.findByRole("alert");
  expect(alert.textContent).toContain('You need the verb "get" on services/proxy');
  request = cluster(pages).request;
  await userEvent.click(screen.getByRole("button", { name: "Try again" }));
  await screen.findByText("Critical 1");
  expect(screen.queryByRole("alert")).toBeNull();
});

test("the last results stay while they are refreshed", async () => {
  let gate = Promise.resolve();
  let open = () => {};
  const { request } = cluster(pages);
  show((...call) => gate.then(() => request(...call)));
  await screen.findByText("Critical 1");
  gate = new Promise((resolve) => (open = resolve));
  const refresh = () => screen.getByRole("button", { name: "Refresh" });
  await userEvent.click(refresh());
  screen.getByText("Critical 1");
  expect(refresh()).toHaveProperty("disabled", true);
  open();
  await waitFor(() => expect(refresh()).toHaveProperty("disabled", false));
});

test("stops reading when the page is left", async () => {
  const signals: (AbortSignal | null | undefined)[] = [];
  const { unmount } = show((_, { signal }) => {
    signals.push(signal);
    return new Promise<Response>(() => {});
  });
  await waitFor(() => expect(signals).toHaveLength(4));
  unmount();
  expect(signals.every((signal) => signal?.aborted)).toBe(true);
});

test("texts of images are text", async () => {
  const hostile = `<img src=x onerror="window.hit=1">`;
  const { container } = showPages(
    {
      workloads: {
        items: [{ ...workload!, counts: { ...none, high: 1 } }],
        total: 1,
      },
      images: {
        items: [
          {
            ...image!,
            imageId: hostile,
            message: hostile,
            reason: "ImageNotFound",
          },
        ],
        total: 1,
      },
      vulnerabilities: {
        items: [{ ...pages.vulnerabilities.items[0]!, id: `../../${hostile}` }],
        total: 1,
      },
      fixes: {
        items: [
          {
            ...pages.fixes.items[0]!,
            summary: `Update ${hostile}`,
            imageId: "javascript:alert(1)",
          },
        ],
        total: 1,
      },
    },
    { settings: { ...defaults, address: "https://scanner.example.com" } },
  );
  await screen.findByText(`Update ${hostile}`);
  expect(container.querySelector("img, script")).toBeNull();
  for (const link of screen.getAllByRole("link")) {
    expect(new URL(link.getAttribute("href") ?? "").origin).toBe("https://scanner.example.com");
  }
});

test("a response of another program is an error", async () => {
  show(() => Promise.resolve(json({ kind: "PodList", items: [] })));
  expect((await screen.findByRole("alert")).textContent).toContain("not what this plugin expects");
});
