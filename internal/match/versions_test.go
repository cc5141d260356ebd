package match_test

import (
	"cmp"
	"strings"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/match"
)

func TestConstraint(t *testing.T) {
	for _, good := range []string{"<2.17", ">=1.0, <2.17", "<1||>2,<3", "= 1:2.3-4~deb12u1", "<=v1.2.3-rc.1+build", " > 0 ", "=3.0*", "<1, = 3.0* || =*"} {
		if err := (match.Versions{}).Constraint(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for bad, want := range map[string]string{
		"": "does not start", "2.17": "does not start", "<": "no version", "<1,": "does not start", "=<1": `"=<" is not`, "<1 2": "' '",
		"<1|2": `'|'`, "!=1": "does not start", "<é": "'é'", "<\x00": `'\x00'`, strings.Repeat("<1,", 20) + "<1": "limit of 20",
		"~1": "does not start", "(<1)": "does not start", "<3*": "only allowed at the end", "=3.*.1": "only allowed at the end", "=3**": "only allowed at the end",
		"=<3*": `"=<" is not`, "3*": "does not start",
	} {
		err := (match.Versions{}).Constraint(bad)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", bad, err, want)
		}
	}
}

func TestSatisfies(t *testing.T) {
	for _, test := range []struct {
		kind, version, constraint string
		want                      bool
	}{
		{"java-archive", "2.14.1", "<2.17", true},
		{"java-archive", "2.17.0", "<2.17", false},
		{"java-archive", "2.17.0-rc1", "<2.17", true},
		{"java-archive", "2.9.1", ">=2.10", false},
		{"deb", "1:1.2.11-4", "<1.2.13", false},
		{"deb", "1.2.11~rc1-1", "<1.2.11-1", true},
		{"apk", "1.2.3-r0", "<1.2.3-r1", true},
		{"rpm", "3.0.7-16.el9", ">=3.0.7-2.el9", true},
		{"go-module", "v0.9.1", ">=v0.9.0, <v0.10.0", true},
		{"npm", "1.2.3", "=1.2.3", true},
		{"npm", "4.17.20", "<1 || >=4.17.20", true},
		{"python", "2.0.0rc1", "<2.0.0", true},
		{"gem", "1.0.a", "<1.0", true},
		{"unheard-of", "7", ">6", true},
		{"npm", "1.2.3.4-not.semantic.", "<2", true}, // by guess
		{"deb", "3.0.11-1~deb12u2", "=3.0*", true},
		{"deb", "3.01-1", "=3.0*", true},
		{"deb", "3.1-1", "=3.0*", false},
		{"deb", "13.0-1", "=3.0*", false},
		{"deb", "3.0.11-1", "= 3.0*, <3.0.9-1", false},
		{"deb", "3.0.7-1", "<3.0.9-1, =3.0*", true},
		{"deb", "3.2-1", "=3.0*, <4 || =3.2*", true},
		{"deb", "3.2-1", "=3.0* || <3.3-1", true},
		{"deb", "3.2-1", "=3.2*, =3.0*", false},
		{"unheard-of", "not a version", "=not*", true},
	} {
		got, err := (match.Versions{}).Satisfies(test.kind, test.version, test.constraint)
		if got != test.want {
			t.Errorf("%s %s %s: %v, %v", test.kind, test.version, test.constraint, got, err)
		}
	}
}

func TestCompare(t *testing.T) {
	for _, test := range []struct {
		kind string
		// versions are in order.
		versions []string
	}{
		{"java-archive", []string{"2.9.1", "2.17.0-rc1", "2.17.0", "2.17.1"}},
		{"deb", []string{"1.2.11~rc1-1", "1.2.11-1", "1.2.11-1+deb12u2", "1.2.13-1", "1:1.0-1"}},
		{"apk", []string{"1.2.3_rc1-r0", "1.2.3-r0", "1.2.3-r1", "1.2.10-r0"}},
		{"rpm", []string{"0:3.0.7-2.el9", "0:3.0.7-16.el9", "1:1.0-1"}},
		{"go-module", []string{"v0.9.1", "v0.10.0", "v1.0.0"}},
		{"npm", []string{"4.17.20", "4.17.21", "5.0.0"}},
		{"python", []string{"2.0.0rc1", "2.0.0", "2.0.0.post1", "10.0"}},
		{"gem", []string{"1.0.a", "1.0", "1.0.1"}},
		{"unheard-of", []string{"6", "7"}},
		{"npm", []string{"1.2.3.4-not.semantic.", "2"}}, // by guess
	} {
		for i, a := range test.versions {
			for j, b := range test.versions {
				got, err := (match.Versions{}).Compare(test.kind, a, b)
				if err != nil || cmp.Compare(got, 0) != cmp.Compare(i, j) {
					t.Errorf("%s: %s compared with %s is %d, %v", test.kind, a, b, got, err)
				}
			}
		}
	}
}

// FuzzVersions: whatever passes for a constraint can be compared with whatever version.
func FuzzVersions(f *testing.F) {
	f.Add("deb", "1:1", "<2")
	f.Add("java-archive", "", ">=1.0, <2.17 || =3.0")
	f.Add("rpm", "~^", "=1e9999")
	f.Add("npm", "3.0.1", "=3.0*, <4 || =*")
	f.Fuzz(func(t *testing.T, kind, version, constraint string) {
		if len(constraint) > 256 || (match.Versions{}).Constraint(constraint) != nil {
			return
		}
		first, firstErr := (match.Versions{}).Satisfies(kind, version, constraint)
		second, secondErr := (match.Versions{}).Satisfies(kind, version, constraint)
		if first != second || (firstErr == nil) != (secondErr == nil) {
			t.Errorf("%v %v, then %v %v", first, firstErr, second, secondErr)
		}
		order, orderErr := (match.Versions{}).Compare(kind, version, constraint)
		again, againErr := (match.Versions{}).Compare(kind, version, constraint)
		if order != again || (orderErr == nil) != (againErr == nil) {
			t.Errorf("compared: %d %v, then %d %v", order, orderErr, again, againErr)
		}
	})
}
