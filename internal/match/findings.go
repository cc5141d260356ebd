package match

import "github.com/scanner-operator/scanner-operator/internal/model"

// Findings joins what an image holds with what a database says about it: the findings of every package that is not
// excluded. The order is that of the catalog.
func Findings(catalog model.Catalog, result model.MatchResult) []model.Finding {
	var out []model.Finding
	for _, held := range catalog.Packages {
		if held.Excluded {
			continue
		}
		for _, f := range result.Packages[held.Package.Fingerprint] {
			out = append(out, model.Finding{PackageFinding: f, Package: held.Package, Locations: held.Locations})
		}
	}
	return out
}
