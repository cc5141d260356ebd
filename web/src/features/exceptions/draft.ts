import type {
  ExceptionKind,
  ExceptionSpec,
  ExceptionSpecStatus,
  LabelSelector,
  Package,
  Workload,
} from "@/gen/model";
import { dayOf, parseDay, startOf } from "@/lib/day";
import { describeSelector, parseSelector } from "./selector";

// What the API server takes, as in the CustomResourceDefinition.
const vulnerabilityPattern = /^[A-Za-z][A-Za-z0-9._:/+-]{2,127}$/;
const packagePattern = /^pkg:[a-z][a-z0-9.+-]*(\/@?[^/?#@*\s]+)+(@[^/?#*\s]+)?$/;
const imagePattern = /^[^@\s]*[^@\s:]@sha(256:[a-f0-9]{64}|512:[a-f0-9]{128})$/;
const namePattern = /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/;
const namespacePattern = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;
const maxPackage = 512;
export const maxVulnerabilities = 100;
export const maxPackages = 50;
export const maxImages = 50;
export const maxComment = 4096;

/** What somebody decides about. Without a package it is the vulnerability in all packages. */
export interface Subject {
  vulnerability: string;
  pkg?: Pick<Package, "type" | "name" | "version" | "purl">;
  /** The ID of the image in which it was found. */
  imageId?: string;
}

/** Which findings beside those of the subjects match. */
export type Reach = "versions" | "allVersions" | "allPackages" | "allVulnerabilities";

/** Where an exception applies: in the whole cluster, in one namespace, or in the namespaces with some labels. */
export type Where = "cluster" | "namespace" | "namespaces";

/** An exception while it is written. */
export interface Draft {
  where: Where;
  /** The namespace, if it applies in one. */
  namespace: string;
  /** The labels of the namespaces in which it applies, and of the pods of workloads; empty for all. */
  namespaceLabels: string;
  workloadLabels: string;
  /** The selectors of an exception that exists. */
  presentSelectors?: { namespaces?: LabelSelector; workloads?: LabelSelector };
  name: string;
  vulnerabilities: string[];
  /** The IDs of the vulnerabilities as a user enters them, if they are not those of findings. */
  entered?: string;
  packages: string[];
  reach: Reach;
  /** Patterns of images, and whether only these match. */
  images: string[];
  someImages: boolean;
  status: ExceptionSpecStatus;
  justification: NonNullable<ExceptionSpec["justification"]> | "";
  comment: string;
  /** The first day of UTC on which the findings count again; empty for no end. */
  end: string;
  /** The end of an exception that exists, which may be at any time of the day. */
  presentEnd?: string;
  expireWhenFixed: boolean;
  dryRun: boolean;
}

/** The types of packages that exceptions name by name and version, whatever package URL the SBOM of an image has for them, and those of package URLs. */
const typesByName = new Map([
  ["binary", "generic"],
  ["conda", "generic"],
  ["linux-kernel", "generic"],
  ["linux-kernel-module", "generic"],
  ["php-pear", "pear"],
  ["php-pecl", "pear"],
  ["swift", "swift"],
]);

/** The package URL by which exceptions name a package, without qualifiers and subpath; undefined when an exception cannot name it. */
function packageOf({
  purl = "",
  type,
  name,
  version,
}: Pick<Package, "purl" | "type" | "name" | "version">): string | undefined {
  const path = name.split("/").map(encodeURIComponent).join("/");
  const named = typesByName.get(type);
  const [plain = ""] = named
    ? [`pkg:${named}/${path}${version && `@${encodeURIComponent(version)}`}`]
    : purl.split(/[?#]/);
  return plain.length <= maxPackage && packagePattern.test(plain) ? plain : undefined;
}

/** The same package in any version. */
const withoutVersion = (purl: string) => purl.replace(/([^/])@[^@/]+$/, "$1");

const distinct = (texts: (string | undefined)[]) => [
  ...new Set(texts.flatMap((text) => (text === undefined ? [] : [text]))),
];

/** A name for an object of Kubernetes. */
function nameOf([first, ...others]: Subject[]): string {
  const part = (text: string, most: number) =>
    text
      .toLowerCase()
      .replaceAll(/[^a-z0-9]+/g, "-")
      .slice(0, most);
  if (!first) return "";
  // With the version, as in the package URL: an exception for another version is another object.
  const parts = [part(first.vulnerability, 24)];
  if (first.pkg) parts.push(part(first.pkg.name, 20), part(first.pkg.version, 13));
  if (others.length > 0) parts.push(`${others.length}-more`);
  return parts.join("-").replaceAll(/-+/g, "-").replaceAll(/^-|-$/g, "").slice(0, 63).replace(/-$/, "");
}

export const day = 24 * 60 * 60 * 1000;
/** How many days an exception applies unless somebody chooses another end. */
export const defaultDays = 90;

/** The kind of object that a draft is written as. */
export const kindOf = ({ where }: Pick<Draft, "where">): ExceptionKind =>
  where === "namespace" ? "VulnerabilityException" : "ClusterVulnerabilityException";

/** What a new draft begins with. */
const begun = (now: number, namespaces: string[] | undefined): Draft => ({
  where: namespaces ? "namespace" : "cluster",
  namespace: namespaces?.length === 1 ? (namespaces[0] ?? "") : "",
  namespaceLabels: "",
  workloadLabels: "",
  name: "",
  vulnerabilities: [],
  packages: [],
  reach: "allPackages",
  images: [],
  someImages: false,
  status: "AcceptedRisk",
  justification: "",
  comment: "",
  end: dayOf(now + defaultDays * day),
  expireWhenFixed: false,
  dryRun: false,
});

/**
 * A draft about some findings; undefined when an exception can name none of their vulnerabilities. For a user who sees some namespaces only, it is one
 * of a namespace.
 */
export function draftFor(subjects: Subject[], now: number, namespaces?: string[]): Draft | undefined {
  const named = subjects.filter(({ vulnerability }) => vulnerabilityPattern.test(vulnerability));
  if (named.length === 0) return undefined;
  const urls = named.map(({ pkg }) => pkg && packageOf(pkg));
  const packages = distinct(urls);
  // Without the package URL of one of them, the others would not match it.
  const complete = urls.every((url) => url !== undefined);
  return {
    ...begun(now, namespaces),
    name: nameOf(named),
    vulnerabilities: distinct(named.map(({ vulnerability }) => vulnerability)).slice(0, maxVulnerabilities),
    packages: complete ? packages.slice(0, maxPackages) : [],
    reach: complete && packages.length <= maxPackages ? "versions" : "allPackages",
    images: distinct(
      named.map(({ imageId }) => (imageId && imagePattern.test(imageId) ? imageId : undefined)),
    ).slice(0, maxImages),
  };
}

/** A draft about some images, whose vulnerabilities are still to be named; named is how many of them an exception can name. */
export function draftForImages(imageIds: string[], now: number, namespaces?: string[]) {
  const images = distinct(imageIds.filter((imageId) => imagePattern.test(imageId)));
  const draft = { ...begun(now, namespaces), images: images.slice(0, maxImages), someImages: true };
  return { draft: { ...draft, ...withEntered(draft, "") }, named: images.length };
}

/** Why an exception cannot name all of some images; undefined if it can. */
export function notNamed(imageIds: string[], now: number): string | undefined {
  if (imageIds.length > maxImages)
    return `To decide, select at most ${maxImages} images: these are ${imageIds.length}.`;
  return draftForImages(imageIds, now).named < imageIds.length
    ? "Exceptions cannot name images without a digest."
    : undefined;
}

/** The label of each namespace that has its name. */
const nameLabel = "kubernetes.io/metadata.name";

/** A draft about the images that workloads run, in the namespaces of these workloads. */
export function draftForWorkloads(
  workloads: Pick<Workload, "namespace">[],
  imageIds: string[],
  now: number,
  namespaces?: string[],
): Draft {
  const { draft } = draftForImages(imageIds, now, namespaces);
  const [first = "", ...others] = distinct(workloads.map(({ namespace }) => namespace));
  if (others.length === 0) return { ...draft, where: "namespace", namespace: first };
  // An exception of several namespaces is one of the cluster, which a user of some namespaces cannot write.
  if (namespaces) return { ...draft, namespace: "" };
  return {
    ...draft,
    where: "namespaces",
    namespaceLabels: `${nameLabel} in (${[first, ...others].join(",")})`,
  };
}

/** The IDs in a text; empty if one of them cannot be of a vulnerability. */
function idsIn(text: string): string[] {
  const ids = distinct(text.split(/[\s,]+/).filter(Boolean));
  return ids.length <= maxVulnerabilities && ids.every((id) => vulnerabilityPattern.test(id)) ? ids : [];
}

/** The name of a draft about some images, unless somebody chooses another. */
const nameForImages = ({ vulnerabilities, images }: Pick<Draft, "vulnerabilities" | "images">) =>
  [nameOf(vulnerabilities.map((vulnerability) => ({ vulnerability }))), `${images.length}-images`]
    .filter(Boolean)
    .join("-in-");

/** A draft about some images, with the vulnerabilities that a user enters. */
export function withEntered(draft: Draft, entered: string): Partial<Draft> {
  const vulnerabilities = idsIn(entered);
  const chosen = draft.name !== "" && draft.name !== nameForImages(draft);
  return {
    entered,
    vulnerabilities,
    ...(!chosen && { name: nameForImages({ ...draft, vulnerabilities }) }),
  };
}

/** The draft of an exception that exists. It keeps what it matches. */
export const draftOf = (
  namespace: string,
  name: string,
  { match, status, justification, comment, expiresAt, expireWhenFixed, mode }: ExceptionSpec,
): Draft => ({
  where: namespace ? "namespace" : match.namespaceSelector ? "namespaces" : "cluster",
  namespace,
  namespaceLabels: describeSelector(match.namespaceSelector ?? {}),
  workloadLabels: describeSelector(match.workloadSelector ?? {}),
  presentSelectors: { namespaces: match.namespaceSelector, workloads: match.workloadSelector },
  name,
  vulnerabilities: match.vulnerabilities ?? [],
  packages: match.packages ?? [],
  reach: (match.packages ?? []).length === 0 ? "allPackages" : "versions",
  images: match.images ?? [],
  someImages: (match.images ?? []).length > 0,
  status,
  justification: justification ?? "",
  comment: comment ?? "",
  end: expiresAt ? parseDay(expiresAt.slice(0, 10)) : "",
  ...(expiresAt && { presentEnd: expiresAt }),
  expireWhenFixed: expireWhenFixed ?? false,
  dryRun: mode === "DryRun",
});

/** The selector that a text states, or the present one if it states the same; undefined for none. */
function selectorOf(text: string, present: LabelSelector | undefined, required: boolean) {
  if (present && describeSelector(present) === text) return present;
  const parsed = parseSelector(text);
  return "selector" in parsed && (required || text.trim() !== "") ? parsed.selector : undefined;
}

/** The spec of a draft. What its status does not have is left out. */
export function specOf(draft: Draft): ExceptionSpec {
  const { vulnerabilities, packages, reach, status, justification, end, presentEnd } = draft;
  const comment = draft.comment.trim();
  const versions = reach === "allVersions" ? distinct(packages.map(withoutVersion)) : packages;
  const namespaceSelector =
    draft.where === "namespaces"
      ? selectorOf(draft.namespaceLabels, draft.presentSelectors?.namespaces, true)
      : undefined;
  const workloadSelector = selectorOf(draft.workloadLabels, draft.presentSelectors?.workloads, false);
  return {
    match: {
      ...(reach !== "allVulnerabilities" && vulnerabilities.length > 0 && { vulnerabilities }),
      ...(reach !== "allPackages" && packages.length > 0 && { packages: versions }),
      ...(draft.someImages && draft.images.length > 0 && { images: draft.images }),
      ...(namespaceSelector && { namespaceSelector }),
      ...(workloadSelector && { workloadSelector }),
    },
    status,
    ...(status === "NotAffected" && justification && { justification }),
    ...(comment && { comment }),
    ...(end && { expiresAt: presentEnd?.startsWith(end) ? presentEnd : startOf(end) }),
    ...(draft.expireWhenFixed && { expireWhenFixed: true }),
    ...(draft.dryRun && { mode: "DryRun" as const }),
  };
}

/** What is missing in the place of a draft, by field. Without it there is no preview. */
export function missingPlace({ where, namespace, namespaceLabels, workloadLabels }: Draft): {
  namespace?: string;
  namespaceLabels?: string;
  workloadLabels?: string;
} {
  const ofNamespaces = parseSelector(namespaceLabels);
  const ofWorkloads = parseSelector(workloadLabels);
  return {
    ...(where === "namespace" && !namespacePattern.test(namespace) && { namespace: "Name a namespace." }),
    ...(where === "namespaces" && "error" in ofNamespaces && { namespaceLabels: ofNamespaces.error }),
    ...("error" in ofWorkloads && { workloadLabels: ofWorkloads.error }),
  };
}

/** What is missing in what a draft matches, by field. Without it there is no preview. */
export const missingMatch = ({ entered, vulnerabilities }: Draft): { vulnerabilities?: string } =>
  entered !== undefined && vulnerabilities.length === 0
    ? { vulnerabilities: `Name vulnerabilities by their IDs, at most ${maxVulnerabilities}.` }
    : {};

/** What is missing in a draft, by field, in the words of the rules of the CustomResourceDefinition. */
export function missing(
  draft: Draft,
): { name?: string; comment?: string } & ReturnType<typeof missingPlace> & ReturnType<typeof missingMatch> {
  const { status, justification } = draft;
  const comment = draft.comment.trim();
  return {
    ...missingPlace(draft),
    ...missingMatch(draft),
    ...(!namePattern.test(draft.name) && {
      name: "A name has lower-case letters, digits, dots and hyphens, and begins and ends with a letter or a digit.",
    }),
    ...(status === "AcceptedRisk" && !comment && { comment: "State why the risk is accepted." }),
    ...(status === "NotAffected" &&
      !comment &&
      !justification && { comment: "Choose a justification or write a comment." }),
  };
}

/** The manifest of a draft. Every text is a JSON string, which is one of YAML too. */
export function manifestOf(draft: Draft): string {
  const { match, ...rest } = specOf(draft);
  const { namespaceSelector, workloadSelector } = match;
  const namespace = draft.where === "namespace" ? draft.namespace : "";
  const list = (name: string, texts: string[] | undefined) =>
    texts ? [`    ${name}:`, ...texts.map((text) => `    - ${JSON.stringify(text)}`)] : [];
  return [
    "apiVersion: scanner.zoltankerezsi.xyz/v1alpha1",
    `kind: ${kindOf(draft)}`,
    "metadata:",
    ...(namespace ? [`  namespace: ${JSON.stringify(namespace)}`] : []),
    `  name: ${JSON.stringify(draft.name)}`,
    "spec:",
    "  match:",
    ...list("vulnerabilities", match.vulnerabilities),
    ...list("packages", match.packages),
    ...list("images", match.images),
    ...(namespaceSelector ? [`    namespaceSelector: ${JSON.stringify(namespaceSelector)}`] : []),
    ...(workloadSelector ? [`    workloadSelector: ${JSON.stringify(workloadSelector)}`] : []),
    ...Object.entries(rest).map(([name, value]) => `  ${name}: ${JSON.stringify(value)}`),
    "",
  ].join("\n");
}
