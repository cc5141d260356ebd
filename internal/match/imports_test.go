package match_test

import (
	"fmt"
	"strings"
	"testing"

	syftpkg "github.com/anchore/syft/syft/pkg"
	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/dbtest"
)

const (
	goModuleName = "golang.org/x/net"
	// nameImports makes the advisories about a Go module name a function, and a package as a whole.
	nameImports = `UPDATE blobs SET value = json_set(value, '$.qualifiers', json('{"go_imports":[
		{"path":"golang.org/x/net/html","symbols":["Parse"]},{"path":"golang.org/x/net/all"}]}'))
		WHERE id IN (SELECT h.blob_id FROM affected_package_handles h JOIN packages p ON p.id = h.package_id WHERE p.name = 'golang.org/x/net')`
)

// withSymbols is a binary that contains a Go module.
func withSymbols(version string, symbols map[string][]string) syftpkg.Package {
	p := goModule(goModuleName, version, "")
	m := p.Metadata.(syftpkg.GolangBinaryBuildinfoEntry) //nolint:forcetypeassert // goModule
	m.Symbols = symbols
	p.Metadata = m
	return p
}

// Binaries of the same module contain different parts of it. Only what advisories name tells them apart.
func TestGoModulesAreShared(t *testing.T) {
	named := dbtest.Sample(t)
	change(t, named, nameImports)
	for _, test := range []struct {
		name    string
		imports *match.Imports
		want    int
	}{
		{"not decided", nil, 1},
		{"no advisory names imports", openSample(t).Imports(), 1},
		{"advisories name imports", open(t, named).Imports(), 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			seen := map[string]bool{}
			for n := range 8 {
				symbols := map[string][]string{goModuleName + "/http2": {fmt.Sprint("function", n)}}
				if n%2 == 0 {
					symbols[goModuleName+"/html"] = []string{"Parse", fmt.Sprint("function", n)}
				}
				i := (&image{}).add(withSymbols("v0.1.0", symbols), "/app")
				p := i.decodeWith(t, test.imports).Catalog().Packages[0].Package
				if strings.Contains(string(p.MatchInput), "function") {
					t.Errorf("the matching input contains symbols that no advisory names: %s", p.MatchInput)
				}
				seen[p.Fingerprint] = true
			}
			if len(seen) != test.want {
				t.Errorf("%d distinct packages in 8 images, want %d", len(seen), test.want)
			}
		})
	}
}

func TestGoSymbolsDecideMatches(t *testing.T) {
	installed := dbtest.Sample(t)
	change(t, installed, nameImports)
	database := open(t, installed)
	tests := []struct {
		name    string
		symbols map[string][]string
		want    bool
	}{
		{"no table", nil, true},
		{"a function that advisories name", map[string][]string{goModuleName + "/html": {"Parse", "x"}}, true},
		{"its method of a pointer", map[string][]string{goModuleName + "/html": {"(*Parse)"}}, true},
		{"another function of the package", map[string][]string{goModuleName + "/html": {"Render"}}, false},
		{"a package that advisories name as a whole", map[string][]string{goModuleName + "/all": {"Any"}}, true},
		{"another package", map[string][]string{goModuleName + "/http2": {"Parse"}}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			catalog, result := matchImage(t, database, (&image{}).add(withSymbols("v0.1.0", test.symbols), "/app"))
			if got := len(match.Findings(catalog, result)) > 0; got != test.want {
				t.Errorf("vulnerable: %t, want %t", got, test.want)
			}
		})
	}
}

func TestCatalogTellsOfSymbols(t *testing.T) {
	plain := (&image{}).add(npm("lodash", "4.17.20"), "/a")
	table := (&image{}).add(goModule(goModuleName, "v0.1.0", "one"), "/app")
	database := openSample(t)
	for _, test := range []struct {
		image   *image
		imports *match.Imports
		want    model.Symbols
	}{
		{plain, nil, model.SymbolsNone}, {plain, database.Imports(), model.SymbolsNone},
		{table, nil, model.SymbolsLeftOut}, {table, database.Imports(), model.SymbolsRead},
	} {
		s := test.image.decodeWith(t, test.imports)
		if got := s.Catalog().Symbols; got != test.want {
			t.Errorf("got %d, want %d", got, test.want)
		}
		if _, err := database.Match(t.Context(), s); (err != nil) != (test.want == model.SymbolsLeftOut) {
			t.Errorf("Match returns %v", err)
		}
	}
}

func TestImportsOfSeveralDatabases(t *testing.T) {
	installed := dbtest.Sample(t)
	change(t, installed, nameImports)
	none, named := openSample(t).Imports(), open(t, installed).Imports()
	both := none.With(named)
	for _, test := range []struct {
		name        string
		more, fewer *match.Imports
		want        []string
	}{
		{"named", named, none, []string{goModuleName}},
		{"named, to nothing", named, nil, []string{goModuleName}},
		{"fewer", none, named, nil},
		{"both", both, named, nil},
		{"the same", named, both, nil},
	} {
		if diff := cmp.Diff(test.want, test.more.Beyond(test.fewer)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}
