package sbomgen

import (
	"fmt"
	"math/rand/v2"

	"github.com/anchore/syft/syft/linux"
	syftpkg "github.com/anchore/syft/syft/pkg"
)

// The make-up of a fleet, in packages.
const (
	// baseSize is what a base image has of the distribution's packages; baseChange of them change in the next release of it.
	baseSize, baseChange = 90, 12
	// appSize is what an application brings along, out of appPool packages per operating system.
	appSize, appPool = 80, 2_500
	// ownSize is what one image alone has.
	ownSize = 3
	// imagesPerBase is how many images share a release of a base image, and maxSystems how many systems are in use.
	imagesPerBase, maxSystems = 25, 6
)

// Fleet is the images of a cluster: a few operating systems, releases of base images that differ in some packages, and on top
// applications that draw, some packages far more often than others, from what there is for languages. Measured with a
// database of 5,000 names, an image has about 170 packages, and there are 58 distinct ones per image of 100 images and 18 per
// image of 1,000, where a package on another operating system counts as another package.
type Fleet struct {
	generator *Generator
	images    int
	systems   []fleetSystem
}

type fleetSystem struct {
	release *linux.Release
	// bases are the releases of the base image; apps is what applications draw from.
	bases [][]syftpkg.Package
	apps  []syftpkg.Package
}

// Fleet prepares n images; memory is bounded by the packages that they share, and not by n.
func (g *Generator) Fleet(n int) *Fleet {
	f := &Fleet{generator: g, images: n}
	count := max(1, min(maxSystems, len(g.pool.Systems), n/imagesPerBase+1))
	bases := max(1, n/imagesPerBase/count)
	for i := range count {
		f.systems = append(f.systems, g.fleetSystem(i, bases))
	}
	return f
}

// Len is the number of images.
func (f *Fleet) Len() int { return f.images }

// SBOM is the image of an index from 0 to Len-1, as Syft's JSON.
func (f *Fleet) SBOM(index int) ([]byte, error) {
	if index < 0 || index >= f.images {
		return nil, fmt.Errorf("the fleet has images 0 to %d, not %d", f.images-1, index)
	}
	return f.document(index).Encode()
}

func (f *Fleet) document(index int) Document {
	d := f.generator.draw(1, index)
	s := f.systems[d.IntN(len(f.systems))]
	out := Document{Name: fmt.Sprintf("fleet-%d-%d", f.generator.seed, index), Release: s.release}
	out.Packages = append(out.Packages, s.bases[d.IntN(len(s.bases))]...)
	for range min(appSize, len(s.apps)) {
		// The square of an even draw: a tenth of the packages makes a third of all that are installed.
		even := d.Float64()
		out.Packages = append(out.Packages, s.apps[int(even*even*float64(len(s.apps)))])
	}
	for i := range ownSize {
		p := d.application()
		p.Version = fmt.Sprintf("%s-%d.%d", p.Version, index, i)
		out.Packages = append(out.Packages, At(p, fmt.Sprintf("/app/own/%d", i)))
	}
	for i := range out.Packages {
		out.Packages[i] = d.linked(out.Packages[i])
	}
	return out
}

// linkedSymbols is how many symbols the linker takes over from a Go module, of which there are twice as many.
const linkedSymbols = 60

// linked gives a module in a Go binary a symbol table: another application calls other parts of the same module.
func (d *draw) linked(p syftpkg.Package) syftpkg.Package {
	m, ok := p.Metadata.(syftpkg.GolangBinaryBuildinfoEntry)
	if !ok {
		return p
	}
	m.Symbols = map[string][]string{p.Name: {"init"}, p.Name + "/parse": {"init"}}
	for range linkedSymbols {
		path := p.Name
		if d.chance(50) {
			path += "/parse"
		}
		m.Symbols[path] = append(m.Symbols[path], fmt.Sprintf("(*Client).Function%d", d.IntN(2*linkedSymbols)))
	}
	if d.chance(50) {
		m.Symbols[p.Name+"/parse"] = append(m.Symbols[p.Name+"/parse"], "Parse")
	}
	p.Metadata = m
	p.SetID()
	return p
}

// draw starts a draw of its own for a purpose and an index.
func (g *Generator) draw(purpose, index int) *draw {
	return &draw{Rand: rand.New(rand.NewPCG(g.seed, uint64(purpose)<<32|uint64(index))), pool: g.pool}
}

func (g *Generator) fleetSystem(index, bases int) fleetSystem {
	d := g.draw(2, index)
	var s System
	if n := len(g.pool.Systems); n > 0 {
		s = g.pool.Systems[index*n/min(maxSystems, n)%n]
	}
	out := fleetSystem{}
	if s.OS.Name != "" {
		out.release = ReleaseOf(s.OS)
	}
	base := make([]syftpkg.Package, 0, baseSize)
	for len(base) < baseSize && len(s.Packages) > 0 {
		base = append(base, At(d.ofSystem(pick(d, s.Packages)), "/var/lib/packages"))
	}
	for range bases {
		out.bases = append(out.bases, base)
		next := append([]syftpkg.Package(nil), base...)
		for range min(baseChange, len(next)) {
			next[d.IntN(len(next))] = At(d.ofSystem(pick(d, s.Packages)), "/var/lib/packages")
		}
		base = next
	}
	for i := range appPool {
		out.apps = append(out.apps, At(d.application(), fmt.Sprintf("/app/lib/%d", i)))
	}
	return out
}

// application makes a package of a language; where the database knows none, something without a name that it knows.
func (d *draw) application() syftpkg.Package {
	if len(d.pool.Ecosystems) == 0 {
		return NewPackage(syftpkg.NpmPkg, fmt.Sprintf("library-%d", d.IntN(5_000)), fmt.Sprintf("1.%d.0", d.IntN(50)))
	}
	return d.ofEcosystem(pick(d, pick(d, d.pool.Ecosystems).Packages))
}
