//go:build vexexamples

package vex_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestPublishedExamples reads the examples of CSAF and CycloneDX, and the tests for validators of CSAF that concern the profile VEX, in the directory VEX_EXAMPLES:
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
