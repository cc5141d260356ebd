package model

// SearchKey is a hash of one thing that matchers ask a vulnerability database for: the records of a package name, of a
// CPE product, of an operating system, or of one vulnerability. The package vulndb makes them.
type SearchKey uint64

// PackageAnswer is what one database build says about one package, whatever image holds it.
type PackageAnswer struct {
	Findings []PackageFinding
	// SearchKeys is everything that was asked for to find this answer, ascending, each once. While nothing behind any of
	// them changes, the answer stays the same.
	SearchKeys []SearchKey
	// Failure is why the package could not be matched, "" when it was. Then there are neither findings nor keys.
	Failure string
}
