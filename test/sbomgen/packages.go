package sbomgen

import (
	"fmt"
	"strings"

	"github.com/anchore/packageurl-go"
	"github.com/anchore/syft/syft/cpe"
	"github.com/anchore/syft/syft/file"
	syftpkg "github.com/anchore/syft/syft/pkg"
)

// languages are those that Syft's catalogers give to the types that have one.
var languages = map[syftpkg.Type]syftpkg.Language{
	syftpkg.ConanPkg: syftpkg.CPP, syftpkg.DartPubPkg: syftpkg.Dart, syftpkg.DotnetPkg: syftpkg.Dotnet,
	syftpkg.ErlangOTPPkg: syftpkg.Erlang, syftpkg.GemPkg: syftpkg.Ruby, syftpkg.GoModulePkg: syftpkg.Go,
	syftpkg.HackagePkg: syftpkg.Haskell, syftpkg.HexPkg: syftpkg.Elixir, syftpkg.JavaPkg: syftpkg.Java,
	syftpkg.JenkinsPluginPkg: syftpkg.Java, syftpkg.LuaRocksPkg: syftpkg.Lua, syftpkg.NpmPkg: syftpkg.JavaScript,
	syftpkg.OpamPkg: syftpkg.OCaml, syftpkg.PhpComposerPkg: syftpkg.PHP, syftpkg.PhpPearPkg: syftpkg.PHP,
	syftpkg.PhpPeclPkg: syftpkg.PHP, syftpkg.PythonPkg: syftpkg.Python, syftpkg.Rpkg: syftpkg.R, syftpkg.RustPkg: syftpkg.Rust,
	syftpkg.SwiftPkg: syftpkg.Swift, syftpkg.CocoapodsPkg: syftpkg.Swift, syftpkg.SwiplPackPkg: syftpkg.Swipl,
	syftpkg.VcpkgPkg: syftpkg.CPP, syftpkg.GraalVMNativeImagePkg: syftpkg.Java, syftpkg.WordpressPluginPkg: syftpkg.PHP,
}

// metadata makes what Syft's catalogers find beside name and version, for the types whose metadata Grype reads and some others.
var metadata = map[syftpkg.Type]func(name, version string) any{
	syftpkg.ApkPkg: func(name, version string) any {
		return syftpkg.ApkDBEntry{Package: name, Version: version, Architecture: "x86_64"}
	},
	syftpkg.AlpmPkg: func(name, version string) any {
		return syftpkg.AlpmDBEntry{BasePackage: name, Package: name, Version: version, Architecture: "x86_64"}
	},
	syftpkg.BinaryPkg: func(string, string) any { return syftpkg.BinarySignature{} },
	syftpkg.DebPkg: func(name, version string) any {
		return syftpkg.DpkgDBEntry{Package: name, Version: version, Architecture: "amd64"}
	},
	syftpkg.GemPkg: func(name, version string) any { return syftpkg.RubyGemspec{Name: name, Version: version} },
	syftpkg.GoModulePkg: func(string, string) any {
		return syftpkg.GolangBinaryBuildinfoEntry{GoCompiledVersion: "go1.22.1", Architecture: "amd64", MainModule: "example.com/app"}
	},
	syftpkg.JavaPkg: func(name, version string) any {
		group, artifact := splitMaven(name)
		return syftpkg.JavaArchive{
			VirtualPath:   "/app/" + artifact + ".jar",
			PomProperties: &syftpkg.JavaPomProperties{GroupID: group, ArtifactID: artifact, Version: version},
		}
	},
	syftpkg.JenkinsPluginPkg: func(name, version string) any {
		group, artifact := splitMaven(name)
		return syftpkg.JavaArchive{
			VirtualPath:   "/plugins/" + artifact + ".hpi",
			PomProperties: &syftpkg.JavaPomProperties{GroupID: group, ArtifactID: artifact, Version: version},
		}
	},
	syftpkg.LinuxKernelPkg: func(_, version string) any {
		return syftpkg.LinuxKernel{Name: "Linux", Version: version, Architecture: "x86"}
	},
	syftpkg.NpmPkg: func(name, version string) any { return syftpkg.NpmPackage{Name: name, Version: version} },
	syftpkg.PortagePkg: func(string, string) any {
		return syftpkg.PortageEntry{InstalledSize: 1}
	},
	syftpkg.PythonPkg: func(name, version string) any { return syftpkg.PythonPackage{Name: name, Version: version} },
	syftpkg.RpmPkg: func(name, version string) any {
		return syftpkg.RpmDBEntry{Name: name, Version: version, Arch: "x86_64"}
	},
	syftpkg.RustPkg: func(name, version string) any { return syftpkg.RustCargoLockEntry{Name: name, Version: version} },
	syftpkg.WordpressPluginPkg: func(name, _ string) any {
		return syftpkg.WordpressPluginEntry{PluginInstallDirectory: name}
	},
}

// NewPackage makes a package of any type as Syft's cataloger of that type does. A name of the Java types may be
// "group:artifact". The caller adds locations and calls SetID.
func NewPackage(kind syftpkg.Type, name, version string) syftpkg.Package {
	p := syftpkg.Package{
		Name: name, Version: version, Type: kind, Language: languages[kind], PURL: purl(kind, name, version),
		Licenses: syftpkg.NewLicenseSet(syftpkg.NewLicense("MIT")),
	}
	if found, ok := metadata[kind]; ok {
		p.Metadata = found(name, version)
	}
	product := name
	if kind == syftpkg.JavaPkg || kind == syftpkg.JenkinsPluginPkg {
		_, p.Name = splitMaven(name)
		product = p.Name
	}
	product = product[strings.LastIndexByte(product, '/')+1:]
	if c, ok := NewCPE("a", product, product, version, ""); ok {
		p.CPEs = []cpe.CPE{c}
	}
	return p
}

// NewCPE makes a CPE, and reports false for what cannot be written as one.
func NewCPE(part, vendor, product, version, targetSoftware string) (cpe.CPE, bool) {
	if product == "" {
		return cpe.CPE{}, false
	}
	attributes := cpe.Attributes{Part: part, Vendor: vendor, Product: product, Version: version, TargetSW: targetSoftware}
	c, err := cpe.New(attributes.String(), cpe.GeneratedSource)
	return c, err == nil
}

// At puts a package into files of the image, one layer each in turn, and gives it the identifier that follows from all.
func At(p syftpkg.Package, paths ...string) syftpkg.Package {
	p.Locations = file.NewLocationSet()
	for i, path := range paths {
		p.Locations.Add(file.NewLocationFromCoordinates(file.Coordinates{RealPath: path, FileSystemID: layer(i)}))
	}
	p.SetID()
	return p
}

// layer is the diff ID of the n-th layer.
func layer(n int) string { return fmt.Sprintf("sha256:%064x", n%2+10) }

func splitMaven(name string) (group, artifact string) {
	group, artifact, found := strings.Cut(name, ":")
	if !found {
		return "org.example", name
	}
	return group, artifact
}

func purl(kind syftpkg.Type, name, version string) string {
	namespace := ""
	switch kind {
	case syftpkg.JavaPkg, syftpkg.JenkinsPluginPkg:
		namespace, name = splitMaven(name)
	default:
		if i := strings.LastIndexByte(name, '/'); i >= 0 {
			namespace, name = name[:i], name[i+1:]
		}
	}
	scheme := kind.PackageURLType()
	if kind == syftpkg.BinaryPkg || kind == syftpkg.LinuxKernelPkg || scheme == "" {
		scheme = packageurl.TypeGeneric
	}
	return packageurl.NewPackageURL(scheme, namespace, name, version, nil, "").ToString()
}
