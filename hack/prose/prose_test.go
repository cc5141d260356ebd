package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRun(t *testing.T) {
	tests := []struct {
		name, path, content string
		want                []string
	}{
		{"text", "docs/a.md", "Nothing.\n\nIt tells\nmore.\n", []string{`docs/a.md:3: "tells"`}},
		{"phrase across lines", "README.md", "It is left\nalone here.\n", []string{`README.md:1: "left alone"`}},
		{"any case", "a.md", "# Catalogue\n", []string{`a.md:1: "Catalogue"`}},
		{"words only", "a.md", "A tellurian catalog.\n", nil},
		{"code", "a.md", "`tells` and ``told``\n\n```sh\ntells\n```\n", nil},
		{"no phrase across code", "a.md", "It goes `x` on.\n", nil},
		{"after code", "a.md", "```sh\ntells\n```\ntold\n", []string{`a.md:4: "told"`}},
		{"picture", "a.md", "```mermaid\na -- tells --> b\n```\n", []string{`a.md:2: "tells"`}},
		{"struck out", "a.md", "| ~~catalogue~~ | catalog |\n", nil},
		{"link", "a.md", "[catalog](catalogue.md)\n", nil},
		{"exception", "a.md", "One pod at a time.\n", nil},
		{"no exception", "a.md", "Two at a time.\n", []string{`a.md:1: "Two at a time"`}},
		{"comment in YAML", "config/a.yaml", "a: tells\n# It tells.\nb: told # told\n", []string{`config/a.yaml:2: "tells"`, `config/a.yaml:3: "told"`}},
		{"comment of two lines", "config/a.yaml", "# goes\n# on\n", []string{`config/a.yaml:1: "goes on"`}},
		{"description", "openapi/openapi.yaml", "x: { description: It tells. }\ny:\n  description: |\n    It is\n    told.\n  told: told\n", []string{`openapi/openapi.yaml:1: "tells"`, `openapi/openapi.yaml:5: "told"`}},
		{"chart", "charts/a/templates/a.yaml", "a: {{ .tells }}\n{{/* tells */}}\n", []string{`charts/a/templates/a.yaml:2: "tells"`}},
		{"help of make", "make/a.mk", "a: b ## It tells.\n# told\n", []string{`make/a.mk:1: "tells"`}},
		{"comment of an API type", "api/v1/a_types.go", "package v1\n\n// A tells.\n// +marker:told\ntype A struct{}\n", []string{`api/v1/a_types.go:3: "tells"`}},
		{"string in Go", "internal/a/a.go", "package a\n\n// It tells.\nvar tells = \"told\" + \"it is told\"\n", []string{`internal/a/a.go:4: "told"`}},
		{"test in Go", "internal/a/a_test.go", "package a\n\nvar a = \"it is told\"\n", nil},
		{"text of the UI", "web/src/a.tsx", "// told\nconst a = <p title=\"It is told\">\n  It tells {told}\n</p>;\n", []string{`web/src/a.tsx:2: "told"`, `web/src/a.tsx:3: "tells"`}},
		{"code of the UI", "web/src/a.ts", "const f = (a) => g(a);\nif (told.state) {\n}\n", nil},
		{"other files", "hack/a.txt", "tells\n", nil},
		{"dependencies", "web/node_modules/a.md", "tells\n", nil},
		{"output of tests", "web/test-results/a/error-context.md", "tells\n", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := os.MkdirAll(filepath.Dir(test.path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(test.path, []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			err := run(&out, ".")
			var got []string
			for line := range strings.Lines(out.String()) {
				before, _, _ := strings.Cut(line, "\": ")
				got = append(got, before+"\"")
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			if (err != nil) != (len(test.want) > 0) {
				t.Errorf("error %v for %d findings", err, len(test.want))
			}
		})
	}
}

func TestParseRules(t *testing.T) {
	for _, text := range []string{"", "# only a comment", "no arrow", "( => not a pattern", "a => b unless ("} {
		if _, err := parseRules(text); err == nil {
			t.Errorf("the vocabulary %q is accepted", text)
		}
	}
}

// Advice that is itself replaced would send its reader in circles.
func TestAdvice(t *testing.T) {
	rules, err := parseRules(vocabulary)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules {
		for _, f := range check(rules, []byte(r.advice)) {
			t.Errorf("%s: its advice %q has %q", r.pattern, r.advice, f.match)
		}
	}
}
