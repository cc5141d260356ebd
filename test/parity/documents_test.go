package parity_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/anchore/syft/syft/cpe"
	"github.com/anchore/syft/syft/linux"
	syftpkg "github.com/anchore/syft/syft/pkg"

	"github.com/scanner-operator/scanner-operator/internal/vulndb"
	"github.com/scanner-operator/scanner-operator/test/sbomgen"
)

// perDocument bounds the packages of an SBOM that is made of a database.
const perDocument = 60

func encode(t *testing.T, d sbomgen.Document) []byte {
	t.Helper()
	sbom, err := d.Encode()
	if err != nil {
		t.Fatalf("%s: %v", d.Name, err)
	}
	return sbom
}

// databaseSBOMs holds an SBOM for every operating system and every ecosystem that a database knows, with versions at which
// its constraints begin and end.
func databaseSBOMs(t *testing.T, name string, installed vulndb.Installed) map[string][]byte {
	t.Helper()
	pool, err := sbomgen.ReadPool(t.Context(), installed.SQLiteDir())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, s := range pool.Systems {
		d := sbomgen.Document{Name: fmt.Sprintf("%s %s %s", name, s.OS.Name, s.OS.Version()), Release: sbomgen.ReleaseOf(s.OS)}
		for _, a := range s.Packages {
			addBoundaries(&d, a, len(s.Packages))
		}
		out[d.Name] = encode(t, d)
	}
	for _, e := range pool.Ecosystems {
		d := sbomgen.Document{Name: name + " " + e.Name}
		for _, a := range e.Packages {
			addBoundaries(&d, a, len(e.Packages))
		}
		out[d.Name] = encode(t, d)
	}
	products := sbomgen.Document{Name: name + " products"}
	for i, p := range pool.Products {
		if i%(len(pool.Products)/perDocument+1) != 0 {
			continue
		}
		for _, version := range p.Versions[:min(2, len(p.Versions))] {
			if c, ok := sbomgen.NewCPE(p.Part, p.Vendor, p.Product, version, p.TargetSoftware); ok {
				b := sbomgen.NewPackage(syftpkg.BinaryPkg, p.Product, version)
				b.CPEs = []cpe.CPE{c}
				products.Packages = append(products.Packages, sbomgen.At(b, "/opt/"+p.Vendor+version))
			}
		}
	}
	out[products.Name] = encode(t, products)
	return out
}

// addBoundaries adds a package in several versions, unless there are too many packages to add all.
func addBoundaries(d *sbomgen.Document, a sbomgen.Affected, of int) {
	if len(d.Packages) >= perDocument || len(a.Name)%(of/(perDocument/2)+1) != 0 {
		return
	}
	for i, version := range a.Versions {
		p := sbomgen.NewPackage(syftpkg.Type(a.Ecosystem), a.Name, version)
		switch m := p.Metadata.(type) {
		case syftpkg.DpkgDBEntry:
			if i%2 == 1 {
				p.Name, m.Package, m.Source = "lib"+a.Name, "lib"+a.Name, a.Name
			}
			p.Metadata = m
		case syftpkg.ApkDBEntry:
			if i%2 == 1 {
				p.Name, m.Package, m.OriginPackage = a.Name+"-libs", a.Name+"-libs", a.Name
			}
			p.Metadata = m
		case syftpkg.RpmDBEntry:
			if i%2 == 1 {
				p.Name, m.SourceRpm = a.Name+"-libs", a.Name+"-"+strings.TrimPrefix(version, "1:")+".src.rpm"
			}
			if len(a.Modules) > 0 && i%3 == 0 {
				m.ModularityLabel = new(a.Modules[0] + ":20240101:x")
			}
			p.Metadata = m
		}
		d.Packages = append(d.Packages, sbomgen.At(p, fmt.Sprintf("/files/%d/%s", i, a.Name)))
		if i == 4 {
			return
		}
	}
}

// documents are the cases that Grype treats apart. Their packages are in the invented database, and some in the others.
func documents() map[string]sbomgen.Document {
	all := []sbomgen.Document{
		everyKind(), modules(), extendedSupport(), extendedSupportESM(), kernels(), javas(), virtualMachines(), goes(),
		twoOwners(), ownerOfOwner(), circle(), twoPlaces(), namesakes(), unaffected(), naks(), comprehensive(), notComprehensive(),
		derived("derived from debian", "debian"), derived("derived from nothing", "beos", "alpine"), oddVersions(), upstreamVersions(),
		odd("edge", linux.Release{ID: "alpine", VersionID: "3.20_alpha20240329"}, syftpkg.ApkPkg, "1.2.3-r3"),
		odd("postmarketos", linux.Release{ID: "postmarketos", VersionID: "23.06"}, syftpkg.ApkPkg, "1.0-r0"),
		odd("debian sid", linux.Release{ID: "debian", PrettyName: "Debian GNU/Linux trixie/sid", VersionCodename: "sid"}, syftpkg.DebPkg, "1.0-1"),
		odd("centos is red hat", linux.Release{ID: "centos", VersionID: "8"}, syftpkg.RpmPkg, "1.0-1.el8"),
		odd("rocky has its own", linux.Release{ID: "rocky", VersionID: "9.3"}, syftpkg.RpmPkg, "1.0-1.el9"),
		odd("alma has its own", linux.Release{ID: "almalinux", VersionID: "9.3"}, syftpkg.RpmPkg, "1.0-1.el9"),
		odd("raspbian is debian", linux.Release{ID: "raspbian", VersionID: "11"}, syftpkg.DebPkg, "1.0-1"),
		odd("unknown release", linux.Release{ID: "debian", VersionID: "99"}, syftpkg.DebPkg, "1.0-1"),
		odd("no release", linux.Release{ID: "redhat"}, syftpkg.RpmPkg, "1.0-1"),
		odd("windows", linux.Release{ID: "windows", VersionID: "10.0.20348"}, syftpkg.KbPkg, "1000"),
		odd("wrong packages", linux.Release{ID: "debian", VersionID: "12"}, syftpkg.RpmPkg, "1.0-1"),
	}
	out := map[string]sbomgen.Document{}
	for _, d := range all {
		out[d.Name] = d
	}
	return out
}

func add(d *sbomgen.Document, p syftpkg.Package, paths ...string) int {
	if len(paths) == 0 {
		paths = []string{"/" + p.Name}
	}
	d.Packages = append(d.Packages, sbomgen.At(p, paths...))
	return len(d.Packages) - 1
}

func own(d *sbomgen.Document, owner, owned int) { d.Owners = append(d.Owners, [2]int{owner, owned}) }

func everyKind() sbomgen.Document {
	d := sbomgen.Document{Name: "every type of package that Syft knows", Release: &linux.Release{ID: "debian", VersionID: "12", VersionCodename: "bookworm"}}
	for _, kind := range syftpkg.AllPkgs {
		for _, version := range []string{"1.0.0", "1.1", "2.0", "3.4.5", "9"} {
			for _, name := range []string{"omega", "alpha"} {
				add(&d, sbomgen.NewPackage(kind, name, version), "/"+string(kind)+"/"+version+"/"+name)
			}
		}
	}
	return d
}

func modified[M any](p syftpkg.Package, change func(*M)) syftpkg.Package {
	m, _ := p.Metadata.(M)
	change(&m)
	p.Metadata = m
	return p
}

func modules() sbomgen.Document {
	d := sbomgen.Document{Name: "red hat modules, epochs and architectures", Release: &linux.Release{ID: "rhel", VersionID: "8.9"}}
	for _, name := range inventedNames {
		for i, module := range []*string{nil, new(""), new("nodejs:18:8090020240101:abc"), new("nodejs:20:8090020240101:abc"), new("nodejs")} {
			for j, epoch := range []*int{nil, new(0), new(1)} {
				p := modified(sbomgen.NewPackage(syftpkg.RpmPkg, name, "1.1-2.el8"), func(m *syftpkg.RpmDBEntry) {
					m.ModularityLabel, m.Epoch, m.Arch = module, epoch, []string{"x86_64", "src", "noarch"}[(i+j)%3]
				})
				add(&d, p, fmt.Sprintf("/rpm/%s/%d/%d", name, i, j))
			}
		}
	}
	return d
}

func systemOf(name string, release linux.Release, kind syftpkg.Type, versions ...string) sbomgen.Document {
	d := sbomgen.Document{Name: name, Release: &release}
	for _, n := range inventedNames {
		for _, version := range versions {
			add(&d, sbomgen.NewPackage(kind, n, version), "/"+n+version)
		}
	}
	return d
}

func odd(name string, release linux.Release, kind syftpkg.Type, version string) sbomgen.Document {
	d := systemOf(name, release, kind, version)
	add(&d, sbomgen.NewPackage(syftpkg.NpmPkg, "alpha", "1.1.0"))
	return d
}

func extendedSupport() sbomgen.Document {
	return systemOf("red hat extended update support", linux.Release{ID: "rhel", VersionID: "9.4", ExtendedSupport: true}, syftpkg.RpmPkg, "1.0-1.el9", "1.2-3.el8_4")
}

func extendedSupportESM() sbomgen.Document {
	return systemOf("ubuntu extended security maintenance", linux.Release{ID: "ubuntu", VersionID: "18.04", VersionCodename: "bionic", ExtendedSupport: true},
		syftpkg.DebPkg, "1.0-1", "1.2-3", "1.2-3+esm1")
}

func kernels() sbomgen.Document {
	d := sbomgen.Document{Name: "kernels and their headers", Release: &linux.Release{ID: "debian", VersionID: "11"}}
	for _, name := range []string{"linux-libc-dev", "linux-headers-amd64", "linux-kbuild-5.10", "linux-image-amd64", "linux"} {
		add(&d, modified(sbomgen.NewPackage(syftpkg.DebPkg, name, "1.0-1"), func(m *syftpkg.DpkgDBEntry) { m.Source = "linux" }))
	}
	add(&d, modified(sbomgen.NewPackage(syftpkg.RpmPkg, "kernel-headers", "1.0-1"), func(m *syftpkg.RpmDBEntry) { m.SourceRpm = "kernel-1.0-1.src.rpm" }))
	add(&d, sbomgen.NewPackage(syftpkg.LinuxKernelPkg, "linux", "1.2.3"))
	return d
}

func javas() sbomgen.Document {
	d := sbomgen.Document{Name: "java with and without what its archives say"}
	for i, name := range []string{"org.example:alpha", "org.example:delta", "org.example:omega", "org.other:omega"} {
		for j, kind := range []syftpkg.Type{syftpkg.JavaPkg, syftpkg.JenkinsPluginPkg} {
			whole := sbomgen.NewPackage(kind, name, "1.2.2")
			at := func(what string) string { return fmt.Sprintf("/%s/%d/%d.jar", what, i, j) }
			add(&d, whole, at("whole"))
			bare := whole
			bare.Metadata = nil
			add(&d, bare, at("bare"))
			add(&d, modified(whole, func(m *syftpkg.JavaArchive) { m.PomProperties = nil }), at("url"))
			manifest := modified(whole, func(m *syftpkg.JavaArchive) {
				m.PomProperties = nil
				m.Manifest = &syftpkg.JavaManifest{Main: syftpkg.KeyValues{{Key: "Name", Value: strings.Replace(name, ":", ".", 1)}}}
			})
			manifest.PURL = ""
			add(&d, manifest, at("manifest"))
			wrong := whole
			wrong.PURL = "pkg:maven/org.example/alpha@1.2.2"
			add(&d, wrong, at("wrong"))
		}
	}
	return d
}

func virtualMachines() sbomgen.Document {
	d := sbomgen.Document{Name: "java virtual machines", Release: &linux.Release{ID: "debian", VersionID: "12"}}
	for i, version := range []string{"1.8.0_292-b10", "11.0.11+9", "17.0.1+12-LTS", "1.2.3"} {
		for _, product := range []string{"java-sdk", "openjdk", "jdk", "jre"} {
			p := sbomgen.NewPackage(syftpkg.BinaryPkg, product, version)
			p.Metadata = syftpkg.JavaVMInstallation{Release: syftpkg.JavaVMRelease{
				JavaRuntimeVersion: version, JavaVersion: cmp.Or(map[bool]string{true: version}[i%2 == 0], "1.2.3"), FullVersion: version,
			}}
			if c, ok := sbomgen.NewCPE("a", "oracle", product, version, ""); ok {
				p.CPEs = append(p.CPEs, c)
			}
			add(&d, p, fmt.Sprintf("/opt/%s/%d/release", product, i))
		}
	}
	return d
}

func goes() sbomgen.Document {
	d := sbomgen.Document{Name: "go with and without symbols"}
	for _, name := range []string{"example.com/alpha", "example.com/delta", "example.com/omega", "stdlib"} {
		for i, version := range []string{"v1.1.0", "v2.0.0-rc.1", "v0.0.0-20240101000000-abcdefabcdef", "(devel)", "", "v1.1.0+incompatible", "go1.1.0"} {
			at := func(what string) string { return fmt.Sprintf("/%s/%s/%d", what, name, i) }
			p := sbomgen.NewPackage(syftpkg.GoModulePkg, name, version)
			add(&d, p, at("plain"))
			symbols := func(s map[string][]string) syftpkg.Package {
				return modified(p, func(m *syftpkg.GolangBinaryBuildinfoEntry) { m.Symbols = s })
			}
			add(&d, symbols(map[string][]string{name + "/parse": {"Parse"}}), at("reached"))
			add(&d, symbols(map[string][]string{name + "/parse": {"Other", "init"}, name + "/x": {"X"}}), at("not-reached"))
			add(&d, symbols(map[string][]string{name + "/all": {"Anything"}}), at("all"))
			add(&d, modified(p, func(m *syftpkg.GolangBinaryBuildinfoEntry) { m.MainModule = name }), at("main"))
			p.Metadata = syftpkg.GolangModuleEntry{H1Digest: "h1:x"}
			add(&d, p, at("mod"))
			p.Metadata = syftpkg.GolangSourceEntry{H1Digest: "h1:x"}
			add(&d, p, at("source"))
		}
	}
	return d
}

var alpine318 = linux.Release{ID: "alpine", VersionID: "3.18.4"}

// owners adds a package of the distribution in several versions, and libraries that they own.
func owned(name string, release linux.Release, kind syftpkg.Type, version string, owned ...syftpkg.Type) sbomgen.Document {
	d := sbomgen.Document{Name: name, Release: &release}
	for _, n := range []string{"alpha", "delta", "gamma_ray", "omega"} {
		owner := add(&d, sbomgen.NewPackage(kind, n, version))
		for _, other := range owned {
			for _, same := range []string{"1.2.2", strings.FieldsFunc(version, func(r rune) bool { return r == '-' || r == ':' })[0]} {
				p := sbomgen.NewPackage(other, n, same)
				own(&d, owner, add(&d, p, "/owned/"+string(other)+same))
				add(&d, p, "/beside/"+string(other)+same)
			}
		}
	}
	return d
}

func naks() sbomgen.Document {
	return owned("alpine owns, and knows better", alpine318, syftpkg.ApkPkg, "3.4.5-r6", syftpkg.PythonPkg, syftpkg.BinaryPkg, syftpkg.NpmPkg)
}

func comprehensive() sbomgen.Document {
	return owned("debian owns", linux.Release{ID: "debian", VersionID: "12"}, syftpkg.DebPkg, "3.4.5-6", syftpkg.PythonPkg, syftpkg.BinaryPkg, syftpkg.GemPkg)
}

func notComprehensive() sbomgen.Document {
	return owned("amazon owns", linux.Release{ID: "amzn", VersionID: "2023"}, syftpkg.RpmPkg, "3.4.5-6.el9", syftpkg.PythonPkg, syftpkg.BinaryPkg, syftpkg.JavaPkg)
}

func twoOwners() sbomgen.Document {
	d := sbomgen.Document{Name: "owned by two", Release: &alpine318}
	for _, n := range []string{"alpha", "delta", "omega"} {
		vulnerable := add(&d, sbomgen.NewPackage(syftpkg.ApkPkg, n, "1.0-r0"))
		fixed := add(&d, sbomgen.NewPackage(syftpkg.ApkPkg, n, "3.4.5-r9"))
		both := add(&d, sbomgen.NewPackage(syftpkg.PythonPkg, n, "1.2.2"), "/both")
		own(&d, vulnerable, both)
		own(&d, fixed, both)
		own(&d, vulnerable, add(&d, sbomgen.NewPackage(syftpkg.PythonPkg, n, "1.2.2"), "/vulnerable"))
		own(&d, fixed, add(&d, sbomgen.NewPackage(syftpkg.PythonPkg, n, "1.2.2"), "/fixed"))
	}
	return d
}

func ownerOfOwner() sbomgen.Document {
	d := sbomgen.Document{Name: "owner of an owner", Release: &alpine318}
	top := add(&d, sbomgen.NewPackage(syftpkg.ApkPkg, "alpha", "3.4.5-r9"))
	middle := add(&d, sbomgen.NewPackage(syftpkg.ApkPkg, "delta", "3.4.5-r9"))
	low := add(&d, sbomgen.NewPackage(syftpkg.NpmPkg, "alpha", "1.1.0"))
	own(&d, top, middle)
	own(&d, middle, low)
	own(&d, low, add(&d, sbomgen.NewPackage(syftpkg.GemPkg, "alpha", "1.1.0")))
	return d
}

func circle() sbomgen.Document {
	d := sbomgen.Document{Name: "owners in a circle", Release: &linux.Release{ID: "debian", VersionID: "12"}}
	a := add(&d, sbomgen.NewPackage(syftpkg.DebPkg, "alpha", "1.0-1"))
	b := add(&d, sbomgen.NewPackage(syftpkg.DebPkg, "delta", "1.0-1"))
	c := add(&d, sbomgen.NewPackage(syftpkg.PythonPkg, "alpha", "1.0"))
	own(&d, a, b)
	own(&d, b, a)
	own(&d, b, c)
	own(&d, c, a)
	return d
}

func twoPlaces() sbomgen.Document {
	d := sbomgen.Document{Name: "in two places, one of them owned", Release: &alpine318}
	owner := add(&d, sbomgen.NewPackage(syftpkg.ApkPkg, "alpha", "3.4.5-r9"))
	own(&d, owner, add(&d, sbomgen.NewPackage(syftpkg.PythonPkg, "alpha", "1.1"), "/owned"))
	add(&d, sbomgen.NewPackage(syftpkg.PythonPkg, "alpha", "1.1"), "/free")
	add(&d, sbomgen.NewPackage(syftpkg.PythonPkg, "alpha", "1.1"), "/free/too", "/free/also")
	return d
}

func namesakes() sbomgen.Document {
	d := sbomgen.Document{Name: "namesakes", Release: &linux.Release{ID: "rhel", VersionID: "9"}}
	for i, group := range []string{"org.example:omega", "org.other:omega", "org.example:alpha"} {
		add(&d, sbomgen.NewPackage(syftpkg.JavaPkg, group, "1.2.2"), fmt.Sprintf("/jar/%d", i))
		add(&d, sbomgen.NewPackage(syftpkg.JavaPkg, group, "1.5.0"), fmt.Sprintf("/newer/%d", i))
	}
	for i := range 3 {
		add(&d, modified(sbomgen.NewPackage(syftpkg.RpmPkg, "alpha", "1.2-1.el9"), func(m *syftpkg.RpmDBEntry) { m.Epoch = new(i) }), fmt.Sprintf("/rpm/%d", i))
		p := sbomgen.NewPackage(syftpkg.NpmPkg, "delta", "1.5.0")
		p.CPEs = p.CPEs[:min(i, len(p.CPEs))]
		add(&d, p, fmt.Sprintf("/npm/%d", i))
	}
	return d
}

// unaffected packages silence their namesakes.
func unaffected() sbomgen.Document {
	d := sbomgen.Document{Name: "explicitly unaffected"}
	for _, kind := range []syftpkg.Type{syftpkg.NpmPkg, syftpkg.PythonPkg, syftpkg.GemPkg, syftpkg.JavaPkg, syftpkg.RustPkg, syftpkg.GoModulePkg, syftpkg.BinaryPkg, syftpkg.BitnamiPkg} {
		for _, name := range inventedNames {
			library := name
			if kind == syftpkg.GoModulePkg {
				library = "example.com/" + name
			}
			for _, version := range []string{"1.0", "1.2.3", "1.3.0", "1.9", "2.1.0"} {
				add(&d, sbomgen.NewPackage(kind, library, version), "/"+string(kind)+version+name)
			}
		}
	}
	for _, group := range []string{"org.example", "org.other"} {
		add(&d, sbomgen.NewPackage(syftpkg.JavaPkg, group+":alpha", "1.3.0"), "/"+group)
	}
	return d
}

func derived(name, id string, like ...string) sbomgen.Document {
	return systemOf(name, linux.Release{ID: "my" + id, IDLike: append([]string{id}, like...), VersionID: "12"}, syftpkg.DebPkg, "1.0-1")
}

func oddVersions() sbomgen.Document {
	d := sbomgen.Document{Name: "versions that nobody can compare", Release: &linux.Release{ID: "debian", VersionID: "12"}}
	for _, kind := range []syftpkg.Type{
		syftpkg.DebPkg, syftpkg.RpmPkg, syftpkg.ApkPkg, syftpkg.NpmPkg, syftpkg.PythonPkg, syftpkg.GemPkg, syftpkg.JavaPkg,
		syftpkg.RustPkg, syftpkg.BinaryPkg, syftpkg.PhpComposerPkg, syftpkg.DotnetPkg, syftpkg.GoModulePkg,
	} {
		for i, version := range []string{"", "unknown", "latest", "1..2", ":", "1:", "~", "-", "v", "１.２", "1.2.3.4.5.6.7.8", "99999999999999999999999", "1 2", "*", ">=1", "1.0\x00"} {
			add(&d, sbomgen.NewPackage(kind, "alpha", version), fmt.Sprintf("/%s/%d", kind, i))
		}
	}
	return d
}

func upstreamVersions() sbomgen.Document {
	d := sbomgen.Document{Name: "sources with versions of their own", Release: &linux.Release{ID: "debian", VersionID: "11", VersionCodename: "bullseye"}}
	for _, name := range slices.Concat(inventedNames, []string{"openssl", "zlib", "curl"}) {
		for i, version := range []string{"", "1.0-1", "1:2.0~rc1-2", "9-1"} {
			add(&d, modified(sbomgen.NewPackage(syftpkg.DebPkg, "lib"+name, "1.2-3"), func(m *syftpkg.DpkgDBEntry) {
				m.Source, m.SourceVersion = name, version
			}), fmt.Sprintf("/%s/%d", name, i))
		}
	}
	return d
}
