import { render, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { describe, expect, it } from "vitest";
import { ToastProvider } from "@/components/ui/toast";
import type { Decision } from "@/gen/model";
import { hostileTexts } from "../../../mock/hostile";
import { Decisions, DecisionBadge, SuppressedMark } from "./decisions";
import { exceptionManifest } from "./manifest";
import { WriteException } from "./write-exception";

/** A popover opens when it has its place, which takes a busy machine some time. */
const patience = { timeout: 4000 };

const now = Date.parse("2026-11-23T09:00:00Z");

const decision: Decision = {
  status: "NotAffected",
  suppresses: true,
  justification: "vulnerable_code_not_in_execute_path",
  comment: "Nothing starts an SSH server.",
  since: "2026-11-01T00:00:00Z",
  expiresAt: "2030-01-01T00:00:00Z",
  object: { kind: "ClusterVulnerabilityException", name: "xz" },
};

describe("the manifest of an exception", () => {
  it("names the vulnerability and the package without qualifiers", () => {
    const pkg = {
      name: "xz-utils",
      version: "5.6",
      type: "deb",
      purl: "pkg:deb/debian/xz-utils@5.6?arch=amd64#a",
    };
    expect(exceptionManifest("CVE-2024-3094", pkg, now)).toBe(
      `apiVersion: scanner.zoltankerezsi.xyz/v1alpha1
kind: ClusterVulnerabilityException
metadata:
  name: cve-2024-3094-xz-utils-5-6
spec:
  match:
    vulnerabilities: ["CVE-2024-3094"]
    packages: ["pkg:deb/debian/xz-utils@5.6"]
  # NotAffected, FalsePositive, AcceptedRisk, Fixed or UnderInvestigation
  status: AcceptedRisk
  comment: "" # Required: the reason
  expiresAt: "2027-02-21T00:00:00Z"
`,
    );
  });

  it("has no package that an exception cannot name", () => {
    for (const purl of [
      undefined,
      "",
      "pkg:npm",
      "pkg:npm/a*",
      "pkg:npm/a b",
      `pkg:npm/${"a".repeat(600)}`,
    ]) {
      const manifest = exceptionManifest(
        "CVE-2024-3094",
        { name: "a", version: "1", type: "npm", purl },
        now,
      );
      expect(manifest, purl).toContain('vulnerabilities: ["CVE-2024-3094"]');
      expect(manifest, purl).not.toContain("packages:");
      expect(manifest, purl).toContain("# Without packages");
    }
  });

  it("has another name for another version, however long the name of the package is", () => {
    const name = (version: string) =>
      exceptionManifest("CVE-2024-3094", { name: "a".repeat(100), version, type: "npm" }, now)?.match(
        /name: .*/,
      )?.[0];
    expect(name("1.0")).not.toBe(name("1.1"));
  });

  it.each(hostileTexts)("stays one object with the text %s", (text) => {
    const pkg = { name: `${text}\n---\nkind: x`, version: text, type: text, purl: `pkg:npm/${text}` };
    expect(exceptionManifest(text, pkg, now) ?? "").not.toContain(text);
    const manifest = exceptionManifest("CVE-2024-3094", pkg, now) ?? "";
    expect(manifest.split("\n").length).toBeLessThanOrEqual(13);
    expect(manifest).toMatch(/^ {2}name: [a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/m);
  });

  it("can be copied", async () => {
    const user = userEvent.setup();
    render(
      <ToastProvider>
        <WriteException vulnerability="CVE-2024-3094" pkg={{ name: "xz", version: "1", type: "deb" }} />
      </ToastProvider>,
    );
    await user.click(screen.getByRole("button", { name: "Write an exception" }));
    await user.click(await screen.findByRole("button", { name: "Copy the manifest" }, patience));
    expect(await navigator.clipboard.readText()).toContain("kind: ClusterVulnerabilityException");
  });
});

describe("decisions", () => {
  it("say why, until when and who says so", () => {
    const { container } = render(<Decisions decisions={[decision]} />);
    expect(container).toHaveTextContent(
      /Not affected until .*Vulnerable code not in execute path.*Nothing starts an SSH server.*ClusterVulnerabilityException xz, since/,
    );
  });

  it("say that a dry run has no effect", () => {
    const { container } = render(
      <Decisions decisions={[{ ...decision, suppresses: false, expiresAt: undefined }]} />,
    );
    expect(container).toHaveTextContent("without an end · does not suppress the finding");
  });

  it("mark suppressed findings only", () => {
    const { container, rerender } = render(
      <SuppressedMark of={{ suppressed: true, decisions: [decision] }} />,
    );
    expect(container).toHaveTextContent("Suppressed: Not affected");
    rerender(<SuppressedMark of={{ decisions: [{ ...decision, suppresses: false }] }} />);
    expect(container).toBeEmptyDOMElement();
  });

  it("are behind the status", async () => {
    render(<DecisionBadge of={{ suppressed: true, decisions: [decision] }} />);
    await userEvent.click(screen.getByRole("button", { name: /^Suppressed: ?Not affected$/ }));
    await waitFor(() => expect(screen.getByText("Nothing starts an SSH server.")).toBeVisible(), patience);
  });

  it.each(hostileTexts)("show %s as text", (text) => {
    const hostile = {
      ...decision,
      comment: text,
      justification: text,
      object: { kind: text, namespace: text, name: text },
    };
    const { container } = render(<Decisions decisions={[hostile]} />);
    expect(container.querySelectorAll("script, img, svg, a")).toHaveLength(0);
  });
});
