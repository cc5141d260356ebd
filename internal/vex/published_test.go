package vex_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/vex"
)

// published is what the test knows of documents of all formats, to find out what they state without the code under test.
type published struct {
	Context    string `json:"@context"`
	Statements []struct {
		Vulnerability struct{ Name string }
		Status        string
	}
	Document struct{ Category string }
	// Of CSAF and CycloneDX.
	Vulnerabilities []struct {
		CVE, ID       string
		IDs           []struct{ Text string }
		ProductStatus map[string][]string `json:"product_status"`
		Analysis      *struct{ State string }
		Affects       []struct{ Versions []struct{ Status string } }
	}
}

// publishedStatuses are the statuses by their names in CSAF and CycloneDX.
var publishedStatuses = map[string]vex.Status{
	"known_not_affected": vex.StatusNotAffected, "not_affected": vex.StatusNotAffected, "false_positive": vex.StatusNotAffected, "unaffected": vex.StatusNotAffected,
	"fixed": vex.StatusFixed, "first_fixed": vex.StatusFixed, "resolved": vex.StatusFixed, "resolved_with_pedigree": vex.StatusFixed,
	"known_affected": vex.StatusAffected, "first_affected": vex.StatusAffected, "last_affected": vex.StatusAffected, "exploitable": vex.StatusAffected, "affected": vex.StatusAffected,
	"under_investigation": vex.StatusUnderInvestigation, "in_triage": vex.StatusUnderInvestigation, "unknown": vex.StatusUnderInvestigation,
}

// states lists "vulnerability status" of what a document states, each once.
func (p *published) states() []string {
	var all []string
	for _, s := range p.Statements {
		all = append(all, s.Vulnerability.Name+" "+s.Status)
	}
	for _, v := range p.Vulnerabilities {
		id := v.CVE + v.ID
		if id == "" && len(v.IDs) > 0 {
			id = v.IDs[0].Text
		}
		for status, products := range v.ProductStatus {
			if known, is := publishedStatuses[status]; is && len(products) > 0 {
				all = append(all, id+" "+string(known))
			}
		}
		for _, affected := range v.Affects {
			switch {
			case v.Analysis == nil:
			case len(affected.Versions) == 0:
				all = append(all, id+" "+string(publishedStatuses[v.Analysis.State]))
			default:
				for _, version := range affected.Versions {
					// "affected" is the default of the schema. The published examples leave it out beside "resolved", where "detail" says that the versions are fixed.
					status, state := publishedStatuses[cmp.Or(version.Status, "affected")], publishedStatuses[v.Analysis.State]
					if state == vex.StatusFixed && (version.Status == "" || version.Status == "unaffected") {
						status = state
					}
					all = append(all, id+" "+string(status))
				}
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// readPublished reads a published document, and expects that it states what it says. It returns false for documents that are none of VEX, or of another version.
func readPublished(t *testing.T, path string, valid bool) bool {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var p published
	if err := json.Unmarshal(content, &p); err != nil {
		return false // In another version: the vulnerability of a statement was a string.
	}
	want := p.states()
	if valid && len(want) == 0 || strings.Contains(p.Context, "v0.0.") || p.Document.Category != "" && p.Document.Category != "csaf_vex" {
		return false
	}
	name := filepath.Base(filepath.Dir(path)) + "/" + filepath.Base(path)
	document, err := vex.Read(name, strings.NewReader(string(content)), vex.Limits{})
	if !valid {
		if !errors.Is(err, vex.ErrFormat) {
			t.Errorf("%s is invalid, and was read: %v", name, err)
		}
		return true
	}
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return true
	}
	var got []string
	for i := range document.Statements {
		got = append(got, document.Statements[i].Vulnerability+" "+string(document.Statements[i].Status))
	}
	slices.Sort(got)
	if diff := gocmp.Diff(want, slices.Compact(got)); diff != "" {
		t.Errorf("%s states (-want +got):\n%s", name, diff)
	}
	return true
}

// publishedIn lists the files in JSON below a directory.
func publishedIn(t *testing.T, dir string) []string {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".json") {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// TestPublishedInModules reads the documents of all formats that come with modules in go.mod.
func TestPublishedInModules(t *testing.T) {
	for _, c := range []struct {
		module string
		below  []string
		least  int
		// Invalid documents of go-vex have no timestamp, or a package URL without a name; those of Grype have no notes, or no action_statement.
		invalid []string
	}{
		{"github.com/openvex/go-vex", []string{"pkg"}, 6, []string{"vex/testdata/v020-1.vex.json", "vex/testdata/v020-2.vex.json", "csaf/testdata/csaf.json"}},
		{"github.com/anchore/grype", []string{"grype/vex/testdata", "test/integration/testdata/vex"}, 8, []string{
			"vex-docs/csaf-demo1.json", "vex-docs/csaf-demo2.json", "openvex/affected.openvex.json",
		}},
		{"github.com/gocsaf/csaf/v3", []string{"testdata/csaf-documents/valid"}, 2, nil},
		{"github.com/CycloneDX/cyclonedx-go", []string{"testdata"}, 1, nil},
	} {
		t.Run(c.module, func(t *testing.T) {
			dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", c.module).Output()
			if err != nil {
				t.Fatalf("the module cache with the documents cannot be found: %v", err)
			}
			read := 0
			for _, below := range c.below {
				for _, path := range publishedIn(t, filepath.Join(strings.TrimSpace(string(dir)), below)) {
					valid := !slices.ContainsFunc(c.invalid, func(name string) bool { return strings.HasSuffix(filepath.ToSlash(path), name) })
					if readPublished(t, path, valid) {
						read++
					}
				}
			}
			if read < c.least {
				t.Errorf("%d documents were read, want at least %d", read, c.least)
			}
		})
	}
}
