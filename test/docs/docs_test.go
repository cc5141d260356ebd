// Package docs checks that the documentation refers to what exists: files, headings, packages, targets of make, decision records.
package docs

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

const root = "../.."

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	fence   = regexp.MustCompile("(?ms)^```.*?^```")
	command = regexp.MustCompile("(?:^|`|\\$ |; |&& )make ((?:[a-z][a-z0-9-]*[ `]?)+)")
	target  = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)
)

// pages reads all Markdown files of the repository, by their path.
func pages(t *testing.T) map[string][]byte {
	t.Helper()
	pages := map[string][]byte{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "node_modules", "dist", "testdata"}, entry.Name()):
			return filepath.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		pages[path], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) < 20 {
		t.Fatalf("only %d pages were found", len(pages))
	}
	return pages
}

// deadLinks lists the links of a page that lead to no file of the repository, or to no heading of a page.
func deadLinks(path string, content []byte, read func(path string) ([]byte, error)) []string {
	var dead []string
	for _, match := range link.FindAllSubmatch(fence.ReplaceAll(content, nil), -1) {
		destination := string(match[1])
		if strings.Contains(destination, "://") || strings.HasPrefix(destination, "mailto:") {
			continue
		}
		file, anchor, _ := strings.Cut(destination, "#")
		linked := content
		if file != "" {
			var err error
			if linked, err = read(filepath.Join(filepath.Dir(path), file)); err != nil {
				dead = append(dead, destination)
				continue
			}
		}
		if anchor != "" && !slices.Contains(anchors(linked), anchor) {
			dead = append(dead, destination)
		}
	}
	return dead
}

// anchors lists the names that a renderer gives to the headings of a page.
func anchors(content []byte) []string {
	var names []string
	for _, match := range heading.FindAllSubmatch(fence.ReplaceAll(content, nil), -1) {
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, string(match[1]))
		names = append(names, name)
	}
	return names
}

// readAny reads a file; a folder has no content.
func readAny(path string) ([]byte, error) {
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return nil, err
	}
	return os.ReadFile(path)
}

func TestLinks(t *testing.T) {
	for path, content := range pages(t) {
		for _, destination := range deadLinks(path, content, readAny) {
			t.Errorf("%s links to %s, which does not exist", path, destination)
		}
	}
}

// unknownTargets lists the targets in commands of make that are not among the known ones.
func unknownTargets(content []byte, known []string) []string {
	var unknown []string
	for line := range bytes.Lines(content) {
		for _, match := range command.FindAllSubmatch(line, -1) {
			for name := range strings.FieldsSeq(strings.Trim(string(match[1]), "`")) {
				if name = strings.TrimSuffix(name, "`"); !slices.Contains(known, name) {
					unknown = append(unknown, name)
				}
			}
		}
	}
	return unknown
}

func TestMakeTargets(t *testing.T) {
	var known []string
	makefiles, err := filepath.Glob(root + "/make/*.mk")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(makefiles, root+"/Makefile") {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range target.FindAllSubmatch(content, -1) {
			known = append(known, string(match[1]))
		}
	}
	if !slices.Contains(known, "run") {
		t.Fatalf("the targets %v lack run", known)
	}
	for path, content := range pages(t) {
		for _, name := range unknownTargets(content, known) {
			t.Errorf("%s names the target %s, which make does not have", path, name)
		}
	}
}

var directory = regexp.MustCompile("`((?:internal|cmd|api|hack|test|web|config|charts|make|openapi)/[a-zA-Z0-9_./-]*)`")

func TestDirectories(t *testing.T) {
	for _, page := range []string{"CONTRIBUTING.md", "docs/explanation/architecture.md", "docs/how-to/write-a-controller.md"} {
		content, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		names := directory.FindAllSubmatch(content, -1)
		if len(names) < 5 {
			t.Errorf("only %d names of files and directories were found in %s", len(names), page)
		}
		for _, name := range names {
			if bytes.Contains(name[1], []byte("KIND")) { // to be filled in by the reader
				continue
			}
			if _, err := os.Stat(filepath.Join(root, string(name[1]))); err != nil {
				t.Errorf("%s names %s, which does not exist", page, name[1])
			}
		}
	}
}

func TestPagesAreLinked(t *testing.T) {
	pages, err := filepath.Glob(root + "/docs/*/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	readme, err := os.ReadFile(root + "/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		name := strings.TrimPrefix(filepath.ToSlash(page), root+"/")
		// Decisions and runbooks have indexes of their own.
		if !strings.HasPrefix(name, "docs/decisions/0") && !strings.HasPrefix(name, "docs/runbooks/Scanner") && !bytes.Contains(readme, []byte("("+name+")")) {
			t.Errorf("README.md does not link to %s", name)
		}
	}
}

func TestDecisionsAreIndexed(t *testing.T) {
	records, err := filepath.Glob(root + "/docs/decisions/0*.md")
	if err != nil || len(records) == 0 {
		t.Fatalf("%d decision records: %v", len(records), err)
	}
	index, err := os.ReadFile(root + "/docs/decisions/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, record := range records {
		if !bytes.Contains(index, []byte("("+filepath.Base(record)+")")) {
			t.Errorf("the index of decisions lacks %s", filepath.Base(record))
		}
	}
}

func TestChecks(t *testing.T) {
	page := "# One two\n\n[a](#one-two) [b](#three) [c](gone.md) [d](x.md#y-z) [e](x.md#w) [f](https://example.com/gone)\n\n```\n[g](gone.md)\n# Three\n```\n"
	read := func(path string) ([]byte, error) {
		if path != filepath.Join("docs", "x.md") {
			return nil, os.ErrNotExist
		}
		return []byte("## `Y`, z\n"), nil
	}
	want := []string{"#three", "gone.md", "x.md#w"}
	if diff := cmp.Diff(want, deadLinks("docs/page.md", []byte(page), read)); diff != "" {
		t.Errorf("dead links (-want +got):\n%s", diff)
	}
	page = "Type `make run` or\n\n```sh\nmake tset\n$ make build gone\n```\n\nWe make do. `make test-unit`, `make image IMG=x`\n"
	want = []string{"tset", "gone"}
	if diff := cmp.Diff(want, unknownTargets([]byte(page), []string{"run", "build", "test-unit", "image"})); diff != "" {
		t.Errorf("unknown targets (-want +got):\n%s", diff)
	}
}
