package vex_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
					status := publishedStatuses[version.Status]
					if resolved := publishedStatuses[v.Analysis.State] == vex.StatusFixed; version.Status == "" || version.Status == "unaffected" && resolved {
						status = publishedStatuses[v.Analysis.State]
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
	if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
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

// TestPublishedOpenVEX reads the documents that come with the module go-vex. Some of them are invalid: two have no timestamp, and one has a package URL without a name.
func TestPublishedOpenVEX(t *testing.T) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/openvex/go-vex").Output()
	if err != nil {
		t.Fatalf("the module cache with the documents cannot be found: %v", err)
	}
	invalid, read := []string{"vex/testdata/v020-1.vex.json", "vex/testdata/v020-2.vex.json", "csaf/testdata/csaf.json"}, 0
	for _, path := range publishedIn(t, filepath.Join(strings.TrimSpace(string(dir)), "pkg")) {
		valid := !slices.ContainsFunc(invalid, func(name string) bool { return strings.HasSuffix(filepath.ToSlash(path), name) })
		if readPublished(t, path, valid) {
			read++
		}
	}
	if read < 6 {
		t.Errorf("%d documents were read", read)
	}
}

// TestPublishedExamples reads the examples of CSAF and CycloneDX, and the tests for validators of CSAF that concern the profile VEX: docs/explanation/vex-conformance.md
// says where they are.
func TestPublishedExamples(t *testing.T) {
	dir := os.Getenv("VEX_EXAMPLES")
	if dir == "" {
		t.Skip("VEX_EXAMPLES names no directory with published examples")
	}
	for name, c := range map[string]struct {
		below string
		least int
	}{
		"CSAF": {"csaf/csaf_2.0/examples/csaf/csaf_vex", 13}, "CycloneDX": {"bom-examples/VEX", 20},
	} {
		read := 0
		for _, path := range publishedIn(t, filepath.Join(dir, c.below)) {
			if readPublished(t, path, true) {
				read++
			}
		}
		if read < c.least {
			t.Errorf("%d documents of %s were read", read, name)
		}
	}
	data := filepath.Join(dir, "csaf/csaf_2.0/test/validator/data")
	content, err := os.ReadFile(filepath.Join(data, "testcases.json"))
	if err != nil {
		t.Fatal(err)
	}
	var suite struct {
		Tests []struct {
			ID, Group       string
			Failures, Valid []struct{ Name string }
		}
	}
	if err := json.Unmarshal(content, &suite); err != nil {
		t.Fatal(err)
	}
	refused, read := 0, 0
	for _, test := range suite.Tests {
		if test.Group != "mandatory" {
			continue
		}
		for _, one := range test.Failures {
			if slices.Contains(profileVEX, test.ID) && readPublished(t, filepath.Join(data, one.Name), false) {
				refused++
			}
		}
		for _, one := range test.Valid {
			if readPublished(t, filepath.Join(data, one.Name), true) {
				read++
			}
		}
	}
	t.Logf("%d invalid documents were refused and %d valid ones read", refused, read)
	if refused < 5 || read < 5 {
		t.Errorf("%d invalid documents were refused and %d valid ones read", refused, read)
	}
}

// profileVEX are the mandatory tests of CSAF that are applied, of those about the profile VEX.
var profileVEX = []string{"6.1.27.4", "6.1.27.5", "6.1.27.7", "6.1.27.8", "6.1.27.9", "6.1.27.10", "6.1.27.11"}
