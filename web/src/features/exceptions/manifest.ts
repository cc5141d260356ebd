import type { Package } from "@/gen/model";

const day = 24 * 60 * 60 * 1000;
/** How many days an exception applies unless somebody chooses another end. */
const days = 90;

// What the API server takes, as in the CustomResourceDefinition.
const vulnerabilityPattern = /^[A-Za-z][A-Za-z0-9._:/+-]{2,127}$/;
const packagePattern = /^pkg:[a-z][a-z0-9.+-]*(\/@?[^/?#@*\s]+)+(@[^/?#*\s]+)?$/;
const maxPackage = 512;

/** A package URL without its qualifiers and subpath; undefined when an exception cannot name the package. */
function packageOf({ purl = "" }: Package): string | undefined {
  const [plain = ""] = purl.split(/[?#]/);
  return plain.length <= maxPackage && packagePattern.test(plain) ? plain : undefined;
}

/** A name for an object of Kubernetes. */
function nameOf(vulnerability: string, pkg: Package): string {
  const part = (text: string, most: number) =>
    text
      .toLowerCase()
      .replaceAll(/[^a-z0-9]+/g, "-")
      .slice(0, most);
  // With the version, as in the package URL: an exception for another version is another object.
  return `${part(vulnerability, 24)}-${part(pkg.name, 20)}-${part(pkg.version, 17)}`
    .replaceAll(/-+/g, "-")
    .replaceAll(/^-|-$/g, "");
}

/**
 * A manifest for an exception of one vulnerability in one package, to be completed with the reason. Undefined for a vulnerability that an exception
 * cannot name.
 */
export function exceptionManifest(vulnerability: string, pkg: Package, now: number): string | undefined {
  if (!vulnerabilityPattern.test(vulnerability)) return undefined;
  const purl = packageOf(pkg);
  const end = `${new Date(now + days * day).toISOString().slice(0, 10)}T00:00:00Z`;
  // A JSON string is one of YAML too.
  return [
    "apiVersion: scanner.zoltankerezsi.xyz/v1alpha1",
    "kind: ClusterVulnerabilityException",
    "metadata:",
    `  name: ${nameOf(vulnerability, pkg)}`,
    "spec:",
    "  match:",
    `    vulnerabilities: [${JSON.stringify(vulnerability)}]`,
    purl
      ? `    packages: [${JSON.stringify(purl)}]`
      : "    # Without packages, the exception matches every package that has this vulnerability.",
    "  # NotAffected, FalsePositive, AcceptedRisk, Fixed or UnderInvestigation",
    "  status: AcceptedRisk",
    '  comment: "" # Required: the reason',
    `  expiresAt: ${JSON.stringify(end)}`,
    "",
  ].join("\n");
}
