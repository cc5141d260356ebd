//go:build vexexamples

package vex_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/vex"
)

// TestPublishedExamples reads the examples of CSAF and CycloneDX, and the tests for validators of CSAF about products and the profile VEX, in the directory VEX_EXAMPLES:
// make vex-examples fetches them.
func TestPublishedExamples(t *testing.T) {
	dir := os.Getenv("VEX_EXAMPLES")
	if dir == "" {
		t.Fatal("VEX_EXAMPLES names no directory with published examples; run make vex-examples")
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
	refused, read, products := 0, 0, 0
	for _, test := range suite.Tests {
		if test.Group != "mandatory" {
			continue
		}
		for _, one := range test.Failures {
			if slices.Contains(profileVEX, test.ID) && readPublished(t, filepath.Join(data, one.Name), false) {
				refused++
			}
			if want, applied := productTests[test.ID]; applied {
				document := withProfileVEX(t, filepath.Join(data, one.Name))
				if _, err := vex.Read(one.Name, strings.NewReader(document), vex.Limits{}); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s is invalid by %s: got %v, want an error with %q", one.Name, test.ID, err, want)
				}
				products++
			}
		}
		for _, one := range test.Valid {
			if readPublished(t, filepath.Join(data, one.Name), true) {
				read++
			}
			if productTests[test.ID] != "" {
				if _, err := vex.Read(one.Name, strings.NewReader(withProfileVEX(t, filepath.Join(data, one.Name))), vex.Limits{}); err != nil {
					t.Errorf("%s is valid: %v", one.Name, err)
				}
				products++
			}
		}
	}
	if products < 20 {
		t.Errorf("%d documents about products were compared", products)
	}
	t.Logf("%d invalid documents were refused and %d valid ones read", refused, read)
	if refused < 5 || read < 5 {
		t.Errorf("%d invalid documents were refused and %d valid ones read", refused, read)
	}
}

// profileVEX are the mandatory tests of CSAF that are applied, of those about the profile VEX.
var profileVEX = []string{"6.1.27.4", "6.1.27.5", "6.1.27.7", "6.1.27.8", "6.1.27.9", "6.1.27.10", "6.1.27.11"}

// productTests are the mandatory tests of CSAF about products, with what the error says. Their documents have no profile.
var productTests = map[string]string{
	"6.1.1": "is not defined in the product_tree", "6.1.2": "is defined twice", "6.1.3": "is made of itself", "6.1.4": "is not defined in the product_tree",
	"6.1.5": "is defined twice", "6.1.6": ", too",
}

// withProfileVEX is a document with what the profile VEX requires in addition, so that only the test that it was written for can fail.
func withProfileVEX(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var document map[string]any
	if err := json.Unmarshal(content, &document); err != nil {
		t.Fatal(err)
	}
	document["document"].(map[string]any)["category"] = "csaf_vex"
	tree, _ := document["product_tree"].(map[string]any)
	added, _ := tree["full_product_names"].([]any)
	tree["full_product_names"] = append(added, map[string]any{"name": "added", "product_id": "ADDED"})
	vulnerabilities, _ := document["vulnerabilities"].([]any)
	if len(vulnerabilities) == 0 {
		vulnerabilities = []any{map[string]any{}}
	}
	for _, one := range vulnerabilities {
		v := one.(map[string]any)
		v["notes"] = []any{map[string]any{"category": "other", "text": "x"}}
		if v["cve"] == nil {
			v["cve"] = "CVE-2026-0001"
		}
		statuses, _ := v["product_status"].(map[string]any)
		if statuses == nil {
			statuses = map[string]any{}
		}
		investigated, _ := statuses["under_investigation"].([]any)
		statuses["under_investigation"], v["product_status"] = append(investigated, "ADDED"), statuses
		threats, _ := v["threats"].([]any)
		remediations, _ := v["remediations"].([]any)
		if products := statuses["known_not_affected"]; products != nil {
			v["threats"] = append(threats, map[string]any{"category": "impact", "details": "x", "product_ids": products})
		}
		if products := statuses["known_affected"]; products != nil {
			v["remediations"] = append(remediations, map[string]any{"category": "mitigation", "details": "x", "product_ids": products})
		}
	}
	document["vulnerabilities"] = vulnerabilities
	changed, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	return string(changed)
}
