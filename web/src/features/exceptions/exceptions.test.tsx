import { render, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { describe, expect, it } from "vitest";
import type { Decision, ExceptionSpec, LabelSelector } from "@/gen/model";
import { hostileTexts } from "../../../mock/hostile";
import { Decisions, DecisionBadge, SuppressedMark } from "./decisions";
import {
  draftFor,
  draftForImages,
  draftForWorkloads,
  draftOf,
  kindOf,
  manifestOf,
  missing,
  notNamed,
  specOf,
  withEntered,
  type Reach,
  type Subject,
} from "./draft";
import { describeSelector, parseSelector } from "./selector";

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

const xz = {
  type: "deb",
  name: "xz-utils",
  version: "5.6",
  purl: "pkg:deb/debian/xz-utils@5.6?arch=amd64#a",
};

const many = (count: number) => Array.from({ length: count }, (_, index) => `CVE-2-${index}`).join(" ");

const about = (...subjects: Subject[]) => {
  const draft = draftFor(subjects, now);
  if (!draft) throw new Error("there is no draft");
  return draft;
};

describe("the draft of an exception", () => {
  it("names the vulnerability and the package without qualifiers", () => {
    const draft = { ...about({ vulnerability: "CVE-2024-3094", pkg: xz }), comment: ' "why"\n' };
    expect(manifestOf(draft)).toBe(
      `apiVersion: scanner.zoltankerezsi.xyz/v1alpha1
kind: ClusterVulnerabilityException
metadata:
  name: "cve-2024-3094-xz-utils-5-6"
spec:
  match:
    vulnerabilities:
    - "CVE-2024-3094"
    packages:
    - "pkg:deb/debian/xz-utils@5.6"
  status: "AcceptedRisk"
  comment: "\\"why\\""
  expiresAt: "2027-02-21T00:00:00Z"
`,
    );
  });

  it("matches what its reach says", () => {
    const draft = about(
      { vulnerability: "CVE-1-1", pkg: xz },
      { vulnerability: "CVE-1-2", pkg: { type: "npm", name: "b", version: "1", purl: "pkg:npm/%40a/b@1" } },
    );
    const vulnerabilities = ["CVE-1-1", "CVE-1-2"];
    const match = (reach: Reach) => specOf({ ...draft, reach }).match;
    expect(match("versions")).toEqual({
      vulnerabilities,
      packages: ["pkg:deb/debian/xz-utils@5.6", "pkg:npm/%40a/b@1"],
    });
    expect(match("allVersions")).toEqual({
      vulnerabilities,
      packages: ["pkg:deb/debian/xz-utils", "pkg:npm/%40a/b"],
    });
    expect(match("allPackages")).toEqual({ vulnerabilities });
    expect(match("allVulnerabilities")).toEqual({
      packages: ["pkg:deb/debian/xz-utils@5.6", "pkg:npm/%40a/b@1"],
    });
  });

  it("names packages of Swift without a namespace", () => {
    const purl = "pkg:swift/github.com/apple/swift-nio@2.0.0";
    const pkg = { type: "swift", name: "swift-nio", version: "2.0.0", purl };
    const draft = about({ vulnerability: "CVE-1-1", pkg });
    expect(specOf({ ...draft, reach: "versions" }).match.packages).toEqual(["pkg:swift/swift-nio@2.0.0"]);
  });

  it("names what the operator names by name and version", () => {
    const vault = {
      type: "binary",
      name: "vault",
      version: "1.15.0+ent",
      purl: "pkg:golang/github.com/hashicorp/vault@1.15.0",
    };
    const draft = about({ vulnerability: "CVE-1-1", pkg: vault });
    expect(specOf({ ...draft, reach: "versions" }).match.packages).toEqual([
      "pkg:generic/vault@1.15.0%2Bent",
    ]);
    expect(specOf({ ...draft, reach: "allVersions" }).match.packages).toEqual(["pkg:generic/vault"]);
  });

  it("is about some images if somebody says so", () => {
    const imageId = `docker.io/library/nginx@sha256:${"a".repeat(64)}`;
    const draft = about({ vulnerability: "CVE-1-1", pkg: xz, imageId });
    expect(specOf(draft).match).not.toHaveProperty("images");
    expect(specOf({ ...draft, someImages: true }).match.images).toEqual([imageId]);
    expect(about({ vulnerability: "CVE-1-1", pkg: xz, imageId: "nginx:1" }).images).toEqual([]);
    const spec: ExceptionSpec = {
      match: { vulnerabilities: ["CVE-1-1"], images: ["docker.io/*"] },
      status: "Fixed",
    };
    expect(specOf(draftOf("", "a", spec))).toEqual(spec);
  });

  it("is about images whose vulnerabilities somebody enters", () => {
    const image = (digit: string) => `docker.io/library/nginx@sha256:${digit.repeat(64)}`;
    const { draft, named } = draftForImages([image("a"), "nginx:1", image("b"), image("a")], now);
    expect(named).toBe(2);
    expect(draft.name).toBe("2-images");
    expect(missing(draft)).toHaveProperty("vulnerabilities");
    const entered = { ...draft, ...withEntered(draft, " CVE-1-1,CVE-1-2\tCVE-1-1 "), comment: "why" };
    expect(missing(entered)).toEqual({});
    expect(entered.name).toBe("cve-1-1-1-more-in-2-images");
    expect(specOf(entered).match).toEqual({
      vulnerabilities: ["CVE-1-1", "CVE-1-2"],
      images: [image("a"), image("b")],
    });
    const renamed = { ...entered, name: "mine" };
    expect({ ...renamed, ...withEntered(renamed, "CVE-1-3") }.name).toBe("mine");
    for (const text of [...hostileTexts, "CVE-1-1 b!", "CVE-1-1 ".concat(many(101))])
      expect(missing({ ...draft, ...withEntered(draft, text) }), text).toHaveProperty("vulnerabilities");
  });

  it("is about the images of workloads, in their namespaces", () => {
    const image = (digit: string) => `docker.io/library/nginx@sha256:${digit.repeat(64)}`;
    const about = (namespaces: string[], seen?: string[]) =>
      draftForWorkloads(
        namespaces.map((namespace) => ({ namespace })),
        [image("a"), image("b")],
        now,
        seen,
      );
    expect(about(["shop", "shop"])).toMatchObject({
      where: "namespace",
      namespace: "shop",
      name: "2-images",
    });
    expect(about(["shop"], ["bank", "shop"])).toMatchObject({ where: "namespace", namespace: "shop" });
    const two = {
      ...about(["shop", "bank", "shop"]),
      ...withEntered(about(["shop"]), "CVE-1-1"),
      comment: "why",
    };
    expect(missing(two)).toEqual({});
    expect(specOf(two).match).toEqual({
      vulnerabilities: ["CVE-1-1"],
      images: [image("a"), image("b")],
      namespaceSelector: {
        matchExpressions: [{ key: "kubernetes.io/metadata.name", operator: "In", values: ["shop", "bank"] }],
      },
    });
    // A user of some namespaces cannot write an exception of the cluster.
    expect(about(["shop", "bank"], ["bank", "shop"])).toMatchObject({ where: "namespace", namespace: "" });
  });

  it("names all images or none", () => {
    const images = Array.from({ length: 51 }, (_, index) => `a/b@sha256:${String(index).padStart(64, "0")}`);
    expect(notNamed(images.slice(1), now)).toBeUndefined();
    expect(notNamed(images, now)).toContain("at most 50 images: these are 51");
    expect(notNamed(["a/b@sha256:".padEnd(75, "0"), "nginx:1"], now)).toContain("without a digest");
  });

  it("is an object in a namespace or of the cluster, where somebody says so", () => {
    const draft = { ...about({ vulnerability: "CVE-1-1", pkg: xz }), comment: "why" };
    expect(kindOf(draft)).toBe("ClusterVulnerabilityException");
    const inShop = { ...draft, where: "namespace" as const, namespace: "shop", workloadLabels: "app=web" };
    expect(missing(inShop)).toEqual({});
    expect(manifestOf(inShop)).toContain(
      `kind: VulnerabilityException
metadata:
  namespace: "shop"
  name: "cve-2024-3094-xz-utils-5-6"`.replace("cve-2024-3094", "cve-1-1"),
    );
    expect(manifestOf(inShop)).toContain('\n    workloadSelector: {"matchLabels":{"app":"web"}}\n');
    expect(missing({ ...inShop, namespace: "" })).toHaveProperty("namespace");
    expect(missing({ ...inShop, workloadLabels: "a b" })).toHaveProperty("workloadLabels");
    const team = {
      ...draft,
      where: "namespaces" as const,
      namespace: "ignored",
      namespaceLabels: "team in (a,b)",
    };
    expect(specOf(team).match.namespaceSelector).toEqual({
      matchExpressions: [{ key: "team", operator: "In", values: ["a", "b"] }],
    });
    expect(manifestOf(team)).not.toContain("namespace:");
    expect(specOf({ ...team, namespaceLabels: "" }).match.namespaceSelector).toEqual({});
    expect(specOf({ ...team, where: "cluster" }).match).not.toHaveProperty("namespaceSelector");
  });

  it("is one of a namespace for who sees some namespaces only", () => {
    const subjects = [{ vulnerability: "CVE-1-1" }];
    expect(draftFor(subjects, now, ["shop"])).toMatchObject({ where: "namespace", namespace: "shop" });
    expect(draftFor(subjects, now, ["bank", "shop"])).toMatchObject({ where: "namespace", namespace: "" });
  });

  it("keeps the selectors of an exception that exists", () => {
    const spec: ExceptionSpec = {
      match: {
        vulnerabilities: ["CVE-1-1"],
        namespaceSelector: { matchExpressions: [{ key: "team", operator: "In", values: ["a"] }] },
        workloadSelector: {},
      },
      status: "Fixed",
    };
    const draft = draftOf("", "a", spec);
    expect(draft.where).toBe("namespaces");
    expect(specOf(draft)).toEqual(spec);
    expect(specOf({ ...draft, workloadLabels: "app=web" }).match.workloadSelector).toEqual({
      matchLabels: { app: "web" },
    });
    const inShop: ExceptionSpec = { match: { vulnerabilities: ["CVE-1-1"] }, status: "Fixed" };
    expect(draftOf("shop", "a", inShop)).toMatchObject({ where: "namespace", namespace: "shop" });
  });

  it("keeps the scope in the name of a package apart from a version", () => {
    const draft = about({
      vulnerability: "CVE-1-1",
      pkg: { type: "npm", name: "@a/b", version: "", purl: "pkg:npm/@a/b" },
    });
    expect(specOf({ ...draft, reach: "allVersions" }).match.packages).toEqual(["pkg:npm/@a/b"]);
  });

  it("has no packages if an exception cannot name one of them", () => {
    for (const purl of [
      undefined,
      "",
      "pkg:npm",
      "pkg:npm/a*",
      "pkg:npm/a b",
      `pkg:npm/${"a".repeat(600)}`,
    ]) {
      const draft = about(
        { vulnerability: "CVE-1-1", pkg: xz },
        { vulnerability: "CVE-1-2", pkg: { type: "npm", name: "a", version: "1", purl } },
      );
      expect(draft.reach, purl).toBe("allPackages");
      expect(specOf(draft).match, purl).toEqual({ vulnerabilities: ["CVE-1-1", "CVE-1-2"] });
    }
  });

  it("has another name for another version, however long the name of the package is", () => {
    const name = (version: string) =>
      about({ vulnerability: "CVE-2024-3094", pkg: { type: "npm", name: "a".repeat(100), version } }).name;
    expect(name("1.0")).not.toBe(name("1.1"));
  });

  it.each(hostileTexts)("stays one object with the text %s", (text) => {
    const pkg = { type: "npm", name: `${text}\n---\nkind: x`, version: text, purl: `pkg:npm/${text}` };
    expect(draftFor([{ vulnerability: text, pkg }], now)).toBeUndefined();
    const draft = { ...about({ vulnerability: "CVE-2024-3094", pkg }), comment: `${text}\n---\nkind: x` };
    const manifest = manifestOf(draft);
    expect(manifest.split("\n").length).toBeLessThanOrEqual(15);
    expect(manifest.match(/^kind: /gm)).toHaveLength(1);
    expect(draft.name).toMatch(/^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/);
  });

  it("says what is missing, as the API server does", () => {
    const draft = about({ vulnerability: "CVE-1-1" });
    expect(missing(draft)).toEqual({ comment: "State why the risk is accepted." });
    expect(missing({ ...draft, status: "FalsePositive" })).toEqual({});
    expect(missing({ ...draft, status: "NotAffected" })).toHaveProperty("comment");
    expect(missing({ ...draft, status: "NotAffected", justification: "component_not_present" })).toEqual({});
    expect(missing({ ...draft, status: "Fixed", name: "A b" })).toHaveProperty("name");
    // A justification belongs to one status only.
    expect(specOf({ ...draft, justification: "component_not_present" })).not.toHaveProperty("justification");
  });

  it("is that of an exception that exists", () => {
    const spec: ExceptionSpec = {
      match: { vulnerabilities: ["CVE-1-1"], packages: ["pkg:deb/*"] },
      status: "NotAffected",
      justification: "component_not_present",
      comment: "why",
      expiresAt: "2030-01-01T12:34:56Z",
      expireWhenFixed: true,
      mode: "DryRun",
    };
    const draft = draftOf("", "a", spec);
    expect(specOf(draft)).toEqual(spec);
    expect(specOf({ ...draft, end: "2030-01-02" }).expiresAt).toBe("2030-01-02T00:00:00Z");
    const packages: ExceptionSpec = { match: { packages: ["pkg:deb/*"] }, status: "Fixed" };
    expect(specOf(draftOf("", "a", packages))).toEqual(packages);
  });
});

describe("a label selector", () => {
  it.each<[string, LabelSelector]>([
    ["", {}],
    ["app=web", { matchLabels: { app: "web" } }],
    ["app==web, tier=a", { matchLabels: { app: "web", tier: "a" } }],
    ["app=", { matchLabels: { app: "" } }],
    [
      "example.com/app in (a, b),tier notin (c),debug,!old",
      {
        matchExpressions: [
          { key: "example.com/app", operator: "In", values: ["a", "b"] },
          { key: "tier", operator: "NotIn", values: ["c"] },
          { key: "debug", operator: "Exists" },
          { key: "old", operator: "DoesNotExist" },
        ],
      },
    ],
    ["app!=web", { matchExpressions: [{ key: "app", operator: "NotIn", values: ["web"] }] }],
    // Both have to hold.
    [
      "app=a,app=b",
      { matchLabels: { app: "a" }, matchExpressions: [{ key: "app", operator: "In", values: ["b"] }] },
    ],
  ])("reads %s, and writes it the same", (text, selector) => {
    expect(parseSelector(text)).toEqual({ selector });
    expect(parseSelector(describeSelector(selector))).toEqual({ selector });
  });

  it.each([
    "a b",
    "=",
    "a=b=c",
    "a in ()b",
    "a in (b",
    ",",
    "a=b,",
    "-a",
    `a=${"x".repeat(64)}`,
    "a in (b,b)",
  ])("refuses %s", (text) => expect(parseSelector(text)).toHaveProperty("error"));

  it.each(hostileTexts)("refuses the text %s, or keeps it a label", (text) => {
    const parsed = parseSelector(text);
    if ("selector" in parsed) expect(JSON.stringify(parsed.selector)).not.toMatch(/[<>\n]/);
  });

  it("has bounds", () => {
    const labels = (count: number) => Array.from({ length: count }, (_, index) => `l${index}=a`).join(",");
    expect(parseSelector(labels(20))).toHaveProperty("selector");
    expect(parseSelector(labels(21))).toHaveProperty("error");
    const values = (count: number) =>
      `a in (${Array.from({ length: count }, (_, index) => `v${index}`).join(",")})`;
    expect(parseSelector(values(50))).toHaveProperty("selector");
    expect(parseSelector(values(51))).toHaveProperty("error");
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
