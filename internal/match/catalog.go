package match

import (
	"cmp"
	"slices"

	"github.com/anchore/grype/grype/pkg"

	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

// catalogBuilder merges packages with the same fingerprint. When some of them are left out of matching and some are
// not, the ones that take part decide: the package is not excluded, and its locations are theirs, as in Grype's report.
type catalogBuilder struct {
	byPrint map[string]int
	held    []vuln.HeldPackage
}

func newCatalogBuilder(size int) *catalogBuilder {
	return &catalogBuilder{byPrint: make(map[string]int, size), held: make([]vuln.HeldPackage, 0, size)}
}

func (b *catalogBuilder) add(p *pkg.Package, u *unit, excluded bool) error {
	input, printed, err := u.canonical()
	if err != nil {
		return err
	}
	i, ok := b.byPrint[printed]
	if !ok {
		i = len(b.held)
		b.byPrint[printed] = i
		b.held = append(b.held, vuln.HeldPackage{
			Excluded: excluded,
			Package: vuln.Package{
				Fingerprint: printed,
				Name:        p.Name,
				Version:     p.Version,
				Type:        string(p.Type),
				Language:    string(p.Language),
				PURL:        p.PURL,
				Distro:      distroName(p.Distro),
				CPEs:        cpeStrings(p),
				MatchInput:  input,
			},
		})
	}
	held := &b.held[i]
	if excluded && !held.Excluded {
		return nil
	}
	for _, location := range p.Locations.ToSlice() {
		held.Locations = append(held.Locations, vuln.Location{Path: location.RealPath, Layer: location.FileSystemID})
	}
	held.Package.Licenses = append(held.Package.Licenses, p.Licenses...)
	return nil
}

func (b *catalogBuilder) catalog() vuln.Catalog {
	for i := range b.held {
		held := &b.held[i]
		slices.SortFunc(held.Locations, compareLocations)
		held.Locations = slices.Compact(held.Locations)
		slices.Sort(held.Package.Licenses)
		held.Package.Licenses = slices.Compact(held.Package.Licenses)
	}
	return vuln.Catalog{Packages: b.held, Projection: Projection}
}

func compareLocations(a, b vuln.Location) int {
	return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Layer, b.Layer))
}

func cpeStrings(p *pkg.Package) []string {
	var out []string
	for _, c := range p.CPEs {
		out = append(out, c.Attributes.String())
	}
	return out
}
