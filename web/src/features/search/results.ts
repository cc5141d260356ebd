import type { SearchResults } from "@/gen/model";
import { parseImageId, imagePath } from "@/lib/image-id";
import { imagesOfPath, vulnerabilityPath, workloadName, workloadsOfOwnerPath } from "@/lib/paths";
import { plural } from "@/lib/format";
import { visible } from "@/lib/text";

/** A place in the UI that the search leads to. */
export interface Destination {
  to: string;
  title: string;
  /** What tells it apart from others of the same title. */
  detail?: string;
}

export interface DestinationGroup {
  value: string;
  items: Destination[];
}

const list = (path: string, parameters: Record<string, string>) =>
  `${path}?${new URLSearchParams(parameters).toString()}`;

/** The lists of packages that match: those of the names that were found when the text has a version, which a list takes with a whole name only. */
function packageLists({ packages, packageVersion }: SearchResults, text: string): Destination[] {
  if (packageVersion === undefined) return [matching("Packages", list("/packages", { q: text }), text)];
  // What cannot be in a comparison of versions is left out.
  const version = /^[^\s<>=!|&"'(),*\P{ASCII}]+$/u.test(packageVersion) && { version: `=${packageVersion}*` };
  return [...new Set(packages.map(({ package: { name } }) => name))].map((name) =>
    matching(
      "Packages",
      list("/packages", { q: name, ...version }),
      version ? `${name} ${packageVersion}` : name,
    ),
  );
}

const matching = (kind: string, to: string, text: string): Destination => ({
  to,
  title: `${kind} that match “${visible(text)}”`,
});

/** The results of a search by kind, each with the list in which all of the kind are; kinds without results are left out. */
export function groupResults(results: SearchResults, text: string): DestinationGroup[] {
  const groups: (DestinationGroup & { all?: string; lists?: Destination[] })[] = [
    {
      value: "Vulnerabilities",
      items: results.vulnerabilities.map(({ id, severity, kev, images }) => ({
        to: vulnerabilityPath(id),
        title: id,
        detail: [severity, kev && "KEV", plural(images, "image")].filter(Boolean).join(", "),
      })),
      all: list("/vulnerabilities", { q: text }),
    },
    {
      value: "Packages",
      items: results.packages.map(({ package: { name, version, type }, images }) => ({
        to: list("/packages", { q: name, ...(version && { version: `=${version}` }), type }),
        title: `${name} ${version}`,
        detail: `${type}, ${plural(images, "image")}`,
      })),
      lists: packageLists(results, text),
    },
    {
      value: "Images",
      items: results.images.map(({ imageId, platform }) => {
        const { repository, digest } = parseImageId(imageId);
        return {
          to: imagePath(imageId, platform),
          title: repository,
          detail: [digest, platform].filter(Boolean).join(", "),
        };
      }),
      all: list("/images", { q: text }),
    },
    {
      value: "Containers",
      items: results.containers.map(({ workload, container, reference }) => ({
        to: list("/coverage", { q: container, namespace: workload.namespace }),
        title: `${workloadName(workload)}, ${container}`,
        detail: reference,
      })),
      all: list("/coverage", { q: text }),
    },
    {
      value: "Workloads",
      items: results.workloads.map(({ workload, imageCount }) => ({
        to: imagesOfPath(workload),
        title: workloadName(workload),
        detail: plural(imageCount, "image"),
      })),
      all: list("/workloads", { q: text }),
    },
    {
      value: "Namespaces",
      items: results.namespaces.map((namespace) => ({
        to: list("/images", { namespace }),
        title: namespace,
      })),
    },
    {
      value: "Owners",
      items: results.owners.flatMap(({ owner, workloads }) =>
        owner === undefined
          ? []
          : { to: workloadsOfOwnerPath(owner), title: owner, detail: plural(workloads, "workload") },
      ),
    },
  ];
  return groups
    .filter(({ items }) => items.length > 0)
    .map(({ value, items, all, lists = all ? [matching(value, all, text)] : [] }) => ({
      value,
      items: [
        ...items.map((item) => ({
          ...item,
          title: visible(item.title),
          detail: item.detail && visible(item.detail),
        })),
        ...lists,
      ],
    }));
}
