package match_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/anchore/syft/syft/linux"
	syftpkg "github.com/anchore/syft/syft/pkg"

	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/model"
	samples "github.com/scanner-operator/scanner-operator/internal/vulndb/sample"
)

// TestSampleAdvisories proves of every entry of the sample database that it matches the version that it names as an
// example, with its severity and score, and not the one that it calls fixed.
func TestSampleAdvisories(t *testing.T) {
	document, err := samples.Load()
	if err != nil {
		t.Fatal(err)
	}
	database := openSample(t)
	find := func(t *testing.T, affected samples.Affected, version, id string) *model.Finding {
		t.Helper()
		catalog, result := matchImage(t, database, made(t, affected, version))
		for _, f := range match.Findings(catalog, result) {
			if f.Vulnerability.ID == id {
				return &f
			}
		}
		return nil
	}
	for _, a := range document.Advisories {
		t.Run(a.ID, func(t *testing.T) {
			for _, affected := range a.Affected {
				f := find(t, affected, affected.Example, a.ID)
				if f == nil {
					t.Errorf("%s: %s %s does not match", affected.In, affected.Name, affected.Example)
					continue
				}
				checkFinding(t, a, affected, f)
				if affected.Fixed != "" && find(t, affected, fixedVersion(affected), a.ID) != nil {
					t.Errorf("%s: %s %s matches although it is fixed", affected.In, affected.Name, affected.Fixed)
				}
			}
		})
	}
}

func checkFinding(t *testing.T, a samples.Advisory, affected samples.Affected, f *model.Finding) {
	t.Helper()
	if f.Vulnerability.Severity.String() != a.Severity {
		t.Errorf("the severity is %s, not %s", f.Vulnerability.Severity, a.Severity)
	}
	if a.CVSS != nil && (len(f.Vulnerability.CVSS) != 1 || math.Abs(f.Vulnerability.CVSS[0].Score-a.CVSS.Score) > 0.001) {
		t.Errorf("the score is %v, not %.1f", f.Vulnerability.CVSS, a.CVSS.Score)
	}
	if a.EPSS != nil && (f.Vulnerability.EPSS == nil || f.Vulnerability.EPSS.Score != a.EPSS.Score) {
		t.Errorf("EPSS is %v", f.Vulnerability.EPSS)
	}
	if a.KEV != nil && len(f.Vulnerability.KEV) != 1 {
		t.Errorf("KEV is %v", f.Vulnerability.KEV)
	}
	state := model.FixStateFixed
	if affected.State != "" {
		state = model.FixState(affected.State)
	}
	// Of several ranges, those that are fixed decide.
	if f.Fix.State != state && f.Fix.State != model.FixStateFixed {
		t.Errorf("the fix state is %s, not %s", f.Fix.State, state)
	}
}

func fixedVersion(a samples.Affected) string {
	switch {
	case a.In != "go":
		return a.Fixed
	case a.Name == "stdlib":
		return "go" + a.Fixed
	}
	return "v" + a.Fixed
}

// made is an image with one package.
func made(t *testing.T, a samples.Affected, version string) *image {
	t.Helper()
	kind, release, _ := strings.Cut(a.In, " ")
	switch kind {
	case "debian":
		return (&image{release: &linux.Release{ID: "debian", VersionID: release}}).add(deb("made", version, a.Name), "/s")
	case "alpine":
		return (&image{release: &linux.Release{ID: "alpine", VersionID: release + ".0"}}).add(apk("made", version, a.Name), "/s")
	case "redhat":
		return (&image{release: &linux.Release{ID: "rhel", VersionID: release + ".4"}}).add(syftpkg.Package{
			Name: a.Name, Version: version, Type: syftpkg.RpmPkg, Metadata: syftpkg.RpmDBEntry{Name: a.Name, Version: version},
		}, "/s")
	case "npm":
		return (&image{}).add(npm(a.Name, version), "/s")
	case "python":
		return (&image{}).add(syftpkg.Package{
			Name: a.Name, Version: version, Type: syftpkg.PythonPkg, Language: syftpkg.Python,
			Metadata: syftpkg.PythonPackage{Name: a.Name, Version: version},
		}, "/s")
	case "go":
		return (&image{}).add(syftpkg.Package{
			Name: a.Name, Version: version, Type: syftpkg.GoModulePkg, Language: syftpkg.Go,
			Metadata: syftpkg.GolangBinaryBuildinfoEntry{MainModule: "example.com/app"},
		}, "/s")
	case "java":
		group, name, _ := strings.Cut(a.Name, ":")
		return (&image{}).add(syftpkg.Package{
			Name: name, Version: version, Type: syftpkg.JavaPkg, Language: syftpkg.Java,
			PURL: fmt.Sprintf("pkg:maven/%s/%s@%s", group, name, version),
		}, "/s")
	case "cpe":
		vendor, product, _ := strings.Cut(a.Name, ":")
		return (&image{}).add(binary(product, version, vendor, product), "/s")
	}
	t.Fatalf("%q is no place that is known", a.In)
	return nil
}
