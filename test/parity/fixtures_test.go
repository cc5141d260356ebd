package parity_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/anchore/syft/syft/artifact"
	"github.com/anchore/syft/syft/cpe"
	"github.com/anchore/syft/syft/file"
	"github.com/anchore/syft/syft/format/syftjson"
	"github.com/anchore/syft/syft/linux"
	syftpkg "github.com/anchore/syft/syft/pkg"
	"github.com/anchore/syft/syft/sbom"
	"github.com/anchore/syft/syft/source"
)

const (
	layerA = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	layerB = "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// fixture is an SBOM that is put together by hand, so that it holds what sample images may not.
type fixture struct {
	packages      []syftpkg.Package
	relationships []artifact.Relationship
	release       *linux.Release
}

func (f *fixture) add(p syftpkg.Package, paths ...string) *fixture {
	for i, path := range paths {
		layer := layerA
		if i%2 == 1 {
			layer = layerB
		}
		p.Locations.Add(file.NewLocationFromCoordinates(file.Coordinates{RealPath: path, FileSystemID: layer}))
	}
	p.SetID()
	f.packages = append(f.packages, p)
	return f
}

// owns says that the files of one package belong to another one; packages are counted from 0.
func (f *fixture) owns(owner, owned int) *fixture {
	f.relationships = append(f.relationships, artifact.Relationship{
		From: f.packages[owner], To: f.packages[owned], Type: artifact.OwnershipByFileOverlapRelationship,
	})
	return f
}

func (f *fixture) encode(t *testing.T) []byte {
	t.Helper()
	var buffer bytes.Buffer
	err := syftjson.NewFormatEncoder().Encode(&buffer, sbom.SBOM{
		Artifacts: sbom.Artifacts{
			Packages: syftpkg.NewCollection(f.packages...), LinuxDistribution: f.release,
		},
		Relationships: f.relationships,
		Source: source.Description{ID: "fixture", Name: "fixture", Metadata: source.ImageMetadata{
			UserInput: "fixture", ManifestDigest: layerA, Size: 4711,
		}},
		Descriptor: sbom.Descriptor{Name: "syft", Version: "test"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func debian(major, codename string) *linux.Release {
	return &linux.Release{
		ID: "debian", Name: "Debian GNU/Linux", VersionID: major, VersionCodename: codename,
		Version: fmt.Sprintf("%s (%s)", major, codename), PrettyName: "Debian GNU/Linux " + major,
	}
}

func alpine(version string) *linux.Release {
	return &linux.Release{ID: "alpine", Name: "Alpine Linux", VersionID: version, PrettyName: "Alpine Linux v" + version}
}

func deb(name, version, sourceName string) syftpkg.Package {
	return syftpkg.Package{
		Name: name, Version: version, Type: syftpkg.DebPkg,
		PURL:     fmt.Sprintf("pkg:deb/debian/%s@%s?arch=amd64", name, version),
		CPEs:     []cpe.CPE{cpe.Must(fmt.Sprintf("cpe:2.3:a:%s:%s:1.0:*:*:*:*:*:*:*", name, name), cpe.GeneratedSource)},
		Licenses: syftpkg.NewLicenseSet(syftpkg.NewLicense("GPL-2.0-only")),
		Metadata: syftpkg.DpkgDBEntry{Package: name, Version: version, Source: sourceName, Architecture: "amd64"},
	}
}

func apk(name, version, origin string, files ...string) syftpkg.Package {
	entry := syftpkg.ApkDBEntry{Package: name, Version: version, OriginPackage: origin, Architecture: "x86_64"}
	for _, f := range files {
		entry.Files = append(entry.Files, syftpkg.ApkFileRecord{Path: f})
	}
	return syftpkg.Package{
		Name: name, Version: version, Type: syftpkg.ApkPkg, PURL: fmt.Sprintf("pkg:apk/alpine/%s@%s?arch=x86_64", name, version),
		CPEs: []cpe.CPE{
			cpe.Must(fmt.Sprintf("cpe:2.3:a:%s:%s:%s:*:*:*:*:*:*:*", origin, origin, version), cpe.GeneratedSource),
			cpe.Must(fmt.Sprintf("cpe:2.3:a:%s:%s:%s:*:*:*:*:*:*:*", name, name, version), cpe.GeneratedSource),
		},
		Metadata: entry,
	}
}

func rpm(name, version, sourceRPM string, epoch *int, modularity *string) syftpkg.Package {
	return syftpkg.Package{
		Name: name, Version: version, Type: syftpkg.RpmPkg,
		PURL: fmt.Sprintf("pkg:rpm/redhat/%s@%s?arch=x86_64", name, version),
		Metadata: syftpkg.RpmDBEntry{
			Name: name, Version: version, SourceRpm: sourceRPM, Epoch: epoch, ModularityLabel: modularity, Arch: "x86_64",
		},
	}
}

func npm(name, version string) syftpkg.Package {
	return syftpkg.Package{
		Name: name, Version: version, Type: syftpkg.NpmPkg, Language: syftpkg.JavaScript,
		PURL:     fmt.Sprintf("pkg:npm/%s@%s", name, version),
		Licenses: syftpkg.NewLicenseSet(syftpkg.NewLicense("MIT")),
		CPEs:     []cpe.CPE{cpe.Must(fmt.Sprintf("cpe:2.3:a:%s:%s:%s:*:*:*:*:*:*:*", name, name, version), cpe.GeneratedSource)},
		Metadata: syftpkg.NpmPackage{Name: name, Version: version},
	}
}

func python(name, version string) syftpkg.Package {
	return syftpkg.Package{
		Name: name, Version: version, Type: syftpkg.PythonPkg, Language: syftpkg.Python,
		PURL:     fmt.Sprintf("pkg:pypi/%s@%s", name, version),
		CPEs:     []cpe.CPE{cpe.Must(fmt.Sprintf("cpe:2.3:a:python-%s:%s:%s:*:*:*:*:*:*:*", name, name, version), cpe.GeneratedSource)},
		Metadata: syftpkg.PythonPackage{Name: name, Version: version},
	}
}

func java(group, name, version string) syftpkg.Package {
	return syftpkg.Package{
		Name: name, Version: version, Type: syftpkg.JavaPkg, Language: syftpkg.Java,
		PURL: fmt.Sprintf("pkg:maven/%s/%s@%s", group, name, version),
		Metadata: syftpkg.JavaArchive{
			VirtualPath:    "/app/" + name + ".jar",
			Manifest:       &syftpkg.JavaManifest{Main: syftpkg.KeyValues{{Key: "Name", Value: group + "/" + name}}},
			PomProperties:  &syftpkg.JavaPomProperties{GroupID: group, ArtifactID: name, Version: version},
			ArchiveDigests: []file.Digest{{Algorithm: "sha1", Value: "0123"}},
		},
	}
}

func golang(name, version, mainModule string, symbols map[string][]string) syftpkg.Package {
	return syftpkg.Package{
		Name: name, Version: version, Type: syftpkg.GoModulePkg, Language: syftpkg.Go,
		PURL: fmt.Sprintf("pkg:golang/%s@%s", name, version),
		CPEs: []cpe.CPE{cpe.Must("cpe:2.3:a:golang:go:1.20.9:-:*:*:*:*:*:*", cpe.GeneratedSource)},
		Metadata: syftpkg.GolangBinaryBuildinfoEntry{
			GoCompiledVersion: "go1.20.9", Architecture: "amd64", H1Digest: "h1:abc", MainModule: mainModule,
			BuildSettings: syftpkg.KeyValues{{Key: "CGO_ENABLED", Value: "0"}}, Symbols: symbols,
		},
	}
}

func binary(name, version, vendor, product string) syftpkg.Package {
	return syftpkg.Package{
		Name: name, Version: version, Type: syftpkg.BinaryPkg, PURL: fmt.Sprintf("pkg:generic/%s@%s", name, version),
		CPEs:     []cpe.CPE{cpe.Must(fmt.Sprintf("cpe:2.3:a:%s:%s:%s:*:*:*:*:*:*:*", vendor, product, version), cpe.NVDDictionaryLookupSource)},
		Metadata: syftpkg.BinarySignature{},
	}
}

// fixtures are made anew for each test, since Syft's types are not safe to share.
func fixtures() map[string]*fixture {
	const site = "/usr/lib/python3/dist-packages/"
	debian11 := (&fixture{release: debian("11", "bullseye")}).
		add(deb("libssl1.1", "1.1.1k-1", "openssl"), "/var/lib/dpkg/status", "/var/lib/dpkg/status.d/libssl").
		add(deb("openssl", "1.1.1n-0+deb11u5", ""), "/var/lib/dpkg/status").
		add(deb("zlib1g", "1:1.2.11.dfsg-2", "zlib"), "/var/lib/dpkg/status").
		add(deb("libc6", "2.31-13+deb11u6", "glibc"), "/var/lib/dpkg/status").
		add(deb("bash", "5.1-2+deb11u1", ""), "/var/lib/dpkg/status").
		add(deb("apt", "2.2.4", ""), "/var/lib/dpkg/status").
		add(deb("libexpat1", "2.2.10-2", "expat"), "/var/lib/dpkg/status").
		add(deb("curl", "7.74.0-1.3+deb11u3", ""), "/var/lib/dpkg/status").
		add(deb("linux-libc-dev", "5.10.46-4", "linux"), "/var/lib/dpkg/status").
		add(deb("gzip", "1.10-4", ""), "/var/lib/dpkg/status")
	pythons := (&fixture{release: debian("12", "bookworm")}).
		add(deb("python3-requests", "2.28.1+dfsg-1", "requests"), "/var/lib/dpkg/status").
		add(python("requests", "2.28.1"), site+"requests/METADATA").
		add(python("urllib3", "1.26.12"), "/opt/venv/urllib3/METADATA").
		add(python("pillow", "9.5.0"), "/opt/venv/pillow/METADATA").
		add(python("Django", "3.2.12"), "/opt/venv/django/METADATA").
		add(python("requests", "2.28.1"), "/opt/venv/requests/METADATA").
		add(deb("python3.11", "3.11.2-6", ""), "/var/lib/dpkg/status").
		add(binary("python", "3.11.2", "python", "python"), "/usr/bin/python3.11").
		add(binary("python", "3.9.2", "python", "python"), "/opt/python/bin/python3.9").
		owns(0, 1).owns(6, 7)
	alpines := (&fixture{release: alpine("3.14.2")}).
		add(apk("libcrypto1.1", "1.1.1k-r0", "openssl", "/lib/libcrypto.so.1.1"), "/lib/apk/db/installed").
		add(apk("busybox", "1.33.1-r3", "busybox", "/bin/busybox"), "/lib/apk/db/installed").
		add(apk("zlib", "1.2.12-r2", "zlib", "/lib/libz.so.1"), "/lib/apk/db/installed").
		add(apk("apk-tools", "2.12.5-r1", "apk-tools"), "/lib/apk/db/installed").
		add(apk("musl", "1.2.2_pre1-r0", "musl"), "/lib/apk/db/installed").
		add(binary("zlib", "1.2.11", "zlib", "zlib"), "/lib/libz.so.1").
		add(apk("nginx", "1.20.0-r1", "nginx", "/usr/sbin/nginx"), "/lib/apk/db/installed").
		add(binary("nginx", "1.20.0", "f5", "nginx"), "/usr/sbin/nginx").
		add(python("requests", "2.28.1"), "/usr/lib/python3.9/site-packages/requests/METADATA").
		add(apk("nginx-mod", "1.20.1-r3", "nginx", "/usr/sbin/nginx-debug"), "/lib/apk/db/installed").
		add(binary("nginx", "1.20.0", "f5", "nginx"), "/usr/sbin/nginx-debug").
		owns(2, 5).owns(6, 7).owns(9, 10)
	return map[string]*fixture{
		"debian":                            debian11,
		"debian with python, owned and not": pythons,
		"alpine with owned binaries":        alpines,
		"red hat": (&fixture{release: &linux.Release{ID: "rhel", VersionID: "8.5", Name: "Red Hat Enterprise Linux", IDLike: []string{"fedora"}}}).
			add(rpm("glibc", "2.28-164.el8", "glibc-2.28-164.el8.src.rpm", nil, nil), "/var/lib/rpm/Packages").
			add(rpm("openssl-libs", "1.1.1k-4.el8", "openssl-1.1.1k-4.el8.src.rpm", new(1), new("")), "/var/lib/rpm/Packages").
			add(rpm("glibc-common", "2.28-225.el8_8.6", "glibc-2.28-225.el8_8.6.src.rpm", new(0), nil), "/var/lib/rpm/Packages").
			add(rpm("kernel-headers", "4.18.0-348.el8", "kernel-4.18.0-348.el8.src.rpm", nil, nil), "/var/lib/rpm/Packages"),
		"go": (&fixture{}).
			add(golang("golang.org/x/net", "v0.16.0", "example.com/app", nil), "/app/a").
			add(golang("golang.org/x/net", "v0.16.0", "example.com/app", nil), "/app/b").
			add(golang("golang.org/x/text", "v0.3.6", "example.com/app", map[string][]string{"golang.org/x/text/language": {"Parse", "Make"}}), "/app/a").
			add(golang("stdlib", "go1.20.9", "example.com/app", nil), "/app/a").
			add(golang("example.com/app", "v0.0.0-20200101000000-abcdefabcdef", "example.com/app", nil), "/app/a").
			add(golang("gopkg.in/yaml.v2", "v2.2.2", "example.com/app", nil), "/app/a").
			add(golang("github.com/dgrijalva/jwt-go", "v3.2.0+incompatible", "example.com/app", nil), "/app/a").
			add(golang("golang.org/x/crypto", "v0.0.0-20210921155107-089bfa567519", "example.com/app", nil), "/app/a"),
		"npm, some of it twice": (&fixture{release: debian("11", "bullseye")}).
			add(npm("lodash", "4.17.20"), "/app/node_modules/lodash/package.json").
			add(npm("lodash", "4.17.20"), "/app/node_modules/x/node_modules/lodash/package.json").
			add(npm("lodash", "4.17.11"), "/old/node_modules/lodash/package.json").
			add(npm("minimist", "1.2.5"), "/app/package-lock.json", "/app/node_modules/minimist/package.json").
			add(npm("ws", "7.4.6"), "/app/package-lock.json").
			add(npm("semver", "7.3.5"), "/app/package-lock.json").
			add(npm("qs", "6.7.0"), "/app/package-lock.json").
			add(binary("node", "18.16.0", "nodejs", "node.js"), "/usr/local/bin/node"),
		"java": (&fixture{}).
			add(java("org.apache.logging.log4j", "log4j-core", "2.14.1"), "/app/log4j-core.jar").
			add(java("org.apache.logging.log4j", "log4j-api", "2.14.1"), "/app/log4j-api.jar").
			add(java("org.springframework", "spring-beans", "5.3.17"), "/app/spring-beans.jar").
			add(java("org.yaml", "snakeyaml", "1.30"), "/app/snakeyaml.jar", "/app/lib/snakeyaml.jar").
			add(java("com.fasterxml.jackson.core", "jackson-databind", "2.13.2"), "/app/jackson.jar").
			add(syftpkg.Package{ // known from a lock file only, without an archive
				Name: "commons-text", Version: "1.9", Type: syftpkg.JavaPkg, Language: syftpkg.Java,
				PURL: "pkg:maven/org.apache.commons/commons-text@1.9",
			}, "/app/gradle.lockfile"),
		"no distribution": (&fixture{}).
			add(deb("openssl", "1.1.1k-1", ""), "/var/lib/dpkg/status").
			add(binary("nginx", "1.20.0", "f5", "nginx"), "/usr/sbin/nginx"),
		"unknown distribution": (&fixture{release: &linux.Release{ID: "myown", VersionID: "1"}}).
			add(deb("openssl", "1.1.1k-1", ""), "/var/lib/dpkg/status").
			add(npm("json5", "1.0.1"), "/app/package.json"),
		"empty": {},
	}
}
