package vex_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/vex"
)

// The cases follow the algorithm of package-url/vers-spec, "Checking if a version is contained within a range".
func TestRanges(t *testing.T) {
	for text, want := range map[string]string{
		"vers:npm/*":                                "0.1.0 1.0.0 1.5.0 2.0.0 3.0.0",
		"vers:none/*":                               "",
		"vers:npm/1.0.0":                            "1.0.0",
		"vers:npm/=1.0.0|3.0.0":                     "1.0.0 3.0.0",
		"vers:npm/<1.5.0":                           "0.1.0 1.0.0",
		"vers:npm/<=1.5.0":                          "0.1.0 1.0.0 1.5.0",
		"vers:npm/>1.5.0":                           "2.0.0 3.0.0",
		"vers:npm/>=1.5.0":                          "1.5.0 2.0.0 3.0.0",
		"vers:npm/>=1.0.0|<2.0.0":                   "1.0.0 1.5.0",
		"vers:npm/>=1.0.0|!=1.5.0|<=2.0.0":          "1.0.0 2.0.0",
		"vers:npm/!=1.5.0":                          "0.1.0 1.0.0 2.0.0 3.0.0",
		"vers:npm/<1.0.0|>=1.5.0|<2.0.0|>=3.0.0":    "0.1.0 1.5.0 3.0.0",
		"vers:npm/0.1.0|>=1.5.0|<3.0.0":             "0.1.0 1.5.0 2.0.0",
		"vers:npm/>=1%2E0.0|<1.5.0":                 "1.0.0",
		">=1.0.0 | <2.0.0":                          "1.0.0 1.5.0",
		"vers:npm/<=1.0.0|>=2.0.0|<3.0.0":           "0.1.0 1.0.0 2.0.0",
		"vers:npm/>=nonsense":                       "",
		"vers:npm/<1.0.0|>=nonsense|<also-nonsense": "0.1.0",
	} {
		r, err := vex.ParseRange(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var got []string
		for _, version := range []string{"0.1.0", "1.0.0", "1.5.0", "2.0.0", "3.0.0"} {
			if r.Contains(semantic{}, "npm", version) {
				got = append(got, version)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s contains %v, want %s", text, got, want)
		}
		if !strings.HasSuffix(text, "*") && r.Contains(semantic{}, "npm", "") {
			t.Errorf("%s contains no version", text)
		}
	}
	for _, text := range []string{
		"", "vers:npm", "vers:npm/", "vers:npm/<", "vers:npm/1.0|", "vers:npm/<1.0.0|<2.0.0", "vers:npm/>1|>=2", "vers:npm/1 2", "vers:npm/>=1,<2", "vers:npm/%zz",
		"vers:npm/=>1", strings.Repeat("1|", 101) + "1", strings.Repeat("1", 3000), `vers:npm/"1"`, "vers:npm/1||2", "vers:npm/1%7C%7C2",
		"vers:npm/1.*", "vers:npm/1%2A", "vers:npm/%2A", "vers:npm/>=1*|<2", "vers:npm/1%092", "vers:npm/~1", "vers:npm/^1",
	} {
		if r, err := vex.ParseRange(text); err == nil {
			t.Errorf("%.60q is accepted as %v", text, r)
		}
	}
}

// everything is a comparison in which all versions satisfy all constraints.
type everything struct{ constraints []string }

func (e *everything) Satisfies(_, _, constraint string) (bool, error) {
	e.constraints = append(e.constraints, constraint)
	return true, nil
}

// TestExactVersionsAreNoConstraints: a version that documents state is compared as one version, and as a text if it cannot be one. Nothing else reaches the
// parser of constraints.
func TestExactVersionsAreNoConstraints(t *testing.T) {
	for _, version := range []string{
		"1.0 || >0", "1.0,>0", ">0", "=1", "!=1", "*", "1.*", "1.0*", "~1", "^1", "1.0\t", "1.0\n|| >0", "1.0 ", "(1.0)", "1.0\u00a0", "1.0\u2028",
	} {
		for name, text := range map[string]string{
			"product of CSAF":     csaf(fmt.Sprintf(`"branches": [{"category": "product_version", "name": %s, "product": {"name": "n", "product_id": "P1", "product_identification_helper": {"purl": "pkg:npm/a"}}}]`, quote(version)), notAffectedP1),
			"component":           cycloneDX(fmt.Sprintf(`"components": [{"type": "library", "bom-ref": "a", "name": "a", "version": %s, "purl": "pkg:npm/a"}],`, quote(version)), cdxNotCalled, cdxRefA),
			"version of affected": cycloneDX(`"components": [{"type": "library", "bom-ref": "a", "name": "a", "purl": "pkg:npm/a"}],`, cdxNotCalled, fmt.Sprintf(`{"ref": "a", "versions": [{"version": %s, "status": "unaffected"}]}`, quote(version))),
		} {
			products := read(t, text).Statements[0].Products
			if len(products) != 1 || products[0].Versions == nil {
				t.Fatalf("%s, %q: %+v", name, version, products)
			}
			all := &everything{}
			if products[0].Versions.Contains(all, "npm", "2.0.0") || len(all.constraints) > 0 {
				t.Errorf("%s: %q contains another version, and %q was compared", name, version, all.constraints)
			}
			if !products[0].Versions.Contains(all, "npm", version) {
				t.Errorf("%s: %q does not contain itself", name, version)
			}
		}
	}
	for _, version := range []string{"1.0", "1:1.0-1~rc1+b1", "1.0^20260101git", "v1.2.3-0.20260101000000-abcdef+incompatible", "1.0_p1"} {
		all := &everything{}
		r, err := vex.ParseRange(version)
		if err != nil || !r.Contains(all, "deb", "2") || len(all.constraints) != 1 || all.constraints[0] != "="+version {
			t.Errorf("%q is not compared: %v, %q", version, err, all.constraints)
		}
	}
}
