package sbomgen

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"strings"

	v6 "github.com/anchore/grype/grype/db/v6"
	"github.com/anchore/syft/syft/cpe"
	"github.com/anchore/syft/syft/linux"
	syftpkg "github.com/anchore/syft/syft/pkg"
)

// The sizes of random images, in packages drawn; duplicates and namesakes come on top.
const (
	minPackages = 5
	maxPackages = 60
)

// Generator makes SBOMs. Equal pools, seeds and indexes give equal SBOMs; it keeps no state and may be shared.
type Generator struct {
	pool *Pool
	seed uint64
}

// New returns a generator.
func New(pool *Pool, seed uint64) *Generator { return &Generator{pool: pool, seed: seed} }

// SBOM is the random image of an index, as Syft's JSON.
func (g *Generator) SBOM(index int) ([]byte, error) { return g.Document(index).Encode() }

// Document is the random image of an index: few packages, many of them affected, and every special case more often than in real images.
func (g *Generator) Document(index int) Document {
	d := g.draw(0, index)
	d.document.Name = fmt.Sprintf("random-%d-%d", g.seed, index)
	system := d.system()
	d.document.Release = d.release(system)
	// Most images are small, so that there are many; the largest show what only size shows.
	even := d.Float64()
	for n := minPackages + int(even*even*even*even*(maxPackages-minPackages+1)); n > 0; n-- {
		d.add(d.one(system))
	}
	d.kin(system)
	d.double()
	d.own()
	return d.document
}

// draw is one image in the making.
type draw struct {
	*rand.Rand
	pool     *Pool
	document Document
}

// chance is true in percent of all cases.
func (d *draw) chance(percent int) bool { return d.IntN(100) < percent }

func pick[T any](d *draw, from []T) T {
	var zero T
	if len(from) == 0 {
		return zero
	}
	return from[d.IntN(len(from))]
}

func (d *draw) add(p syftpkg.Package) {
	d.document.Packages = append(d.document.Packages, At(p, d.path()))
}

// path is one of not too many, so that packages meet in files.
func (d *draw) path() string {
	return fmt.Sprintf("/%s/%d", pick(d, []string{"usr/lib", "opt/app", "usr/bin", "var/lib"}), d.IntN(400))
}

func (d *draw) system() System { return pick(d, d.pool.Systems) }

// oddReleases are what images say of themselves when nobody checked.
var oddReleases = []linux.Release{
	{ID: "myown", VersionID: "1"}, {ID: "myown", VersionID: "12", IDLike: []string{"debian"}},
	{ID: "other", VersionID: "3.19", IDLike: []string{"nothing", "alpine"}}, {Name: "Nameless", VersionID: "4"}, {ID: "debian"},
	{ID: "debian", VersionID: "trixie/sid"}, {ID: "debian", VersionCodename: "sid"}, {ID: "ubuntu", VersionID: "22.04"},
	{ID: "alpine", VersionID: "3.20_alpha20240329"}, {ID: "alpine", VersionID: "edge"}, {ID: "centos", VersionID: "8"},
	{ID: "rhel", VersionID: "9.4", ExtendedSupport: true}, {ID: "rhel", VersionID: "8"}, {ID: "almalinux", VersionID: "8.9"},
	{ID: "raspbian", VersionID: "11"}, {ID: "wolfi", VersionID: "20230201"}, {ID: "arch", BuildID: "rolling"},
	{ID: "scratch"}, {ID: "alpine", VersionID: "3.11.11.11"}, {ID: "debian", VersionID: "010"}, {ID: "postmarketos", VersionID: "23.06"},
	{ID: "linuxmint", VersionID: "21", IDLike: []string{"ubuntu", "debian"}}, {ID: "busybox", VersionID: "1.36"}, {ID: "windows", VersionID: "10.0"},
}

func (d *draw) release(s System) *linux.Release {
	switch {
	case s.OS.Name == "" || d.chance(8):
		return nil
	case d.chance(20):
		r := pick(d, oddReleases)
		return &r
	}
	r := ReleaseOf(s.OS)
	if r.VersionID != "" && d.chance(30) {
		r.VersionID += pick(d, []string{".1", ".0", ".7.2", " ", "-beta"})
	}
	if d.chance(10) {
		r.ExtendedSupport = true
	}
	return r
}

// ReleaseOf is what the /etc/os-release of an operating system says that a database knows.
func ReleaseOf(os v6.OperatingSystem) *linux.Release {
	r := &linux.Release{ID: cmp.Or(os.ReleaseID, os.Name), Name: os.Name, VersionCodename: os.Codename}
	r.VersionID = os.MajorVersion
	if os.MinorVersion != "" {
		r.VersionID += "." + os.MinorVersion
	}
	if r.VersionID == "" && os.LabelVersion != "rolling" {
		r.VersionID = os.LabelVersion
	}
	r.PrettyName = strings.TrimSpace(r.Name + " " + r.VersionID)
	r.ExtendedSupport = os.Channel != ""
	return r
}

// one package: of the operating system, of a language, or known by CPE only.
func (d *draw) one(s System) syftpkg.Package {
	switch n := d.IntN(100); {
	case n < 45 && len(s.Packages) > 0:
		return d.ofSystem(pick(d, s.Packages))
	case n < 50 && len(d.pool.Systems) > 0: // from another system: an upgrade that was never finished
		return d.ofSystem(pick(d, d.system().Packages))
	case n < 85 && len(d.pool.Ecosystems) > 0:
		return d.ofEcosystem(pick(d, pick(d, d.pool.Ecosystems).Packages))
	case n < 97 && len(d.pool.Products) > 0:
		return d.product(pick(d, d.pool.Products))
	default:
		return NewPackage(pick(d, syftpkg.AllPkgs), pick(d, oddNames), d.version(nil))
	}
}

var oddNames = []string{"a", "Ünïcode", "with space", "../../etc/passwd", "UPPER_case.name", "stdlib", "linux", "kernel-headers", "%", "@scope/name"}

// ofSystem makes a package of the distribution: the named one, or one that is built from it.
func (d *draw) ofSystem(a Affected) syftpkg.Package {
	kind := syftpkg.Type(a.Ecosystem)
	version := d.version(a.Versions)
	name, source := a.Name, ""
	if d.chance(40) {
		name, source = pick(d, []string{"lib", "python3-", "", "linux-"})+a.Name+pick(d, []string{"", "-dev", "1", "-headers-6"}), a.Name
	}
	p := NewPackage(kind, name, version)
	if d.chance(4) {
		p.Metadata = nil
		return p
	}
	switch m := p.Metadata.(type) {
	case syftpkg.DpkgDBEntry:
		m.Source = source
		if source != "" && d.chance(30) {
			m.SourceVersion = d.version(a.Versions)
		}
		p.Metadata = m
	case syftpkg.RpmDBEntry:
		p.Metadata = d.rpm(m, a, source)
	case syftpkg.ApkDBEntry:
		m.OriginPackage = cmp.Or(source, name)
		m.Architecture = pick(d, []string{"x86_64", "aarch64", ""})
		p.Metadata = m
	}
	if d.chance(20) {
		p.CPEs = nil
	}
	return p
}

func (d *draw) rpm(m syftpkg.RpmDBEntry, a Affected, source string) syftpkg.RpmDBEntry {
	if source != "" {
		m.SourceRpm = fmt.Sprintf("%s-%s-1.src.rpm", source, d.version(a.Versions))
	}
	if d.chance(40) {
		m.Epoch = new(d.IntN(3))
	}
	switch d.IntN(3) {
	case 0:
		m.ModularityLabel = new("")
	case 1:
		if len(a.Modules) > 0 {
			m.ModularityLabel = new(pick(d, a.Modules) + ":8020:1234")
		}
	}
	m.Arch = pick(d, []string{"x86_64", "noarch", "src", "aarch64", ""})
	return m
}

func (d *draw) ofEcosystem(a Affected) syftpkg.Package {
	kind := syftpkg.Type(a.Ecosystem)
	if d.chance(2) {
		kind = pick(d, syftpkg.AllPkgs)
	}
	p := NewPackage(kind, a.Name, d.version(a.Versions))
	switch m := p.Metadata.(type) {
	case syftpkg.GolangBinaryBuildinfoEntry:
		p.Metadata = d.golang(m, a)
	case syftpkg.JavaArchive:
		d.java(&p, m, a.Name)
	}
	if d.chance(30) {
		p.CPEs = nil
	}
	if d.chance(3) {
		p.Language = ""
	}
	if d.chance(3) {
		p.PURL = pick(d, []string{"", "pkg:", "pkg:maven/a/b@1", "no purl"})
	}
	return p
}

func (d *draw) golang(m syftpkg.GolangBinaryBuildinfoEntry, a Affected) any {
	switch d.IntN(6) {
	case 0:
		return syftpkg.GolangModuleEntry{H1Digest: "h1:x"}
	case 1:
		m.MainModule = a.Name
	case 2:
		m.Symbols = map[string][]string{}
		for _, path := range sortedKeys(a.Imports) {
			symbols := a.Imports[path]
			if d.chance(70) {
				m.Symbols[path] = append([]string{"init"}, symbols[:d.IntN(len(symbols)+1)]...)
			}
		}
		if len(m.Symbols) == 0 {
			m.Symbols["example.com/app/main"] = []string{"main"}
		}
	}
	return m
}

func (d *draw) java(p *syftpkg.Package, m syftpkg.JavaArchive, name string) {
	switch d.IntN(6) {
	case 0:
		p.Metadata = nil
		return
	case 1:
		m.PomProperties = nil
	case 2:
		m.PomProperties = nil
		p.PURL = ""
		m.Manifest = &syftpkg.JavaManifest{Main: syftpkg.KeyValues{{Key: "Name", Value: strings.ReplaceAll(name, ":", "/")}}}
	case 3:
		m.Manifest = &syftpkg.JavaManifest{Main: syftpkg.KeyValues{{Key: "Name", Value: name}}}
	}
	p.Metadata = m
}

// product makes a binary, or a Java virtual machine, that has nothing but a CPE.
func (d *draw) product(product Product) syftpkg.Package {
	version := d.version(product.Versions)
	p := NewPackage(syftpkg.BinaryPkg, product.Product, version)
	p.CPEs = nil
	for _, target := range []string{product.TargetSoftware, pick(d, []string{"", "linux", "node.js", "windows"})} {
		if c, ok := NewCPE(product.Part, product.Vendor, product.Product, version, target); ok && !hasCPE(p.CPEs, c) {
			p.CPEs = append(p.CPEs, c)
		}
	}
	if d.chance(15) {
		p.Metadata = syftpkg.JavaVMInstallation{Release: syftpkg.JavaVMRelease{
			JavaVersion: version, FullVersion: version, JavaRuntimeVersion: version, SemanticVersion: version,
		}}
	}
	return p
}

func hasCPE(list []cpe.CPE, c cpe.CPE) bool {
	for _, have := range list {
		if have.Attributes == c.Attributes {
			return true
		}
	}
	return false
}
