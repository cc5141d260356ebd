package parity_test

import (
	"fmt"
	"strings"
	"testing"

	classifiers "github.com/anchore/syft/syft/pkg/cataloger/binary"

	"github.com/scanner-operator/scanner-operator/internal/decision"
	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/vex"
)

// TestPURLsOfPrograms expects that statements in a cluster name programs by the package URLs that Syft writes for those that it recognizes, as "scan --vex" reads
// them in the SBOM. A new version of Syft can know others.
func TestPURLsOfPrograms(t *testing.T) {
	const version = "1.2.3"
	rules := &vex.Evaluator{Versions: match.Versions{}, Arch: match.Arch}
	known := 0
	for _, c := range classifiers.DefaultClassifiers() {
		if c.Package == "" || c.PURL.Name == "" {
			continue // Others that it consists of have them.
		}
		known++
		c.PURL.Version = version
		purl := c.PURL.ToString()
		p := model.Package{Type: "binary", Name: c.Package, Version: version}
		for _, name := range c.CPEs {
			name.Attributes.Version, name.Attributes.Update = version, ""
			p.CPEs = append(p.CPEs, name.Attributes.BindToFmtString())
		}
		for product, want := range map[string]int{purl: 0, "pkg:npm/" + c.PURL.Name: -1} {
			document, err := vex.Read("test", strings.NewReader(fmt.Sprintf(`{"@context": "https://openvex.dev/ns/v0.2.0", "@id": "https://example.com/vex", "author": "a", "version": 1,
				"timestamp": "2026-01-01T00:00:00Z", "statements": [{"vulnerability": {"name": "CVE-1"}, "products": [{"@id": %q}], "status": "fixed"}]}`, product)), vex.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			set, err := vex.NewSet([]*vex.Document{document})
			if err != nil {
				t.Fatal(err)
			}
			stated, _, err := set.Rules()
			if err != nil || len(stated) != 1 {
				t.Fatalf("%d rules, %v", len(stated), err)
			}
			rule, err := rules.Parse(stated[0].Text)
			if err != nil {
				t.Fatal(err)
			}
			if got := rules.Decide(&p, []decision.Rule{rule}); got != want {
				t.Errorf("a statement about %s about the program %s with %v: %d, want %d", product, c.Package, p.CPEs, got, want)
			}
		}
	}
	if known < 50 {
		t.Errorf("Syft recognizes %d programs", known)
	}
}
