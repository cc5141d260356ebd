package report_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/report"
)

const imageID = "registry.example.com:5000/team/Web-App@sha256:1e42bbe2508154c9126d48c2b8a75420c3544343bf86fd041fb7527e017a4b4a"

// packageOf makes a package whose fingerprint follows from its name.
func packageOf(name, version string) model.Package {
	return model.Package{
		Fingerprint: fmt.Sprintf("%064x", name+version), Name: name, Version: version, Type: "deb",
		PURL: "pkg:deb/debian/" + name + "@" + version + "?arch=amd64", Distro: "debian:12",
	}
}

func findingOf(p model.Package, id string, severity model.Severity, fixed ...string) model.Finding {
	f := model.Finding{Package: p}
	f.Vulnerability = model.Vulnerability{ID: id, Namespace: "debian:distro:debian:12", Severity: severity, DataSource: "https://security-tracker.debian.org/tracker/" + id}
	f.Fix = model.Fix{State: model.FixStateNotFixed}
	if len(fixed) > 0 {
		f.Fix = model.Fix{State: model.FixStateFixed, Versions: fixed}
	}
	return f
}

// inputOf makes an input of packages and findings.
func inputOf(packages []model.HeldPackage, findings []model.Finding) report.Input {
	return report.Input{
		ImageID: imageID, Platform: model.Platform{OS: "linux", Architecture: "amd64"}, Distro: "debian:12",
		SBOMSHA256:  strings.Repeat("ab", 32),
		Build:       &model.DatabaseBuild{ID: "xxh64:00ff", SchemaVersion: "v6.1.0", Built: time.Unix(1700000000, 0), Source: model.DatabaseSourceOfficial},
		MatchedAt:   time.Unix(1700000100, 0),
		ToolVersion: "v1.2.3",
		Packages: func(yield func(model.HeldPackage) error) error {
			for _, p := range packages {
				if err := yield(p); err != nil {
					return err
				}
			}
			return nil
		},
		Findings: func(yield func(model.Finding) error) error {
			for _, f := range findings {
				if err := yield(f); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// full is an image with everything that a report can contain, and with names that try to break out of it.
func full() report.Input {
	openssl, zlib := packageOf("openssl", "3.0.1-1"), packageOf("zlib1g", "1.2.13")
	openssl.Licenses, openssl.CPEs = []string{"apache-2.0", "Public Domain <b>", ""}, []string{"cpe:2.3:a:openssl:openssl:3.0.1:*:*:*:*:*:*:*", "cpe:2.3:a:b:c:*:*:*:*:*:*:*:*"}
	zlib.Licenses = []string{"Zlib OR (MIT AND GPL-2.0-only WITH Classpath-exception-2.0)"}
	hostile := model.Package{
		Fingerprint: strings.Repeat("f", 64), Name: "\"><script>alert(1)</script>\u2028\xff", Version: strings.Repeat("9", 3000), Type: "binary", Language: "c",
	}
	packages := []model.HeldPackage{
		{Package: openssl, Locations: []model.Location{{Path: "/var/lib/dpkg/status", Layer: "sha256:aa"}, {Path: "/usr/lib/\"x"}}},
		{Package: zlib, Excluded: true},
		{Package: hostile},
		{Package: openssl},
	}
	rich := findingOf(openssl, "CVE-2024-0001", model.SeverityCritical, "3.0.2-1", "")
	rich.Vulnerability.Aliases = []string{"GHSA-xxxx-yyyy-zzzz"}
	rich.Vulnerability.Description = "A <b>hole</b>."
	rich.Vulnerability.URLs = []string{"https://example.com/a b", "javascript:alert(1)", "://", "https://example.com/a b"}
	rich.Vulnerability.CWEs = []string{"CWE-79", "cwe-79", "NVD-CWE-noinfo", "CWE-x"}
	rich.Vulnerability.CVSS = []model.CVSS{
		{Version: "3.1", Vector: "CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H", Score: 9.8, Source: "nvd@nist.gov"},
		{Version: "2.0", Vector: "AV:N/AC:L/Au:N/C:P/I:P/A:P", Score: 7.5},
		{Version: "4.0", Vector: "CVSS:4.0/AV:N", Score: 5}, {Version: "3.0", Vector: "CVSS:3.0/AV:N", Score: 0.1}, {Version: "9", Score: 0},
	}
	rich.Vulnerability.EPSS = &model.EPSS{Score: 0.97, Percentile: 0.999, Date: "2026-01-01"}
	rich.Vulnerability.KEV = []model.KnownExploited{{CVE: "CVE-2024-0001", DateAdded: "2026-01-01", DueDate: "2026-02-01", RequiredAction: "Apply.", KnownRansomwareUse: "Known"}}
	rich.Vulnerability.Risk = 93.25
	second := findingOf(zlib, "CVE-2024-0001", model.SeverityCritical)
	other := findingOf(hostile, "CVE-2023-0002", model.SeverityNegligible, strings.Repeat("1", 3000))
	sameID := findingOf(openssl, "CVE-2024-0001", model.SeverityLow)
	sameID.Vulnerability.Namespace = "nvd:cpe"
	return inputOf(packages, []model.Finding{rich, second, other, sameID})
}

func write(t *testing.T, in report.Input) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := report.CycloneDX(&b, in); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func decode(t *testing.T, data []byte) *cdx.BOM {
	t.Helper()
	bom := new(cdx.BOM)
	if err := cdx.NewBOMDecoder(bytes.NewReader(data), cdx.BOMFileFormatJSON).Decode(bom); err != nil {
		t.Fatal(err)
	}
	return bom
}

// schema compiles the CycloneDX 1.6 JSON schema that the cyclonedx-go module carries.
func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go").Output()
	if err != nil {
		t.Fatalf("the module cache with the CycloneDX schema cannot be found: %v", err)
	}
	compiler := jsonschema.NewCompiler()
	for resource, file := range map[string]string{
		"bom-1.6.schema.json": "bom-1.6.schema.json", "spdx.schema.json": "spdx.schema.json", "jsf-0.82.schema.json": "jsf-0.82.schemax.json",
	} {
		content, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "schema", file))
		if err != nil {
			t.Fatalf("the CycloneDX schema is not in the module cache: %v", err)
		}
		parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		if err := compiler.AddResource("http://cyclonedx.org/schema/"+resource, parsed); err != nil {
			t.Fatal(err)
		}
	}
	compiled, err := compiler.Compile("http://cyclonedx.org/schema/bom-1.6.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

func TestReportMeetsTheSchema(t *testing.T) {
	compiled := schema(t)
	bare := inputOf(nil, nil)
	bare.ImageID, bare.Build, bare.MatchedAt, bare.Distro = "sha256:1e42bbe2508154c9126d48c2b8a75420c3544343bf86fd041fb7527e017a4b4a", nil, time.Time{}, ""
	for name, in := range map[string]report.Input{"full": full(), "empty": inputOf(nil, nil), "bare": bare} {
		t.Run(name, func(t *testing.T) {
			parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(write(t, in)))
			if err != nil {
				t.Fatal(err)
			}
			if err := compiled.Validate(parsed); err != nil {
				t.Fatalf("%#v", err)
			}
		})
	}
}

func TestReportIsDeterministic(t *testing.T) {
	first := write(t, full())
	for range 20 {
		if !bytes.Equal(first, write(t, full())) {
			t.Fatal("the same state gave two reports")
		}
	}
	other := full()
	other.Build = &model.DatabaseBuild{ID: "xxh64:11"}
	if decode(t, first).SerialNumber == decode(t, write(t, other)).SerialNumber {
		t.Error("another database build has the same serial number")
	}
}

func TestReportContent(t *testing.T) {
	bom := decode(t, write(t, full()))
	if got, want := bom.Metadata.Component.PackageURL,
		"pkg:oci/web-app@sha256%3A1e42bbe2508154c9126d48c2b8a75420c3544343bf86fd041fb7527e017a4b4a?arch=amd64&repository_url=registry.example.com%3A5000%2Fteam%2FWeb-App"; got != want {
		t.Errorf("purl = %s, want %s", got, want)
	}
	refs := map[string]bool{}
	for _, c := range *bom.Components {
		if refs[c.BOMRef] {
			t.Errorf("bom-ref %q is not unique", c.BOMRef)
		}
		refs[c.BOMRef] = true
	}
	if len(refs) != 4 { // the distribution and three packages
		t.Errorf("components = %d, want 4", len(refs))
	}
	openssl := (*bom.Components)[1]
	want := cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}, {License: &cdx.License{Name: "Public Domain <b>"}}}
	if diff := cmp.Diff(&want, openssl.Licenses); diff != "" {
		t.Error(diff)
	}
	if got := (*(*bom.Components)[2].Licenses)[0].Expression; got == "" {
		t.Error("the licence expression of zlib is not an expression")
	}
	if n := len(*bom.Vulnerabilities); n != 3 {
		t.Fatalf("vulnerabilities = %d, want 3", n)
	}
	v := (*bom.Vulnerabilities)[1]
	if v.ID != "CVE-2024-0001" || v.Source.Name != "debian:distro:debian:12" || len(*v.Affects) != 2 {
		t.Errorf("vulnerability = %s of %s affects %d", v.ID, v.Source.Name, len(*v.Affects))
	}
	for _, a := range *v.Affects {
		if !refs[a.Ref] {
			t.Errorf("affects %q, which is no component", a.Ref)
		}
	}
	if v.Recommendation != "Upgrade openssl to version 3.0.2-1." {
		t.Errorf("recommendation = %q", v.Recommendation)
	}
	if diff := cmp.Diff([]int{79}, *v.CWEs); diff != "" {
		t.Error(diff)
	}
	for _, a := range *v.Advisories {
		if !strings.HasPrefix(a.URL, "https://") {
			t.Errorf("advisory %q", a.URL)
		}
	}
	methods := make([]cdx.ScoringMethod, 0, len(*v.Ratings))
	for _, r := range *v.Ratings {
		methods = append(methods, r.Method)
	}
	if diff := cmp.Diff([]cdx.ScoringMethod{
		cdx.ScoringMethodOther, cdx.ScoringMethodCVSSv31, cdx.ScoringMethodCVSSv2, cdx.ScoringMethodCVSSv4, cdx.ScoringMethodCVSSv3, cdx.ScoringMethodOther,
	}, methods); diff != "" {
		t.Error(diff)
	}
	if !slices.Contains(*v.Properties, cdx.Property{Name: "scanner-operator:kev", Value: "true"}) {
		t.Errorf("properties = %v", *v.Properties)
	}
}

func TestReportSummaryAgreesWithItself(t *testing.T) {
	body, err := json.Marshal(map[string]any{"imageId": imageID, "report": json.RawMessage(write(t, full()))})
	if err != nil {
		t.Fatal(err)
	}
	upload, err := report.ReadUpload(body, report.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	// CVE-2024-0001 counts once by its worst rating for two packages, then again in another namespace.
	want := report.Summary{SpecVersion: "1.6", Components: 4, Severities: model.SeverityCounts{Critical: 2, Low: 1, Negligible: 1}, KEV: 2, Fixable: 3}
	if diff := cmp.Diff(want, upload.Summary); diff != "" {
		t.Error(diff)
	}
}

func TestReportErrors(t *testing.T) {
	foreign := inputOf(nil, []model.Finding{findingOf(packageOf("ghost", "1"), "CVE-1", model.SeverityLow)})
	if err := report.CycloneDX(io.Discard, foreign); !errors.Is(err, report.ErrInconsistent) {
		t.Errorf("a finding without package: %v", err)
	}
	broken := errors.New("broken")
	failing := inputOf(nil, nil)
	failing.Packages = func(func(model.HeldPackage) error) error { return broken }
	if err := report.CycloneDX(io.Discard, failing); !errors.Is(err, broken) {
		t.Errorf("a store that fails: %v", err)
	}
	if err := report.CycloneDX(failingWriter{}, full()); err == nil {
		t.Error("a writer that fails went unnoticed")
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
