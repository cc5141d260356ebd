package match

import "github.com/scanner-operator/scanner-operator/internal/vuln"

// Findings joins what an image holds with what a database says about it: the findings of every package that is not
// excluded, without those that the image's other packages rule out. The order is that of the catalog.
func Findings(catalog vuln.Catalog, result vuln.MatchResult) []vuln.Finding {
	excluded := make(map[vuln.Exclusion]struct{}, len(result.Exclusions))
	for _, e := range result.Exclusions {
		excluded[e] = struct{}{}
	}
	var out []vuln.Finding
	for _, held := range catalog.Packages {
		if held.Excluded {
			continue
		}
		for _, f := range result.Packages[held.Package.Fingerprint] {
			e := vuln.Exclusion{
				Fingerprint:     held.Package.Fingerprint,
				VulnerabilityID: f.Vulnerability.ID,
				Namespace:       f.Vulnerability.Namespace,
			}
			if _, ignored := excluded[e]; ignored {
				continue
			}
			out = append(out, vuln.Finding{PackageFinding: f, Package: held.Package, Locations: held.Locations})
		}
	}
	return out
}
