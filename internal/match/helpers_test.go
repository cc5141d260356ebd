package match_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	v6 "github.com/anchore/grype/grype/db/v6"
	"github.com/anchore/syft/syft/artifact"
	"github.com/anchore/syft/syft/cpe"
	"github.com/anchore/syft/syft/file"
	"github.com/anchore/syft/syft/format/syftjson"
	"github.com/anchore/syft/syft/linux"
	syftpkg "github.com/anchore/syft/syft/pkg"
	"github.com/anchore/syft/syft/sbom"
	"github.com/anchore/syft/syft/source"

	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/dbtest"
)

// image builds SBOMs for tests.
type image struct {
	packages      []syftpkg.Package
	relationships []artifact.Relationship
	release       *linux.Release
}

func (i *image) add(p syftpkg.Package, paths ...string) *image {
	for _, path := range paths {
		p.Locations.Add(file.NewLocationFromCoordinates(file.Coordinates{RealPath: path, FileSystemID: "sha256:layer"}))
	}
	p.SetID()
	i.packages = append(i.packages, p)
	return i
}

func (i *image) owns(owner, owned int) *image {
	i.relationships = append(i.relationships, artifact.Relationship{
		From: i.packages[owner], To: i.packages[owned], Type: artifact.OwnershipByFileOverlapRelationship,
	})
	return i
}

func (i *image) encode(tb testing.TB) []byte {
	tb.Helper()
	var buffer bytes.Buffer
	if err := syftjson.NewFormatEncoder().Encode(&buffer, sbom.SBOM{
		Artifacts:     sbom.Artifacts{Packages: syftpkg.NewCollection(i.packages...), LinuxDistribution: i.release},
		Relationships: i.relationships,
		Source:        source.Description{ID: "x", Metadata: source.ImageMetadata{UserInput: "x", Size: 4711, Architecture: "amd64", ManifestDigest: "sha256:1", Tags: []string{"debian:11"}, RepoDigests: []string{"index.docker.io/library/debian@sha256:0"}, RawConfig: []byte(`{"created":"2024-05-01T12:00:00.5+02:00","config":{"Env":["A=b"]}}`)}},
		Descriptor:    sbom.Descriptor{Name: "syft", Configuration: map[string]any{"attestedBy": "sha256:1"}},
	}); err != nil {
		tb.Fatal(err)
	}
	return buffer.Bytes()
}

func (i *image) decode(tb testing.TB) *match.SBOM {
	tb.Helper()
	return i.decodeWith(tb, nil)
}

// decodeWith decodes the image for databases that name these imports.
func (i *image) decodeWith(tb testing.TB, imports *match.Imports) *match.SBOM {
	tb.Helper()
	s, err := match.Decode(bytes.NewReader(i.encode(tb)), match.DecodeLimits{}, imports)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

var (
	debian11 = &linux.Release{ID: "debian", VersionID: "11", VersionCodename: "bullseye"}
	alpine   = &linux.Release{ID: "alpine", VersionID: "3.14.2"}
)

func npm(name, version string) syftpkg.Package {
	return syftpkg.Package{
		Name: name, Version: version, Type: syftpkg.NpmPkg, Language: syftpkg.JavaScript,
		PURL: "pkg:npm/" + name + "@" + version, Metadata: syftpkg.NpmPackage{Name: name, Version: version},
	}
}

func deb(name, version, sourceName string) syftpkg.Package {
	return syftpkg.Package{
		Name: name, Version: version, Type: syftpkg.DebPkg,
		Metadata: syftpkg.DpkgDBEntry{Package: name, Version: version, Source: sourceName},
	}
}

func apk(name, version, origin string) syftpkg.Package {
	return syftpkg.Package{
		Name: name, Version: version, Type: syftpkg.ApkPkg,
		Metadata: syftpkg.ApkDBEntry{Package: name, Version: version, OriginPackage: origin, Architecture: "x86_64"},
	}
}

func binary(name, version, vendor, product string) syftpkg.Package {
	return syftpkg.Package{
		Name: name, Version: version, Type: syftpkg.BinaryPkg,
		CPEs: []cpe.CPE{cpe.Must("cpe:2.3:a:"+vendor+":"+product+":"+version+":*:*:*:*:*:*:*", cpe.NVDDictionaryLookupSource)},
	}
}

func openSample(tb testing.TB) *match.Database {
	tb.Helper()
	return open(tb, dbtest.Sample(tb))
}

func matchImage(tb testing.TB, database *match.Database, i *image) (model.Catalog, model.MatchResult) {
	tb.Helper()
	s := i.decodeWith(tb, database.Imports())
	result, err := database.Match(tb.Context(), s)
	if err != nil {
		tb.Fatal(err)
	}
	return s.Catalog(), result
}

// pairs lists findings as "package version vulnerability".
func pairs(findings []model.Finding) []string {
	var out []string
	for _, f := range findings {
		out = append(out, f.Package.Name+" "+f.Package.Version+" "+f.Vulnerability.ID)
	}
	return out
}

// change runs statements on an installed database.
func change(tb testing.TB, installed vulndb.Installed, statements ...string) {
	tb.Helper()
	db, err := v6.NewLowLevelDB(filepath.Join(installed.SQLiteDir(), v6.VulnerabilityDBFileName), false, true, false)
	if err != nil {
		tb.Fatal(err)
	}
	for _, statement := range statements {
		result := db.Exec(statement)
		if result.Error != nil {
			tb.Fatalf("%s: %v", statement, result.Error)
		}
		if result.RowsAffected == 0 && !strings.HasPrefix(statement, "DROP") {
			tb.Fatalf("%s: no row is changed", statement)
		}
	}
	sqlDB, err := db.DB()
	if err != nil {
		tb.Fatal(err)
	}
	if err := sqlDB.Close(); err != nil {
		tb.Fatal(err)
	}
}

func open(tb testing.TB, installed vulndb.Installed) *match.Database {
	tb.Helper()
	database, err := match.Open(installed)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := database.Close(); err != nil {
			tb.Error(err)
		}
	})
	return database
}

func javaArchive(group, name, version string) syftpkg.Package {
	return syftpkg.Package{
		Name: name, Version: version, Type: syftpkg.JavaPkg, Language: syftpkg.Java,
		PURL: "pkg:maven/" + group + "/" + name + "@" + version,
	}
}

// goModule is a module in the binary of an application, with a symbol of its own.
func goModule(name, version, symbol string) syftpkg.Package {
	return syftpkg.Package{
		Name: name, Version: version, Type: syftpkg.GoModulePkg, Language: syftpkg.Go,
		Metadata: syftpkg.GolangBinaryBuildinfoEntry{
			MainModule: "example.com/app", Symbols: map[string][]string{name: {symbol}},
		},
	}
}

func withLanguage(p syftpkg.Package) syftpkg.Package {
	p.Language = syftpkg.Rust
	return p
}
