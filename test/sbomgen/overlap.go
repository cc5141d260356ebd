package sbomgen

import (
	"fmt"
	"strings"

	"github.com/anchore/syft/syft/cpe"
	syftpkg "github.com/anchore/syft/syft/pkg"
)

// double repeats some packages: elsewhere in the image, or under the same name with other metadata.
func (d *draw) double() {
	for range d.IntN(6) {
		p := pick(d, d.document.Packages)
		if d.chance(50) {
			p = d.namesake(p)
		}
		d.add(p)
	}
	for range d.IntN(3) {
		if len(d.pool.Pairs) == 0 {
			return
		}
		pair := pick(d, d.pool.Pairs)
		version := d.version(pair[0].Versions)
		for _, a := range pair {
			d.add(NewPackage(syftpkg.Type(a.Ecosystem), a.Name, version))
		}
	}
}

// namesake has the type, name and version of a package, and differs in what Grype reads besides.
func (d *draw) namesake(p syftpkg.Package) syftpkg.Package {
	switch m := p.Metadata.(type) {
	case syftpkg.DpkgDBEntry:
		m.Source = pick(d, []string{"", "linux", p.Name + "-src"})
		p.Metadata = m
	case syftpkg.RpmDBEntry:
		m.Epoch, m.Arch = new(d.IntN(2)), "aarch64"
		p.Metadata = m
	case syftpkg.ApkDBEntry:
		m.OriginPackage = pick(d, []string{"", "busybox"})
		p.Metadata = m
	case syftpkg.JavaArchive:
		m.PomProperties = &syftpkg.JavaPomProperties{GroupID: "org.other", ArtifactID: p.Name}
		p.Metadata = m
	case syftpkg.GolangBinaryBuildinfoEntry:
		m.MainModule = p.Name
		p.Metadata = m
	default:
		if c, ok := NewCPE("a", "other", p.Name, p.Version, ""); ok {
			p.CPEs = append([]cpe.CPE{c}, p.CPEs...)
		}
	}
	return p
}

// own lets packages own files of others: mostly distribution packages those of languages and binaries, with versions that
// agree or not, but also each other, in a circle, and two the same.
func (d *draw) own() {
	owners, others := d.split()
	if len(owners) == 0 || len(others) == 0 {
		return
	}
	for range d.IntN(8) {
		owner, owned := pick(d, owners), pick(d, others)
		d.join(owner, owned)
		if d.chance(15) {
			d.join(pick(d, owners), owned)
		}
		if d.chance(10) {
			d.join(pick(d, owners), pick(d, owners))
		}
		if d.chance(5) {
			d.join(owned, owner)
		}
	}
	d.twin(pick(d, owners))
}

// kin adds packages of the distribution with those that are made of the same files: once owned, and now and then beside it.
func (d *draw) kin(s System) {
	for range d.IntN(4) {
		if len(s.Kin) == 0 {
			return
		}
		k := pick(d, s.Kin)
		d.add(d.ofSystem(k.Owner))
		owner := len(d.document.Packages) - 1
		for i := range 1 + d.IntN(2) {
			if k.Owned.Name != "" {
				d.add(d.ofEcosystem(k.Owned))
			} else {
				d.add(d.product(k.Product))
			}
			if i == 0 {
				d.join(owner, len(d.document.Packages)-1)
			}
		}
	}
}

// join never makes a package its own owner, which Syft does not do either.
func (d *draw) join(owner, owned int) {
	if d.document.Packages[owner].ID() != d.document.Packages[owned].ID() {
		d.document.Owners = append(d.document.Owners, [2]int{owner, owned})
	}
}

// split separates the packages of the distribution from the others, by index.
func (d *draw) split() (system, others []int) {
	for i, p := range d.document.Packages {
		switch p.Type {
		case syftpkg.DebPkg, syftpkg.RpmPkg, syftpkg.ApkPkg, syftpkg.AlpmPkg, syftpkg.PortagePkg:
			system = append(system, i)
		default:
			others = append(others, i)
		}
	}
	return system, others
}

// twin adds what a distribution's package is made of, as the cataloger of its language or of binaries sees it, once owned
// by the package and once beside it.
func (d *draw) twin(owner int) {
	p := d.document.Packages[owner]
	version, _, _ := strings.Cut(p.Version, "-")
	if d.chance(30) {
		version = d.version([]string{version})
	}
	kind := syftpkg.BinaryPkg
	if d.chance(50) && len(d.pool.Ecosystems) > 0 {
		kind = syftpkg.Type(pick(d, d.pool.Ecosystems).Name)
	}
	for i := range 1 + d.IntN(2) {
		twin := At(NewPackage(kind, p.Name, version), fmt.Sprintf("/twins/%d/%s", i, p.Name))
		d.document.Packages = append(d.document.Packages, twin)
		if i == 0 {
			d.join(owner, len(d.document.Packages)-1)
		}
	}
}
