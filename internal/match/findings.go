package match

import "github.com/scanner-operator/scanner-operator/internal/vuln"

// Findings joins what an image holds with what a database says about it: the findings of every package that is not
// excluded. The order is that of the catalog.
func Findings(catalog vuln.Catalog, result vuln.MatchResult) []vuln.Finding {
	var out []vuln.Finding
	for _, held := range catalog.Packages {
		if held.Excluded {
			continue
		}
		for _, f := range result.Packages[held.Package.Fingerprint] {
			out = append(out, vuln.Finding{PackageFinding: f, Package: held.Package, Locations: held.Locations})
		}
	}
	return out
}
