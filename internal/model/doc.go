// Package model defines the domain types of the operator: images, packages, vulnerabilities and findings. It imports only the
// standard library and does no I/O.
//
// # Types
//
//   - ImageKey identifies an image: the image ID that a container runtime reports, and the platform. A scan produces one SBOM per
//     ImageKey.
//   - Catalog is the content of an SBOM: the packages of one image. Package is a package independent of the image that contains it;
//     its Fingerprint identifies it. HeldPackage adds the locations in one image.
//   - Vulnerability is one record of a vulnerability database. PackageFinding is a vulnerability of a Package, Finding of a package in
//     one image.
//   - PackageAnswer is the result of matching one Package against one DatabaseBuild. Its SearchKeys list the database records that the
//     result depends on.
//   - Suppression is why a finding does not count, as a SuppressedFinding has it. ImageNames is how documents identify an image.
//   - Outcome is the result of one scan attempt, Reason the typed cause of its failure. SizeClass is the memory class of a scan.
//
// # Units and bounds
//
// Sizes are in bytes and times in UTC. Digests are lower-case hexadecimal with their algorithm ("sha256:…"), fingerprints without.
// Severity is ordered from SeverityUnknown (0) to SeverityCritical (5). Scores have the range of their standard: CVSS 0 to 10, EPSS score
// and percentile 0 to 1; Risk is Grype's figure, 0 to 100.
//
// All strings come from outside and are untrusted, except where a constant lists the values. An image ID has at most MaxImageIDLength
// bytes of printable ASCII (ImageKey.Validate), a part of a platform at most 32 characters (ParsePlatform), a delay requested by a
// registry is at most MaxRetryAfter.
package model
