import { describe, expect, it } from "vitest";
import { formatBytes, formatCompact, formatPercent, formatRelative, plural } from "./format";
import { fileName, imagePath, parseImageId } from "./image-id";
import { safeURL } from "./safe-url";
import { parseUntrusted, visible } from "./text";

const digest = "1e42bbe2508154c9126d48c2b8a75420c3544343bf86fd041fb7527e017a4b4a";

describe("parseImageId", () => {
  it.each([
    [`docker.io/library/alpine@sha256:${digest}`, "", "alpine", "sha256:1e42bbe25081"],
    [`docker.io/grafana/grafana@sha256:${digest}`, "grafana/", "grafana", "sha256:1e42bbe25081"],
    [`docker-pullable://docker.io/library/nginx@sha256:${digest}`, "", "nginx", "sha256:1e42bbe25081"],
    ["registry.example.com:5000/a/b/c:v1", "registry.example.com:5000/a/b/", "c:v1", ""],
    [`sha256:${digest}`, "", `sha256:${digest}`, ""],
    ["", "", "", ""],
    ["odd/", "", "odd/", ""],
  ])("%s", (imageId, prefix, name, short) => {
    expect(parseImageId(imageId)).toMatchObject({ prefix, name, digest: short });
  });

  it("makes paths and file names without separators of the ID", () => {
    expect(imagePath("a/b@sha256:1", "linux/arm64")).toBe(
      "/images/a%2Fb%40sha256%3A1?platform=linux%2Farm64",
    );
    expect(fileName(`ghcr.io/x/y@sha256:${digest}`, "cdx.json")).toBe("ghcr.io-x-y-1e42bbe25081.cdx.json");
    expect(fileName("../../etc", "json")).toBe("etc.json");
    expect(fileName("///", "json")).toBe("image.json");
  });
});

describe("safeURL", () => {
  it.each(["https://nvd.nist.gov/vuln/detail/CVE-1", "http://example.org/"])("keeps %s", (url) =>
    expect(safeURL(url)).toBe(url),
  );
  it.each([
    undefined,
    "",
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    "java\nscript:alert(1)",
    " javascript:alert(1)",
    "data:text/html,x",
    "vbscript:x",
    "//evil.example/",
    "/relative",
    "file:///etc/passwd",
    `https://example.org/${"a".repeat(3000)}`,
  ])("refuses %s", (url) => expect(safeURL(url)).toBeUndefined());
});

describe("parseUntrusted", () => {
  it("makes all texts visible, and keeps the rest", () => {
    expect(parseUntrusted(`{"a": ["\u202egnp.exe", 1, null], "b": {"c": "d"}}`)).toEqual({
      a: ["\ufffdgnp.exe", 1, null],
      b: { c: "d" },
    });
  });
});

describe("visible", () => {
  it("shows what would be invisible or turn the direction", () => {
    expect(visible("a\u202Egnp.exe")).toBe("a\ufffdgnp.exe");
    expect(visible("zero\u200bwidth\u0000")).toBe("zero\ufffdwidth\ufffd");
  });
  it("leaves other text and line ends alone", () =>
    expect(visible("árvíz\n\ttűrő 日本")).toBe("árvíz\n\ttűrő 日本"));
});

describe("formats", () => {
  const now = Date.parse("2026-01-02T12:00:00Z");
  it.each([
    ["2026-01-02T12:00:00Z", "just now"],
    ["2026-01-02T11:59:01Z", "just now"],
    ["2026-01-02T11:59:00Z", "1 minute ago"],
    ["2026-01-02T11:57:00Z", "3 minutes ago"],
    ["2026-01-02T14:00:00Z", "in 2 hours"],
    ["2026-01-01T10:00:00Z", "yesterday"],
    ["nonsense", "unknown"],
    [undefined, "unknown"],
  ])("relative %s", (iso, want) => expect(formatRelative(iso, now)).toBe(want));

  it("numbers", () => {
    expect([0, 999, 1234, 1_500_000].map(formatCompact)).toEqual(["0", "999", "1.2k", "1.5m"]);
    expect([0, 0.0004, 0.5, 0.943, 1].map(formatPercent)).toEqual([
      "0.0%",
      "<0.1%",
      "50.0%",
      "94.3%",
      "100%",
    ]);
    expect([0, 1023, 1536, 5 * 1024 ** 3].map(formatBytes)).toEqual(["0 B", "1023 B", "1.5 KiB", "5.0 GiB"]);
    expect([plural(1, "image"), plural(2000, "image")]).toEqual(["1 image", "2,000 images"]);
  });
});
