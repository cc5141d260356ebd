// Package match compares software catalogs with a Grype vulnerability database, in process.
//
// The unit of matching is the distinct package, not the image: two images that hold the same package share its
// fingerprint and its findings. What differs between images is little and is told apart: which packages Grype leaves
// out because a package of the distribution owns their files ([vuln.HeldPackage].Excluded), and which findings it
// ignores because of another package of the same image ([vuln.MatchResult].Exclusions). [Findings] joins the three
// again; the result equals that of the grype command on the same SBOM and database (see test/parity).
//
// SBOMs are hostile input: [Decode] bounds bytes, nesting, strings and elements before it parses, and turns a panic of
// a parser into an error.
package match
