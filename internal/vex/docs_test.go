package vex_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/vex"
)

// TestDocumentedExamples: the documents in the documentation, one in each format, state the same.
func TestDocumentedExamples(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-to/vex.md")
	if err != nil {
		t.Fatal(err)
	}
	formats := map[vex.Format]bool{}
	for _, block := range regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		d := read(t, block[1])
		formats[d.Format] = true
		set := newSet(t, d)
		documented := model.ImageNames{References: []string{"registry.example.com/team/shop@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}}
		for _, c := range []struct {
			image      model.ImageNames
			purl, want string
		}{
			{documented, "pkg:npm/lodash@4.17.20", "not_affected"}, {documented, "pkg:npm/lodash@4.17.21", "unmatched"}, {documented, "pkg:npm/other@4.17.20", "unmatched"},
			{shop, "pkg:npm/lodash@4.17.20", "unmatched"},
		} {
			if got := statusOf(t, set, c.image, finding("CVE-2021-23337", c.purl)); got != c.want {
				t.Errorf("%s: %s in %v is %s, want %s", d.Format, c.purl, c.image.References, got, c.want)
			}
		}
		if s := d.Statements[0]; s.Justification != "vulnerable_code_not_in_execute_path" || d.Author != "Team Shop" {
			t.Errorf("%s: %+v by %s", d.Format, s, d.Author)
		}
		rules, images, err := set.Rules()
		if err != nil || len(rules) != 1 || len(rules[0].Images) != 1 || len(images) > 0 {
			t.Errorf("%s: rules %+v, %d statements without one, %v", d.Format, rules, len(images), err)
		}
	}
	if len(formats) != 3 {
		t.Errorf("the documentation has examples in %v", formats)
	}
}
