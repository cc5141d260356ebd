package docs

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const module = "github.com/scanner-operator/scanner-operator/"

// packageRow is a row of the table of packages: `internal/name` | task | imports.
var packageRow = regexp.MustCompile("(?m)^\\| `(internal/[a-z/]+)(/…)?` \\|.*\\| (.*) \\|$")

// imports lists the packages of this repository that the files of a package import, without its tests, and without the packages that every
// package may import.
func imports(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no Go files in %s: %v", dir, err)
	}
	var found []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range parsed.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			name, ours := strings.CutPrefix(path, module)
			name = strings.TrimPrefix(name, "internal/")
			switch {
			case !ours, name == "ring", name == "truncate":
			case strings.HasPrefix(name, "api/"):
				found = append(found, "api/…")
			default:
				found = append(found, name)
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// TestPackagesTable compares the imports that the page about the architecture lists with those of the packages.
func TestPackagesTable(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs/explanation/architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	quoted := regexp.MustCompile("`([^`]+)`")
	listed := 0
	for _, row := range packageRow.FindAllStringSubmatch(string(page), -1) {
		dir, below, column := filepath.Join(root, row[1]), row[2] != "", row[3]
		if below || strings.HasPrefix(column, "everything") {
			continue
		}
		listed++
		var want []string
		for _, name := range quoted.FindAllStringSubmatch(column, -1) {
			want = append(want, name[1])
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, imports(t, dir)); diff != "" {
			t.Errorf("imports of %s, - in docs/explanation/architecture.md, + in the code:\n%s", row[1], diff)
		}
	}
	if listed < 25 {
		t.Errorf("only %d packages were found in the table", listed)
	}
}
