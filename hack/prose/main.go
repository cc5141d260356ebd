// Command prose checks the texts of this repository against vocabulary.txt: documentation, descriptions in YAML and of the
// API, help texts of make, comments of API types, and the texts of the program and of the UI. It reports each use of a word or phrase that
// the vocabulary replaces.
//
// It exists because vale, the usual tool, does not fit: it links tree-sitter's C parsers, which the build flags of
// this repository (CGO_ENABLED=0) leave out, so that every lint would need a C compiler and minutes of its time; and it does not see descriptions in
// YAML, texts in Go and templates of the chart.
package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

//go:embed vocabulary.txt
var vocabulary string

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	if err := run(os.Stdout, root); err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(1)
	}
}

// run checks all files below a directory, or one file.
func run(out io.Writer, root string) error {
	rules, err := parseRules(vocabulary)
	if err != nil {
		return err
	}
	found := 0
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && skipped(entry.Name()) && path != root:
			return filepath.SkipDir
		case entry.IsDir() || extractor(filepath.ToSlash(path)) == nil:
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		text, err := extractor(filepath.ToSlash(path))(content)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, finding := range check(rules, text) {
			fmt.Fprintf(out, "%s:%d: %q: %s\n", path, finding.line, finding.match, finding.advice)
			found++
		}
		return nil
	})
	if err == nil && found > 0 {
		err = fmt.Errorf("%d uses of words that docs/reference/glossary.md and hack/prose/vocabulary.txt replace", found)
	}
	return err
}

func skipped(dir string) bool {
	switch dir {
	case ".git", "node_modules", "dist", "gen", "testdata", "bin", "coverage", "test-results", "playwright-report", "bases", "crds", "roles":
		return true
	}
	return false
}

// extractor returns the function that finds the prose in a file, nil when the file is not checked.
func extractor(path string) func([]byte) ([]byte, error) {
	has := func(dir string) bool { return strings.HasPrefix(path, dir+"/") || strings.Contains(path, "/"+dir+"/") }
	name := filepath.Base(path)
	switch ext := filepath.Ext(path); {
	case strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, ".gen.go") || strings.Contains(name, ".test."):
		return nil
	case ext == ".md":
		return markdown
	case name == "Makefile" || ext == ".mk":
		return makefile
	case ext == ".go" && has("api") && !has("server"):
		return goComments
	case ext == ".go" && (has("internal") || has("cmd") || has("hack")) && !has("storetest"):
		return goStrings
	case (ext == ".yaml" || ext == ".tpl") && (has("openapi") || has("config") || has("charts")):
		return yamlText
	case name == "NOTES.txt":
		return plain
	case (ext == ".ts" || ext == ".tsx") && has("src"):
		return typescript
	}
	return nil
}

var errNoRules = errors.New("the vocabulary has no rules")
