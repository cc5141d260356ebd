package match_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/dbtest"
)

const ownedNginx = "CVE-2021-23017" // fixed in nginx 1.20.1-r3 of Alpine

// fingerprintOf returns the fingerprint of the first package of a name that takes part in matching.
func fingerprintOf(t *testing.T, i *image, name, version string) string {
	t.Helper()
	for _, held := range i.decode(t).Catalog().Packages {
		if held.Package.Name == name && held.Package.Version == version && !held.Excluded {
			return held.Package.Fingerprint
		}
	}
	t.Fatalf("there is no %s %s", name, version)
	return ""
}

// vulnerable says whether a package of an image has a vulnerability.
func vulnerable(t *testing.T, database *match.Database, i *image, kind, id string) bool {
	t.Helper()
	catalog, result := matchImage(t, database, i)
	for _, f := range match.Findings(catalog, result) {
		if f.Package.Type == kind && f.Vulnerability.ID == id {
			return true
		}
	}
	return false
}

// An owner silences what it owns, in its image and nowhere else.
func TestOwners(t *testing.T) {
	database := openSample(t)
	owner := func(version string) *image {
		return (&image{release: alpine}).add(apk("nginx", version, "nginx"), "/lib/apk/db/installed").
			add(binary("nginx", "1.20.0", "f5", "nginx"), "/usr/sbin/nginx")
	}
	other := func(version string) *image {
		return owner(version).add(apk("tools", "5-r0", "tools"), "/lib/apk/db/installed")
	}
	tests := []struct {
		name  string
		image *image
		want  bool
	}{
		{"nobody", owner("1.20.1-r3"), true},
		{"one that is fixed", owner("1.20.1-r3").owns(0, 1), false},
		{"another version that is not", owner("1.19.0-r0").owns(0, 1), true},
		{"two, one of them fixed", other("1.20.1-r3").owns(0, 1).owns(2, 1), false},
		{"two, the other way round", other("1.20.1-r3").owns(2, 1).owns(0, 1), false},
		{"two, none of them fixed", other("1.19.0-r0").owns(0, 1).owns(2, 1), true},
		{"one of two that owns nothing is fixed", other("1.20.1-r3").owns(2, 1), true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := vulnerable(t, database, test.image, "binary", ownedNginx); got != test.want {
				t.Errorf("the binary is vulnerable: %t, want %t", got, test.want)
			}
		})
	}
}

func TestContextIsPartOfTheFingerprint(t *testing.T) {
	plain := func() *image {
		return (&image{release: alpine}).add(binary("tool", "1.0", "v", "tool"), "/usr/bin/tool").
			add(apk("one", "5-r0", ""), "/lib/apk/db/installed").add(apk("two", "6-r0", ""), "/lib/apk/db/installed")
	}
	alone := fingerprintOf(t, plain(), "tool", "1.0")
	if got := fingerprintOf(t, plain().add(npm("more", "1"), "/x"), "tool", "1.0"); got != alone {
		t.Error("a package that has nothing to do with it changes the fingerprint")
	}
	one, two := fingerprintOf(t, plain().owns(1, 0), "tool", "1.0"), fingerprintOf(t, plain().owns(2, 0), "tool", "1.0")
	both := fingerprintOf(t, plain().owns(1, 0).owns(2, 0), "tool", "1.0")
	named := fingerprintOf(t, plain().add(withLanguage(binary("tool", "1.0", "w", "tool")), "/opt/tool"), "tool", "1.0")
	seen := map[string]string{}
	for name, f := range map[string]string{"alone": alone, "one owner": one, "another": two, "both": both, "a namesake": named} {
		if other, twice := seen[f]; twice {
			t.Errorf("%s and %s have the same fingerprint", name, other)
		}
		seen[f] = name
	}
	if got := fingerprintOf(t, plain().owns(2, 0).owns(1, 0), "tool", "1.0"); got != both {
		t.Error("the order of owners changes the fingerprint")
	}
	for name, i := range map[string]*image{
		"an owner that is left out": plain().add(binary("one", "5", "v", "one"), "/usr/bin/one").owns(1, 3).owns(3, 0),
		"another version":           plain().add(binary("tool", "1.1", "v", "tool"), "/opt/tool"),
		"another type":              plain().add(npm("tool", "1.0"), "/opt/tool"),
		"itself twice":              plain().add(binary("tool", "1.0", "v", "tool"), "/opt/tool"),
	} {
		if got := fingerprintOf(t, i, "tool", "1.0"); got != alone {
			t.Errorf("%s is part of the fingerprint", name)
		}
	}
}

// Binaries differ in thousands of symbols; a package must not carry along those of all others.
func TestSymbolsOfNamesakesAreNoContext(t *testing.T) {
	i := (&image{}).add(goModule("example.com/a", "v1.0.0", "one"), "/one").add(goModule("example.com/a", "v1.0.0", "two"), "/two")
	for _, held := range i.decode(t).Catalog().Packages {
		if strings.Contains(string(held.Package.MatchInput), "namesakes") {
			t.Errorf("the input is %s", held.Package.MatchInput)
		}
	}
}

func TestContextIsBounded(t *testing.T) {
	i := &image{}
	for n := range 60 {
		i.add(binary("same", "1.0", fmt.Sprint("vendor", n), "same"), fmt.Sprint("/", n))
	}
	_, err := match.Decode(strings.NewReader(string(i.encode(t))), match.DecodeLimits{ContextBytes: 10_000}, nil)
	if !errors.Is(err, match.ErrLimit) {
		t.Errorf("got %v", err)
	}
}

// A record that says that a package is not affected holds for all of its name and version in the image.
func TestNamesakes(t *testing.T) {
	const unaffect = `INSERT INTO unaffected_package_handles (vulnerability_id, operating_system_id, package_id, blob_id)
		SELECT h.vulnerability_id, NULL, h.package_id, h.blob_id FROM affected_package_handles h
		JOIN packages p ON p.id = h.package_id WHERE p.name = 'lodash'`
	installed := dbtest.Sample(t)
	change(t, installed, unaffect,
		`UPDATE packages SET ecosystem = 'java-archive', name = 'org.known:lodash' WHERE name = 'lodash'`,
		`INSERT INTO packages (ecosystem, name) VALUES ('java-archive', 'org.other:lodash')`,
		`INSERT INTO affected_package_handles (vulnerability_id, package_id, blob_id)
			SELECT vulnerability_id, (SELECT id FROM packages WHERE name = 'org.other:lodash'), blob_id FROM unaffected_package_handles`,
	)
	database := open(t, installed)
	const id = "GHSA-35jh-r3h4-6jhm"
	affected, known := javaArchive("org.other", "lodash", "4.17.20"), javaArchive("org.known", "lodash", "4.17.20")
	if !vulnerable(t, database, (&image{}).add(affected, "/a"), "java-archive", id) {
		t.Fatal("the package is not affected by itself")
	}
	if vulnerable(t, database, (&image{}).add(affected, "/a").add(known, "/b"), "java-archive", id) {
		t.Error("the namesake's record does not count")
	}
	later := javaArchive("org.known", "lodash", "4.17.19")
	if !vulnerable(t, database, (&image{}).add(affected, "/a").add(later, "/b"), "java-archive", id) {
		t.Error("the record of another version counts")
	}
}

func TestMergedUnitsKeepAllLocations(t *testing.T) {
	i := (&image{release: alpine}).add(apk("one", "5-r0", ""), "/lib/apk/db/installed").
		add(binary("tool", "1.0", "v", "tool"), "/a").add(binary("tool", "1.0", "v", "tool"), "/b").
		add(binary("tool", "1.0", "v", "tool"), "/c").owns(0, 3)
	got := map[int]int{}
	for _, held := range i.decode(t).Catalog().Packages {
		if held.Package.Name == "tool" {
			got[len(held.Locations)]++
		}
	}
	if diff := cmp.Diff(map[int]int{1: 1, 2: 1}, got); diff != "" {
		t.Errorf("units by number of locations (-want +got):\n%s", diff)
	}
}

// Images list owners in any order.
func TestDistinct(t *testing.T) {
	got := match.Distinct([]json.RawMessage{[]byte("b"), []byte("a"), []byte("b"), []byte("aa")})
	want := []json.RawMessage{[]byte("a"), []byte("aa"), []byte("b")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
