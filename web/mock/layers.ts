import {
  Origin,
  type Finding,
  type Image,
  type ImageLayer,
  type ImagePackage,
  type Package,
} from "../src/gen/model/index.ts";
import { noCounts, packages as known } from "./data.ts";

const own = 4;

const diffId = (number: number) =>
  `sha256:${(number * 0x9e3779b1).toString(16).padStart(16, "c").slice(0, 16).repeat(4)}`;

/** The packages of an image, in the order of its layers. Those of images that were read from image volumes are in no known layer. */
export function makeImagePackages(
  image: Image,
  findings: Finding[],
  params: URLSearchParams,
): ImagePackage[] {
  const base = image.base?.layers ?? 0;
  const layerOf = (index: number, type: string) =>
    image.source === "Registry"
      ? type === "deb"
        ? Math.max(base, 1)
        : base + 1 + (index % (own - 1))
      : undefined;
  const rows = new Map<string, ImagePackage>();
  const put = (index: number, pkg: Package, path: string) => {
    const layer = layerOf(index, pkg.type);
    const row: ImagePackage = {
      package: pkg,
      ...(layer && { layer }),
      path,
      locations: [{ path, ...(layer && { layer: diffId(layer) }) }],
      ...(image.base && { origin: pkg.type === "deb" ? Origin.base : Origin.image }),
      ...(pkg.name === "libx-7" && { excluded: true }),
      counts: noCounts(),
    };
    rows.set(pkg.id, row);
    return row;
  };
  for (const [index, finding] of findings.entries()) {
    const { package: pkg, locations } = finding;
    const at = known.findIndex((entry) => entry[0] === pkg.name);
    const row = rows.get(pkg.id) ?? put(at < 0 ? index : at, pkg, locations[0]?.path ?? "");
    row.counts[finding.vulnerability.severity.toLowerCase() as "high"]++;
    if (finding.fix.state === "fixed") row.counts.fixable++;
    if (finding.vulnerability.kev) row.counts.kev++;
  }
  for (let index = rows.size; index < image.packages; index++)
    put(
      index,
      {
        id: `libx-${index}`,
        name: `libx-${index}`,
        version: `1.${index}-1`,
        type: "deb",
        licenses: ["Apache-2.0"],
      },
      "/var/lib/dpkg/status",
    );
  const text = (params.get("text") ?? "").toLowerCase();
  const severities = ["critical", "high", "medium", "low", "negligible", "unknown"] as const;
  const worst = params.get("severity")?.toLowerCase();
  const layer = params.get("layer");
  return [...rows.values()]
    .filter(
      ({ package: pkg, counts, origin, layer: of = 0 }) =>
        pkg.name.toLowerCase().includes(text) &&
        (layer === null || of === Number(layer)) &&
        (!params.get("origin") || params.get("origin") === origin) &&
        (params.get("vulnerable") !== "true" || severities.some((key) => counts[key] > 0)) &&
        (!worst ||
          severities.slice(0, severities.indexOf(worst as "high") + 1).some((key) => counts[key] > 0)),
    )
    .sort(
      (a, b) =>
        (a.layer ?? 1000) - (b.layer ?? 1000) ||
        (a.path ?? "").localeCompare(b.path ?? "") ||
        a.package.name.localeCompare(b.package.name),
    );
}

/** Findings whose locations are in the layers of the image. */
export function inLayers(image: Image, findings: Finding[]): Finding[] {
  const packages = new Map(
    makeImagePackages(image, findings, new URLSearchParams()).map((row) => [row.package.id, row.locations]),
  );
  return findings.map((finding) => ({
    ...finding,
    locations: packages.get(finding.package.id) ?? finding.locations,
  }));
}

/** The layers of an image, with what the parameters keep of their packages. */
export function makeImageLayers(image: Image, findings: Finding[], params: URLSearchParams): ImageLayer[] {
  const base = image.base?.layers ?? 0;
  const layers: ImageLayer[] =
    image.source && !image.layersUnknown
      ? Array.from({ length: base + own }, (_, index) => ({
          number: index + 1,
          diffId: diffId(index + 1),
          size: index === 2 ? 0 : Math.floor(image.size / (index + 2)),
          ...(image.base && { origin: index < base ? Origin.base : Origin.image }),
          packages: 0,
          counts: noCounts(),
        }))
      : [];
  const unknown: ImageLayer = { packages: 0, counts: noCounts() };
  for (const { layer = 0, counts } of makeImagePackages(image, findings, params)) {
    const sum = layers[layer - 1] ?? unknown;
    sum.packages++;
    for (const key of Object.keys(counts) as (keyof typeof counts)[]) sum.counts[key] += counts[key];
  }
  return unknown.packages > 0 ? [...layers, unknown] : layers;
}
