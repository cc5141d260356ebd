package vex_test

import (
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
	} {
		if r, err := vex.ParseRange(text); err == nil {
			t.Errorf("%.60q is accepted as %v", text, r)
		}
	}
}
