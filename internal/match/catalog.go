package match

import (
	"cmp"
	"slices"

	"github.com/anchore/grype/grype/pkg"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// catalogBuilder merges packages with the same fingerprint. When some of them are left out of matching and some are
// not, the ones that take part decide: the package is not excluded, and its locations are theirs, as in Grype's report.
type catalogBuilder struct {
	byPrint map[string]int
	held    []model.HeldPackage
}

func newCatalogBuilder(size int) *catalogBuilder {
	return &catalogBuilder{byPrint: make(map[string]int, size), held: make([]model.HeldPackage, 0, size)}
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
		b.held = append(b.held, model.HeldPackage{
			Excluded: excluded,
			Package: model.Package{
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
		held.Locations = append(held.Locations, model.Location{Path: location.RealPath, Layer: location.FileSystemID})
	}
	held.Package.Licenses = append(held.Package.Licenses, p.Licenses...)
	return nil
}

func (b *catalogBuilder) catalog() model.Catalog {
	for i := range b.held {
		held := &b.held[i]
		slices.SortFunc(held.Locations, compareLocations)
		held.Locations = slices.Compact(held.Locations)
		slices.Sort(held.Package.Licenses)
		held.Package.Licenses = slices.Compact(held.Package.Licenses)
	}
	return model.Catalog{Packages: b.held, Stamp: Stamp()}
}

func compareLocations(a, b model.Location) int {
	return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Layer, b.Layer))
}

func cpeStrings(p *pkg.Package) []string {
	var out []string
	for _, c := range p.CPEs {
		out = append(out, c.Attributes.String())
	}
	return out
}
