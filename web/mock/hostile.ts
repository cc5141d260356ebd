import type { Finding, Image } from "../src/gen/model/index.ts";
import { noCounts } from "./data.ts";
import * as clock from "./clock.ts";

/** Text that hostile images, registries and databases may hold. */
export const hostileTexts = [
  "<script>window.__xss = 1</script>",
  `"><img src=x onerror="window.__xss = 1">`,
  `<svg onload=window.__xss=1>`,
  `javascript:window.__xss=1`,
  `{{constructor.constructor('window.__xss=1')()}}`,
  `\u202Egnp.evil\u202C \u2066isolated`,
  `<a href="javascript:window.__xss=1">click</a>`,
  "long-".repeat(60),
  `'; window.__xss=1; //`,
  `&lt;b&gt;not bold&lt;/b&gt;`,
];

export const hostileURLs = [
  "javascript:window.__xss=1",
  "JaVaScRiPt:window.__xss=1",
  "java\nscript:window.__xss=1",
  "data:text/html,<script>window.__xss=1</script>",
  "vbscript:msgbox(1)",
  "//evil.example/",
  "file:///etc/passwd",
];

const at = (list: string[], index: number) => list[index % list.length] ?? "";

export function hostileImages(): Image[] {
  return hostileTexts.map((text, index) => ({
    imageId: index === 0 ? `evil.example/${text}@sha256:${"a".repeat(64)}` : `evil.example/${index}/${text}`,
    platform: `linux/${text}`.slice(0, 90),
    state: index % 3 === 0 ? "Failed" : "Scanned",
    reason: "CatalogFailed",
    message: text,
    attempts: 1,
    distro: text,
    distribution: { name: text, version: text, endOfLife: text, endOfSupport: text, endOfLifeReached: true },
    created: text,
    size: 1,
    packages: 1,
    counts: { ...noCounts(), high: 7 },
    firstSeen: text,
    matchedAt: index % 2 === 0 ? text : new Date(clock.now()).toISOString(),
  }));
}

export function hostileFindings(): Finding[] {
  return hostileURLs.map((url, index) => {
    const text = at(hostileTexts, index);
    return {
      package: { id: text, name: text, version: text, type: text, purl: text, licenses: [text] },
      vulnerability: {
        id: text,
        namespace: text,
        severity: "High",
        risk: 10,
        description: text,
        dataSource: url,
        urls: [url, text],
        aliases: [text],
        cwes: [text],
        cvss: [{ version: text, vector: text, score: 9.8, source: text }],
        kev: [{ vendorProject: text, requiredAction: text }],
      },
      fix: { state: "fixed", versions: [text] },
      details: [
        {
          type: text,
          matcher: text,
          found: { [text]: text },
          searchedBy: { deep: { er: [text, { text }] } },
        },
      ],
      locations: [{ path: text, layer: text }],
    };
  });
}
