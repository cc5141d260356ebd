import type { Image, SearchResults } from "../src/gen/model/index.ts";
import { filterSums, searchVersions } from "./filter.ts";
import type { Sums } from "./sums.ts";

/** What a search finds, of the images that contain its text. */
export function makeSearch(
  sums: Sums,
  images: Image[],
  params: URLSearchParams,
  owned: boolean,
): SearchResults {
  const text = (params.get("text") ?? "").toLowerCase();
  const of = (kind: keyof Sums | "owners") => filterSums(sums, kind, params).rows.slice(0, 5);
  const namespaces = new Set(sums.workloads.map(({ workload }) => workload.namespace));
  return {
    vulnerabilities: of("vulnerabilities"),
    packages: of("packages"),
    images: images.slice(0, 5),
    containers: of("coverage"),
    workloads: of("workloads"),
    namespaces: [...namespaces].filter((name) => name.includes(text)).slice(0, 5),
    owners: owned ? of("owners") : [],
    ...searchVersions(sums, params.get("text") ?? ""),
  } as SearchResults;
}
