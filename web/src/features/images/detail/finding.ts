import type { Finding, ImageLayer, Location, MatchDetail } from "@/gen/model";

/** Tells packages of one image apart, also those of the same name and version. */
export const packageKey = ({ package: { id } }: Pick<Finding, "package">): string => id;

/** Tells findings of one image apart. One that was closed, came back and was closed again stands there twice. */
export const findingKey = (finding: Finding): string =>
  JSON.stringify([
    finding.vulnerability.namespace,
    finding.vulnerability.id,
    packageKey(finding),
    finding.fixedAt ?? "",
  ]);

const matchTypes: Partial<Record<string, string>> = {
  "exact-direct-match": "Exact match of the package",
  "exact-indirect-match": "Exact match of the source package",
  "cpe-match": "Match by CPE: less certain than a match by package",
};

export const matchType = ({ type }: MatchDetail) => matchTypes[type] ?? type;

export interface Fact {
  name: string;
  value: string;
}

const maxFacts = 24;

/** What a matcher searched by and found, flattened to short facts. Its form differs between matchers. */
export function facts(value: unknown, prefix = "", depth = 0): Fact[] {
  if (value === null || value === undefined || depth > 4) return [];
  if (Array.isArray(value)) {
    if (value.every((entry) => typeof entry !== "object")) {
      return value.length > 0 ? [{ name: prefix, value: value.map(String).join(", ") }] : [];
    }
    return value.flatMap((entry) => facts(entry, prefix, depth + 1)).slice(0, maxFacts);
  }
  if (typeof value === "object") {
    return Object.entries(value)
      .flatMap(([key, entry]) => facts(entry, prefix ? `${prefix}.${key}` : key, depth + 1))
      .slice(0, maxFacts);
  }
  if (typeof value !== "string" && typeof value !== "number" && typeof value !== "boolean") return [];
  return value === "" ? [] : [{ name: prefix, value: String(value) }];
}

/** The location of a package in the lowest layer, with this layer; the first one where layers are not known. */
export function lowestLocation(
  locations: Location[],
  layers: ImageLayer[],
): { location?: Location; layer?: ImageLayer } {
  const layer = layers.find(
    ({ diffId }) => diffId && locations.some((location) => location.layer === diffId),
  );
  const location = layer ? locations.find((each) => each.layer === layer.diffId) : locations[0];
  return { ...(location && { location }), ...(layer && { layer }) };
}
