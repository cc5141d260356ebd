package match_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/anchore/syft/syft/linux"
	syftpkg "github.com/anchore/syft/syft/pkg"

	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/model"
	samples "github.com/scanner-operator/scanner-operator/internal/vulndb/sample"
)

// held returns the packages of an image that take part in matching.
func held(t *testing.T, i *image) []model.Package {
	t.Helper()
	var packages []model.Package
	for _, held := range i.decode(t).Catalog().Packages {
		if !held.Excluded {
			packages = append(packages, held.Package)
		}
	}
	return packages
}

// vulnerabilities lists what a package has.
func vulnerabilities(t *testing.T, database *match.Database, p model.Package) []string {
	t.Helper()
	answers, err := database.MatchPackages(t.Context(), []model.Package{p})
	if err != nil {
		t.Fatal(err)
	}
	answer := answers[p.Fingerprint]
	if answer.Failure != "" {
		t.Fatal(answer.Failure)
	}
	var ids []string
	for i := range answer.Findings {
		ids = append(ids, answer.Findings[i].Vulnerability.ID)
	}
	slices.Sort(ids)
	return ids
}

// A package of each ecosystem in another version is the package that an image with this version holds, and has its vulnerabilities.
func TestInVersion(t *testing.T) {
	document, err := samples.Load()
	if err != nil {
		t.Fatal(err)
	}
	database := openSample(t)
	tried := map[string]int{}
	for _, a := range document.Advisories {
		for _, affected := range a.Affected {
			if affected.Fixed == "" {
				continue
			}
			tried[strings.Fields(affected.In)[0]]++
			before := held(t, made(t, affected, affected.Example))[0]
			want := held(t, made(t, affected, fixedVersion(affected)))[0]
			got, err := match.InVersion(&before, fixedVersion(affected))
			if err != nil {
				t.Fatal(err)
			}
			if got.Fingerprint != want.Fingerprint || got.Version != want.Version || got.PURL != want.PURL || !slices.Equal(got.CPEs, want.CPEs) {
				t.Errorf("%s in %s:\n%s %s %v\n%s, want\n%s %s %v\n%s", affected.Name, affected.In, got.Version, got.PURL, got.CPEs, got.MatchInput, want.Version, want.PURL, want.CPEs, want.MatchInput)
			}
			if left := vulnerabilities(t, database, got); slices.Contains(left, a.ID) {
				t.Errorf("%s %s has %v", affected.Name, got.Version, left)
			}
			// And back: an older version opens what the newer one has not.
			if again, err := match.InVersion(&got, affected.Example); err != nil || again.Fingerprint != before.Fingerprint {
				t.Errorf("%s %s is another package: %v", affected.Name, affected.Example, err)
			} else if had := vulnerabilities(t, database, again); !slices.Contains(had, a.ID) {
				t.Errorf("%s %s has %v", affected.Name, affected.Example, had)
			}
		}
	}
	if len(tried) < 5 {
		t.Errorf("only these were tried: %v", tried)
	}
}

// What another version inherits: the owner of its files, but not the packages with the version that is replaced; the version of its source, and the epoch.
func TestInVersionWithContext(t *testing.T) {
	database := openSample(t)
	owned := (&image{release: alpine}).add(apk("nginx", "1.20.1-r3", "nginx"), "/lib/apk/db/installed").
		add(binary("nginx", "1.21.0", "f5", "nginx"), "/usr/sbin/nginx").owns(0, 1)
	packages := held(t, owned)
	nginx := packages[slices.IndexFunc(packages, func(p model.Package) bool { return p.Type == "binary" })]
	older, err := match.InVersion(&nginx, "1.20.0")
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(vulnerabilities(t, database, older), ownedNginx) {
		t.Error("the distribution fixed the vulnerability in the owner")
	}

	twins := (&image{}).add(binary("nginx", "1.21.0", "f5", "nginx"), "/a").add(binary("nginx", "1.21.0", "other", "nginx"), "/b")
	one, err := match.InVersion(&held(t, twins)[0], "1.20.0")
	if err != nil {
		t.Fatal(err)
	}
	if alone := held(t, (&image{}).add(binary("nginx", "1.20.0", "f5", "nginx"), "/a"))[0]; one.Fingerprint != alone.Fingerprint {
		t.Errorf("%s, want %s", one.MatchInput, alone.MatchInput)
	}

	epoch := 0
	rpm := syftpkg.Package{
		Name: "libs", Version: "0:1.0-1", Type: syftpkg.RpmPkg,
		Metadata: syftpkg.RpmDBEntry{Name: "libs", Version: "1.0", Release: "1", Epoch: &epoch, SourceRpm: "source-1.0-1.src.rpm"},
	}
	rhel := func(p syftpkg.Package) model.Package {
		return held(t, (&image{release: &linux.Release{ID: "rhel", VersionID: "9.4"}}).add(p, "/s"))[0]
	}
	libs := rhel(rpm)
	newer, err := match.InVersion(&libs, "1:1.0-2")
	if err != nil {
		t.Fatal(err)
	}
	want := rpm
	first := 1
	want.Version, want.Metadata = "1:1.0-2", syftpkg.RpmDBEntry{Name: "libs", Version: "1.0", Release: "2", Epoch: &first, SourceRpm: "source-1.0-2.src.rpm"}
	if want := rhel(want); newer.Fingerprint != want.Fingerprint {
		t.Errorf("%s, want %s", newer.MatchInput, want.MatchInput)
	}
	// A package with another version than its source: which source belongs to the new version is not known.
	rpm.Metadata = syftpkg.RpmDBEntry{Name: "libs", Version: "1.0", Release: "1", Epoch: &epoch, SourceRpm: "source-5.26-1.src.rpm"}
	libs = rhel(rpm)
	if _, err := match.InVersion(&libs, "1:1.0-2"); err == nil || !strings.Contains(err.Error(), "built from source 5.26-1") {
		t.Errorf("the source has another version: %v", err)
	}
}

func TestInVersionRefuses(t *testing.T) {
	p := held(t, (&image{}).add(npm("left-pad", "1.0.0"), "/s"))[0]
	python := held(t, (&image{}).add(syftpkg.Package{Name: "flask", Version: "1.0", Type: syftpkg.PythonPkg, Language: syftpkg.Python}, "/s"))[0]
	broken, old, jvm := p, p, p
	broken.MatchInput = []byte("{")
	old.MatchInput = []byte(strings.Replace(string(p.MatchInput), `"projection":3`, `"projection":2`, 1))
	jvm.MatchInput = []byte(strings.Replace(string(p.MatchInput), `"projection":3`, `"projection":3,"jvm":{"javaVersion":"21"}`, 1))
	for _, c := range []struct {
		p             model.Package
		version, want string
	}{
		{p, "", "1 to 255 bytes"},
		{p, strings.Repeat("1", match.MaxVersion+1), "1 to 255 bytes"},
		{broken, "2", "decode the matching input"},
		{old, "2", "read by another version of the operator"},
		{jvm, "2", "Java runtime"},
		{p, "latest", "does not begin with a number"},
		{p, "x.1", "does not begin with a number"},
		{p, "unknown", "does not begin with a number"},
		{python, "1.x", "is not a version that can be compared"},
	} {
		if _, err := match.InVersion(&c.p, c.version); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// Any version can be asked for, and any is matched or refused.
func FuzzInVersion(f *testing.F) {
	for _, version := range []string{"1.2.3", "1:2.3-4~bpo12+1", "v0.0.0-20200101000000-abcdef", "\x00", "*", "-", "cpe:2.3:a", "@%2f?#", "9999999999999999999999"} {
		f.Add(version)
	}
	database := openSample(f)
	all := (&image{release: &linux.Release{ID: "debian", VersionID: "12"}}).add(deb("zlib1g", "1:1.2.13", "zlib"), "/a").add(npm("lodash", "4.17.20"), "/b").
		add(binary("nginx", "1.20.0", "f5", "nginx"), "/c").add(javaArchive("org.apache", "log4j-core", "2.14.1"), "/d").add(goModule("golang.org/x/net", "v0.1.0", "f"), "/e")
	s := all.decodeWith(f, database.Imports())
	var packages []model.Package
	for _, held := range s.Catalog().Packages {
		packages = append(packages, held.Package)
	}
	f.Fuzz(func(t *testing.T, version string) {
		var others []model.Package
		for i := range packages {
			if other, err := match.InVersion(&packages[i], version); err == nil {
				others = append(others, other)
			} else if version == packages[i].Version {
				t.Errorf("%s: %v", packages[i].Name, err)
			}
		}
		answers, err := database.MatchPackages(t.Context(), others)
		if err != nil {
			t.Fatal(err)
		}
		for i := range others {
			if _, answered := answers[others[i].Fingerprint]; !answered {
				t.Errorf("%s %q has no answer", others[i].Name, version)
			}
		}
	})
}
