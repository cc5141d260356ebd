package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// makeVariables returns the variables of a file for make that have a value at once, with the earlier values of themselves in it.
func makeVariables(t *testing.T, path string) map[string]string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, match := range regexp.MustCompile(`(?m)^(\w+) *:= (.*)$`).FindAllStringSubmatch(strings.ReplaceAll(string(content), "\\\n", " "), -1) {
		name, value := match[1], match[2]
		values[name] = strings.ReplaceAll(value, "$("+name+")", values[name])
	}
	return values
}

// testsOf returns the tests in a folder, and whether each starts goroutines itself.
func testsOf(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range parsed.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if ok && function.Recv == nil && strings.HasPrefix(function.Name.Name, "Test") && function.Name.Name != "TestMain" {
				tests[function.Name.Name] = startsGoroutines(function)
			}
		}
	}
	return tests
}

// startsGoroutines reports whether there is a go statement in a function, or a call of a method Go, such as that of sync.WaitGroup.
func startsGoroutines(function *ast.FuncDecl) (found bool) {
	ast.Inspect(function, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.GoStmt:
			found = true
		case *ast.CallExpr:
			selector, ok := node.Fun.(*ast.SelectorExpr)
			found = found || ok && selector.Sel.Name == "Go"
		}
		return true
	})
	return found
}

// TestGoroutinesRunWithTheRaceDetector: a test that starts goroutines is one that "make test-race" runs, and what is listed there exists.
func TestGoroutinesRunWithTheRaceDetector(t *testing.T) {
	variables := makeVariables(t, "../../make/test.mk")
	whole := func(pattern string) *regexp.Regexp { return regexp.MustCompile("^(" + pattern + ")$") }
	hostile, concurrent := regexp.MustCompile(variables["HOSTILE_TESTS"]), whole(variables["CONCURRENT_TESTS"])
	check := func(dir string, listed bool) map[string]bool {
		tests := testsOf(t, filepath.Join("../..", dir))
		for name, goroutines := range tests {
			if goroutines && !hostile.MatchString(name) && (!listed || !concurrent.MatchString(name)) {
				t.Errorf("%s: %s starts goroutines, and runs without the race detector: list it in CONCURRENT_TESTS and its package in MIXED, in make/test.mk", dir, name)
			}
		}
		return tests
	}
	mixed := map[string]bool{}
	for dir := range strings.FieldsSeq(variables["MIXED"]) {
		tests := check(dir, true)
		if len(tests) == 0 {
			t.Errorf("MIXED in make/test.mk lists %s, which has no tests", dir)
		}
		for name := range tests {
			mixed[name] = true
		}
	}
	for pattern := range strings.SplitSeq(variables["CONCURRENT_TESTS"], "|") {
		listed := whole(pattern)
		found := false
		for name := range mixed {
			found = found || listed.MatchString(name)
		}
		if !found {
			t.Errorf("CONCURRENT_TESTS in make/test.mk lists %s, which is no test of the packages in MIXED", pattern)
		}
	}
	for dir := range strings.FieldsSeq(variables["PLAIN"]) {
		if dir == "hack" || dir == "test" { // They run other programs.
			continue
		}
		err := filepath.WalkDir(filepath.Join("../..", dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.IsDir() {
				return err
			}
			if entry.Name() == "node_modules" {
				return filepath.SkipDir
			}
			below, err := filepath.Rel("../..", path)
			if err == nil {
				check(below, false)
			}
			return err
		})
		if err != nil {
			t.Errorf("PLAIN in make/test.mk lists %s: %v", dir, err)
		}
	}
}
