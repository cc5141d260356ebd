// Package match compares software catalogs with a Grype vulnerability database, in process.
//
// The unit of matching is the distinct package in its context, not the image. The context is those packages of an image that
// have a say about it: owners of its files, and namesakes. Nearly all packages have none, and images that hold the same
// unit share its fingerprint and its answer. What an image has is then a join ([Findings]); the result equals that of the
// grype command on the same SBOM and database (see test/parity). Besides, an image tells which packages Grype leaves out
// because a package of the distribution owns their files ([model.HeldPackage].Excluded).
//
// An answer comes with the keys of all that was asked of the database to find it ([model.PackageAnswer].SearchKeys): while nothing
// behind them changes, neither does the answer. EPSS, KEV and CWEs are not asked for to find it; [Database.Scores] brings them
// up to date by themselves.
//
// SBOMs are hostile input: [Decode] bounds bytes, nesting, strings and elements before it parses, and turns a panic of
// a parser into an error. A package that makes a matcher fail has a failure for an answer, and disturbs no other.
package match
