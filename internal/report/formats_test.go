package report_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/owenrumney/go-sarif/sarif"
	"github.com/santhosh-tekuri/jsonschema/v6"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
	"sigs.k8s.io/yaml"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/report"
)

var formats = []report.Format{
	report.FormatTable, report.FormatJSON, report.FormatCycloneDX, report.FormatSPDX, report.FormatSARIF, report.FormatCSV,
}

func writeAs(t *testing.T, format report.Format, in report.Input) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := report.Write(&b, format, in); err != nil {
		t.Fatalf("%s: %v", format, err)
	}
	return b.Bytes()
}

// plain is an image of two packages without anything odd.
func plain() report.Input {
	openssl, zlib := packageOf("openssl", "3.0.1-1"), packageOf("zlib1g", "1.2.13")
	openssl.Licenses, openssl.CPEs = []string{"Apache-2.0"}, []string{"cpe:2.3:a:openssl:openssl:3.0.1:*:*:*:*:*:*:*"}
	low, high, ignored := findingOf(zlib, "CVE-2024-0003", model.SeverityLow), findingOf(openssl, "CVE-2024-0001", model.SeverityHigh, "3.0.2-1", "3.1.0", "", "3.0.2-1"), findingOf(zlib, "CVE-2024-0002", model.SeverityMedium)
	high.Vulnerability.Risk, low.Vulnerability.Risk = 93.25, 1
	high.Vulnerability.EPSS = &model.EPSS{Score: 0.9746}
	low.Vulnerability.EPSS = &model.EPSS{Score: 0.0004}
	high.Vulnerability.CVEs = []string{"CVE-2024-0001"}
	high.Vulnerability.KEV = []model.KnownExploited{{CVE: "CVE-2024-0001"}}
	high.Locations = []model.Location{{Path: "/var/lib/dpkg/status", Layer: "sha256:aa"}}
	high.Details = []model.MatchDetail{{Type: "exact-direct-match", Matcher: "dpkg-matcher", Found: json.RawMessage(`{"a":1}`), SearchedBy: json.RawMessage(`"x"`)}}
	ignored.Fix.State = model.FixStateWontFix
	return inputOf([]model.HeldPackage{{Package: openssl, Locations: high.Locations}, {Package: zlib}}, []model.Finding{low, ignored, high})
}

func TestTable(t *testing.T) {
	want := `VULNERABILITY  SEVERITY  PACKAGE  VERSION  FIXED-IN        TYPE  EPSS   RISK  KEV
CVE-2024-0001  High      openssl  3.0.1-1  3.0.2-1, 3.1.0  deb   97.5%  93.2  yes
CVE-2024-0003  Low       zlib1g   1.2.13                   deb   <0.1%  1.0
CVE-2024-0002  Medium    zlib1g   1.2.13   (won't fix)     deb          0.0
`
	got := strings.ReplaceAll(string(writeAs(t, report.FormatTable, plain())), " \n", "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	twice := findingOf(packageOf("zlib", "1"), "CVE-1", model.SeverityLow)
	again := twice
	again.Vulnerability.Namespace = "nvd:cpe"
	if got := string(writeAs(t, report.FormatTable, inputOf(nil, []model.Finding{twice, again}))); strings.Count(got, "\n") != 2 {
		t.Errorf("what looks alike is shown twice: %q", got)
	}
	if got := string(writeAs(t, report.FormatTable, inputOf(nil, nil))); got != "No vulnerabilities found.\n" {
		t.Errorf("without findings: %q", got)
	}
}

func TestTableIsHarmless(t *testing.T) {
	hostile := packageOf("a\x1b[2J\x1b]0;owned\x07\r\n\t\v\f\u009b31m\u202egpj\u2028\xff\x00b", strings.Repeat("9", 3000))
	hostile.Type = "np\x08m"
	out := string(writeAs(t, report.FormatTable, inputOf(nil, []model.Finding{findingOf(hostile, "CVE-1\n\x1b[1A", model.SeverityLow, "1\x1b[0m")})))
	for _, r := range out {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("%U reaches the terminal", r)
		}
	}
	if strings.Count(out, "\n") != 2 || len(out) > 500 {
		t.Errorf("the row is not one short line: %q", out)
	}
}

func TestCSV(t *testing.T) {
	out := writeAs(t, report.FormatCSV, plain())
	if bytes.Count(out, []byte("\r\n")) != 4 || bytes.Count(out, []byte("\n")) != 4 {
		t.Errorf("lines do not end with CRLF: %q", out)
	}
	rows, err := csv.NewReader(bytes.NewReader(out)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{
		{"vulnerability", "severity", "package", "version", "fixed_in", "type", "epss", "risk", "kev", "fix_state", "namespace", "purl", "locations", "data_source"},
		{"CVE-2024-0001", "High", "openssl", "3.0.1-1", "3.0.2-1 3.1.0", "deb", "0.9746", "93.25", "yes", "fixed", "debian:distro:debian:12", "pkg:deb/debian/openssl@3.0.1-1?arch=amd64", "/var/lib/dpkg/status", "https://security-tracker.debian.org/tracker/CVE-2024-0001"},
	}
	if diff := cmp.Diff(want, rows[:2]); diff != "" {
		t.Error(diff)
	}
}

func TestCSVHoldsNoFormulas(t *testing.T) {
	for name, want := range map[string]string{
		"=cmd|' /C calc'!A0": "'=cmd|' /C calc'!A0", "+1": "'+1", "-1": "'-1", "@types/node": "'@types/node", "  =1": "'  =1",
		"\t=1": "'=1", "\r\n=1": "'=1", "\x00=1": "'=1", "\u202e=1": "'=1", "＝1": "'＝1",
		"a=1": "a=1", `a"b,c` + "\n": `a"b,c`, "": "", "\xff": "\uFFFD", "lodash": "lodash",
	} {
		out := writeAs(t, report.FormatCSV, inputOf(nil, []model.Finding{findingOf(packageOf(name, "1"), "CVE-1", model.SeverityLow)}))
		rows, err := csv.NewReader(bytes.NewReader(out)).ReadAll()
		if err != nil || len(rows) != 2 {
			t.Fatalf("%q: %d rows, %v", name, len(rows), err)
		}
		if rows[1][2] != want {
			t.Errorf("%q became %q, want %q", name, rows[1][2], want)
		}
	}
}

func TestJSONIsWhatTheAPIAnswers(t *testing.T) {
	content, err := os.ReadFile("../../openapi/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if content, err = yaml.YAMLToJSON(content); err != nil {
		t.Fatal(err)
	}
	pageSchema := compile(t, content, "openapi.json", "#/components/schemas/FindingPage")
	for name, in := range map[string]report.Input{"full": full(), "plain": plain(), "empty": inputOf(nil, nil)} {
		out := writeAs(t, report.FormatJSON, in)
		valid(t, name, pageSchema, out)
		if bytes.Contains(out, []byte(`"cves"`)) {
			t.Errorf("%s: the API has no cves", name)
		}
		var page struct {
			ImageID string
			Total   int
			Items   []struct {
				Vulnerability struct{ ID string }
				Details       []struct{ SearchedBy json.RawMessage }
			}
		}
		if err := json.Unmarshal(out, &page); err != nil {
			t.Fatal(err)
		}
		if page.ImageID != imageID || page.Total != len(page.Items) {
			t.Errorf("%s: image %q, %d of %d findings", name, page.ImageID, len(page.Items), page.Total)
		}
		if name == "plain" && (page.Items[0].Vulnerability.ID != "CVE-2024-0001" || page.Items[0].Details[0].SearchedBy != nil) {
			t.Errorf("the first finding is %+v", page.Items[0])
		}
	}
}

func TestSPDXFollowsItsSchema(t *testing.T) {
	schema := compile(t, moduleFile(t, "github.com/anchore/syft", "schema/spdx-json/spdx-schema-2.3.json"), "spdx.json", "")
	for name, in := range map[string]report.Input{"full": full(), "plain": plain(), "empty": inputOf(nil, nil), "file": {ImageID: "./my image.tar", Packages: plain().Packages, Findings: plain().Findings}} {
		out := writeAs(t, report.FormatSPDX, in)
		valid(t, name, schema, out)
		document := new(v2_3.Document)
		if err := spdxjson.ReadInto(bytes.NewReader(out), document); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	document := new(v2_3.Document)
	if err := spdxjson.ReadInto(bytes.NewReader(writeAs(t, report.FormatSPDX, full())), document); err != nil {
		t.Fatal(err)
	}
	if len(document.Packages) != 4 || len(document.Relationships) != 4 { // the image and three packages
		t.Fatalf("%d packages, %d relationships", len(document.Packages), len(document.Relationships))
	}
	ids := map[string]bool{}
	for _, p := range document.Packages {
		ids[string(p.PackageSPDXIdentifier)] = true
	}
	if len(ids) != 4 {
		t.Errorf("the identifiers are not unique: %v", ids)
	}
	openssl, zlib := document.Packages[1], document.Packages[2]
	if len(document.OtherLicenses) != 1 || document.OtherLicenses[0].ExtractedText != "Public Domain <b>" ||
		openssl.PackageLicenseDeclared != "Apache-2.0 AND "+document.OtherLicenses[0].LicenseIdentifier {
		t.Errorf("licence %q, defined %+v", openssl.PackageLicenseDeclared, document.OtherLicenses)
	}
	if zlib.PackageLicenseDeclared != "Zlib OR (MIT AND GPL-2.0-only WITH Classpath-exception-2.0)" || zlib.PackageComment == "" {
		t.Errorf("zlib is %+v", zlib)
	}
	var advisories []string
	for _, r := range openssl.PackageExternalReferences {
		if r.RefType == "advisory" {
			advisories = append(advisories, r.Locator+" "+r.ExternalRefComment)
		}
	}
	want := []string{
		"https://security-tracker.debian.org/tracker/CVE-2024-0001 CVE-2024-0001, severity Critical, fixed in 3.0.2-1, known to be exploited",
		"https://security-tracker.debian.org/tracker/CVE-2024-0001 CVE-2024-0001, severity Low",
	}
	if diff := cmp.Diff(want, advisories); diff != "" {
		t.Error(diff)
	}
}

func TestSPDXWithoutAddress(t *testing.T) {
	p := packageOf("a", "1")
	f := findingOf(p, "ID with space", model.SeverityHigh)
	f.Vulnerability.DataSource = "javascript:alert(1)"
	out := string(writeAs(t, report.FormatSPDX, inputOf([]model.HeldPackage{{Package: p}}, []model.Finding{f})))
	if strings.Contains(out, "javascript") || !strings.Contains(out, `"ID%20with%20space"`) {
		t.Error(out)
	}
}

func TestSARIFFollowsItsSchema(t *testing.T) {
	schema := compile(t, moduleFile(t, "github.com/anchore/grype", "grype/presenter/sarif/testdata/sarif-schema-2.1.0.json"), "sarif.json", "")
	odd := packageOf("c:\\a b%zz", "1")
	oddFinding := findingOf(odd, "CVE-2", model.SeverityUnknown)
	oddFinding.Locations = []model.Location{{Path: "//x:y/../ü %\x1b?#"}, {Path: ""}}
	oddFinding.Vulnerability.DataSource = "not a URL"
	for name, in := range map[string]report.Input{
		"full": full(), "plain": plain(), "empty": inputOf(nil, nil), "odd": inputOf([]model.HeldPackage{{Package: odd}}, []model.Finding{oddFinding}),
		"file": {ImageID: "../x:y/my image.tar", Packages: plain().Packages, Findings: plain().Findings},
	} {
		out := writeAs(t, report.FormatSARIF, in)
		valid(t, name, schema, out)
		if _, err := sarif.FromBytes(out); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	document, err := sarif.FromBytes(writeAs(t, report.FormatSARIF, full()))
	if err != nil {
		t.Fatal(err)
	}
	run := document.Runs[0]
	if len(run.Tool.Driver.Rules) != 2 || len(run.Results) != 4 {
		t.Fatalf("%d rules, %d results", len(run.Tool.Driver.Rules), len(run.Results))
	}
	for i, r := range run.Results {
		if run.Tool.Driver.Rules[*r.RuleIndex].ID != *r.RuleID {
			t.Errorf("result %d of %s names the rule %d", i, *r.RuleID, *r.RuleIndex)
		}
	}
	first, rule := run.Results[0], run.Tool.Driver.Rules[0]
	if *first.Level != "error" || *first.Message.Text != "openssl 3.0.1-1 (deb) is affected by CVE-2024-0001, which is fixed in 3.0.2-1." {
		t.Errorf("the first result is %s: %s", *first.Level, *first.Message.Text)
	}
	if rule.Properties["security-severity"] != "9.8" {
		t.Errorf("the first rule has %v", rule.Properties)
	}
	out, err := sarif.FromBytes(writeAs(t, report.FormatSARIF, plain()))
	if err != nil {
		t.Fatal(err)
	}
	location := out.Runs[0].Results[0].Locations[0]
	if *location.PhysicalLocation.ArtifactLocation.URI != "Web-App/var/lib/dpkg/status" ||
		*location.LogicalLocations[0].FullyQualifiedName != imageID+"@sha256:aa:/var/lib/dpkg/status" {
		t.Errorf("the location is %s, %s", *location.PhysicalLocation.ArtifactLocation.URI, *location.LogicalLocations[0].FullyQualifiedName)
	}
	// "High" without any score is still high for GitHub.
	if got := out.Runs[0].Tool.Driver.Rules[0].Properties["security-severity"]; got != "7.0" {
		t.Errorf("security-severity = %v", got)
	}
}

func TestFormats(t *testing.T) {
	for _, format := range formats {
		if parsed, err := report.ParseFormat(string(format)); err != nil || parsed != format {
			t.Errorf("%s is read as %q, %v", format, parsed, err)
		}
		if !strings.Contains(report.Formats(), string(format)) {
			t.Errorf("%s is not in %q", format, report.Formats())
		}
		if !bytes.Equal(writeAs(t, format, full()), writeAs(t, format, full())) {
			t.Errorf("%s differs from one time to the next", format)
		}
		if err := report.Write(failingWriter{}, format, full()); err == nil {
			t.Errorf("%s: a writer that fails went unnoticed", format)
		}
		broken := errors.New("broken")
		in := full()
		in.Findings = func(func(model.Finding) error) error { return broken }
		if err := report.Write(new(bytes.Buffer), format, in); !errors.Is(err, broken) {
			t.Errorf("%s: a source that fails: %v", format, err)
		}
	}
	if _, err := report.ParseFormat("xml"); err == nil || !strings.Contains(err.Error(), "sarif or csv") {
		t.Errorf("an unknown format: %v", err)
	}
	if err := report.Write(new(bytes.Buffer), "xml", full()); err == nil {
		t.Error("an unknown format is written")
	}
	foreign := inputOf(nil, []model.Finding{findingOf(packageOf("ghost", "1"), "CVE-1", model.SeverityLow)})
	if err := report.Write(new(bytes.Buffer), report.FormatSPDX, foreign); !errors.Is(err, report.ErrInconsistent) {
		t.Errorf("a finding without package: %v", err)
	}
}

// moduleFile reads a file of a module that the tests are built with.
func moduleFile(t *testing.T, module, file string) []byte {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatalf("the module %s cannot be found: %v", module, err)
	}
	content, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), file))
	if err != nil {
		t.Fatalf("the schema is not in the module cache: %v", err)
	}
	return content
}

func compile(t *testing.T, content []byte, name, pointer string) *jsonschema.Schema {
	t.Helper()
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource(name, parsed); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile(name + pointer)
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

func valid(t *testing.T, name string, schema *jsonschema.Schema, document []byte) {
	t.Helper()
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if err := schema.Validate(parsed); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}
