import { expect, test } from "vitest";
import type { ImagePackage } from "@/gen/model";
import { withLocations } from "./entries";

const counts = { critical: 0, high: 0, medium: 0, low: 0, negligible: 0, unknown: 0, kev: 0, fixable: 0 };

const at = (name: string, path?: string): ImagePackage => ({
  package: { id: name, name, version: "1", type: "deb" },
  locations: [],
  counts,
  ...(path && { path }),
});

test("packages that share a location stand below it, others state their own", () => {
  const entries = withLocations([
    at("npm", "/app/package.json"),
    at("bash", "/status"),
    at("curl", "/status"),
    at("tool", "/usr/bin/tool"),
    at("without"),
    at("without too"),
  ]);
  expect(
    entries.map((entry) =>
      "path" in entry ? entry.path : `${entry.below ? "  " : ""}${entry.row.package.name}`,
    ),
  ).toEqual(["npm", "/status", "  bash", "  curl", "tool", "without", "without too"]);
  expect(withLocations([])).toEqual([]);
});
