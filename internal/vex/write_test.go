package vex_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/vex"
)

// decidedOn is a finding with a decision that suppresses it, if its status does.
func decidedOn(id, purl string, d model.Decision, aliases ...string) model.Finding {
	f := finding(id, purl, aliases...)
	d.Suppresses = d.Status.Suppresses()
	d.Kind, d.Name, d.Author = "ClusterVulnerabilityException", "internal-name", "somebody"
	f.Suppressed, f.Decisions = d.Suppresses, []model.Decision{d}
	return f
}

var began = time.Date(2026, 11, 1, 8, 30, 0, 123_000_000, time.UTC)

// everyDecision has one finding of each status, on some images.
func everyDecision(ids ...string) vex.Export {
	ends := time.Date(2027, 3, 31, 0, 0, 0, 0, time.UTC)
	findings := []model.Finding{
		decidedOn("CVE-1", "pkg:npm/a@1", model.Decision{Status: model.DecisionNotAffected, Justification: "component_not_present", Since: began}),
		decidedOn("CVE-2", "pkg:npm/a@1", model.Decision{Status: model.DecisionFalsePositive, Since: began.Add(-time.Hour)}),
		decidedOn("CVE-3", "pkg:npm/a@1", model.Decision{Status: model.DecisionFixed, Comment: "Patched by us.", Since: began}),
		decidedOn("CVE-4", "pkg:npm/b@2", model.Decision{Status: model.DecisionAcceptedRisk, Comment: "No fix yet.", Since: began, ExpiresAt: ends}, "GHSA-4"),
		decidedOn("CVE-5", "pkg:npm/b@2", model.Decision{Status: model.DecisionUnderInvestigation, Comment: "Who calls it?"}),
		finding("CVE-6", "pkg:npm/b@2"),
	}
	return vex.Export{Author: "scanner-operator", Images: func(yield func(vex.Image) error) error {
		for _, id := range ids {
			image := vex.Image{Key: model.ImageKey{ImageID: id, Platform: model.Platform{OS: "linux", Architecture: "amd64"}}, Findings: each(findings)}
			if err := yield(image); err != nil {
				return err
			}
		}
		return nil
	}}
}

func each(findings []model.Finding) func(func(model.Finding) error) error {
	return func(yield func(model.Finding) error) error {
		for _, f := range findings {
			if err := yield(f); err != nil {
				return err
			}
		}
		return nil
	}
}

const shopID = "registry.example.com/team/shop@" + digest

func write(t *testing.T, format vex.Format, export vex.Export) string {
	t.Helper()
	var b bytes.Buffer
	if err := vex.Write(&b, format, export); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestWrittenOpenVEX(t *testing.T) {
	const products = `"products":[{"@id":"pkg:oci/shop@sha256:244fd47e07d1004f0aed9c156aa09083c82bf8944eceb67c946ff7430510a77b?arch=amd64\u0026repository_url=registry.example.com%2Fteam%2Fshop",` +
		`"hashes":{"sha-256":"244fd47e07d1004f0aed9c156aa09083c82bf8944eceb67c946ff7430510a77b"},"subcomponents":[{"@id":"pkg:npm/`
	got := write(t, vex.FormatOpenVEX, everyDecision(shopID))
	for _, want := range []string{
		`{"@context":"https://openvex.dev/ns/v0.2.0","@id":"https://scanner.zoltankerezsi.xyz/vex/`,
		`"author":"scanner-operator","timestamp":"2026-11-01T08:30:00.123Z","version":1,"tooling":"scanner-operator","statements":[`,
		`{"vulnerability":{"name":"CVE-1"},` + products + `a@1"}]}],"status":"not_affected","status_notes":"Decision: NotAffected.","justification":"component_not_present",` +
			`"impact_statement":"The vulnerability cannot be exploited.","timestamp":"2026-11-01T08:30:00.123Z"}`,
		`"status":"not_affected","status_notes":"Decision: FalsePositive.","impact_statement":"The package does not have the vulnerability.","timestamp":"2026-11-01T07:30:00.123Z"}`,
		`"status":"fixed","status_notes":"Decision: Fixed. Patched by us.","timestamp":"2026-11-01T08:30:00.123Z"}`,
		`{"vulnerability":{"name":"CVE-4","aliases":["GHSA-4"]},` + products + `b@2"}]}],"status":"affected","status_notes":"Decision: AcceptedRisk until 2027-03-31T00:00:00Z.",` +
			`"action_statement":"No fix yet.","timestamp":"2026-11-01T08:30:00.123Z"}`,
		`"status":"under_investigation","status_notes":"Decision: UnderInvestigation. Who calls it?"}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the document lacks %s:\n%s", want, got)
		}
	}
	for _, not := range []string{"CVE-6", "somebody", "internal-name"} {
		if strings.Contains(got, not) {
			t.Errorf("the document contains %s:\n%s", not, got)
		}
	}
}

// TestPlacedDecisionsAreNotStated: what applies in some places only, or only while there is no fix, is no statement about the image, also not where such
// decisions together suppress a finding wherever the image runs. What applies everywhere is stated beside them, whatever their order.
func TestPlacedDecisionsAreNotStated(t *testing.T) {
	march := time.Date(2027, 3, 1, 0, 0, 0, 0, time.UTC)
	inA := model.Decision{Namespace: "a", Status: model.DecisionNotAffected, Suppresses: true, Placed: true}
	inB := model.Decision{Namespace: "b", Status: model.DecisionAcceptedRisk, ExpiresAt: march, Suppresses: true, Placed: true}
	everywhere := model.Decision{Status: model.DecisionAcceptedRisk, ExpiresAt: march, Suppresses: true}
	for name, c := range map[string]struct {
		decisions []model.Decision
		want      string
	}{
		"each namespace has one":    {[]model.Decision{inA, inB}, ""},
		"one more everywhere":       {[]model.Decision{inA, inB, everywhere}, "Decision: AcceptedRisk until 2027-03-01T00:00:00Z."},
		"examined in one namespace": {[]model.Decision{inA, inB, {Status: model.DecisionUnderInvestigation, Placed: true}}, ""},
		"while there is no fix":     {[]model.Decision{{Status: model.DecisionNotAffected, Suppresses: true, Unfixed: true}}, ""},
		"and without a condition":   {[]model.Decision{{Status: model.DecisionNotAffected, Suppresses: true, Unfixed: true}, everywhere}, "Decision: AcceptedRisk until 2027-03-01T00:00:00Z."},
		"examined everywhere":       {[]model.Decision{inA, inB, {Status: model.DecisionUnderInvestigation}}, "Decision: UnderInvestigation."},
	} {
		f := finding("CVE-1", "pkg:npm/a@1")
		f.Suppressed, f.Decisions = true, c.decisions
		export := vex.Export{Author: "scanner-operator", Images: func(yield func(vex.Image) error) error {
			return yield(vex.Image{Key: model.ImageKey{ImageID: shopID}, Findings: each([]model.Finding{f})})
		}}
		var b bytes.Buffer
		err := vex.Write(&b, vex.FormatOpenVEX, export)
		if c.want == "" && !errors.Is(err, vex.ErrNoDecision) || c.want != "" && (err != nil || !strings.Contains(b.String(), c.want) || strings.Contains(b.String(), "not_affected")) {
			t.Errorf("%s: want %q, got %v\n%s", name, c.want, err, b.String())
		}
	}
}

func TestWrittenCycloneDX(t *testing.T) {
	got := write(t, vex.FormatCycloneDX, everyDecision(shopID))
	for _, want := range []string{
		`"specVersion":"1.6","serialNumber":"urn:uuid:`,
		`"metadata":{"timestamp":"2026-11-01T08:30:00.123Z","tools":{"components":[{"type":"application","name":"scanner-operator"}]},"authors":[{"name":"scanner-operator"}],` +
			`"component":{"bom-ref":"image-1","type":"container","name":"registry.example.com/team/shop","version":"` + digest + `","hashes":[{"alg":"SHA-256","content":"` + digest[7:] + `"}],"purl":"pkg:oci/shop@`,
		`{"bom-ref":"image-1/pkg:npm/a@1","type":"library","name":"pkg:npm/a","version":"1","purl":"pkg:npm/a@1"}`,
		`"analysis":{"state":"not_affected","justification":"code_not_present","firstIssued":"2026-11-01T08:30:00.123Z"},"affects":[{"ref":"image-1/pkg:npm/a@1"}],` +
			`"properties":[{"name":"scanner-operator:decision","value":"NotAffected"},{"name":"scanner-operator:decision:justification","value":"component_not_present"}]}`,
		`"analysis":{"state":"false_positive","firstIssued":"2026-11-01T07:30:00.123Z"}`,
		`"analysis":{"state":"resolved","detail":"Patched by us.",`,
		`"id":"CVE-4","references":[{"id":"GHSA-4","source":{}}],"analysis":{"state":"exploitable","response":["will_not_fix"],"detail":"No fix yet.",`,
		`{"name":"scanner-operator:decision:expiresAt","value":"2027-03-31T00:00:00Z"}`,
		`"analysis":{"state":"in_triage","detail":"Who calls it?"}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the document lacks %s:\n%s", want, got)
		}
	}
}

// schemaOf compiles a schema from files, by the ends of their addresses.
func schemaOf(t *testing.T, address string, files map[string]string) *jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	for resource, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		if err := compiler.AddResource(resource, parsed); err != nil {
			t.Fatal(err)
		}
	}
	compiled, err := compiler.Compile(address)
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// TestWrittenDocumentsMeetTheirSchemas checks documents about images of all kinds: testdata has the schema of OpenVEX, and the module cache that of CycloneDX.
func TestWrittenDocumentsMeetTheirSchemas(t *testing.T) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go").Output()
	if err != nil {
		t.Fatalf("the module cache with the CycloneDX schema cannot be found: %v", err)
	}
	const cycloneDX, openVEX = "http://cyclonedx.org/schema/", "https://example.com/openvex"
	files := map[string]string{}
	for resource, file := range map[string]string{
		"bom-1.6.schema.json": "bom-1.6.schema.json", "spdx.schema.json": "spdx.schema.json", "jsf-0.82.schema.json": "jsf-0.82.schemax.json",
	} {
		files[cycloneDX+resource] = filepath.Join(strings.TrimSpace(string(dir)), "schema", file)
	}
	schemas := map[vex.Format]*jsonschema.Schema{
		vex.FormatCycloneDX: schemaOf(t, cycloneDX+"bom-1.6.schema.json", files),
		vex.FormatOpenVEX:   schemaOf(t, openVEX, map[string]string{openVEX: filepath.Join("testdata", "openvex_json_schema.json")}),
	}
	other := "docker.io/library/other@sha256:" + strings.Repeat("0", 64)
	for _, ids := range [][]string{{shopID}, {shopID, other}, {digest}, {"registry.example.com/a:1", "odd", other}, {"registry.example.com/a@sha512:" + strings.Repeat("0", 128)}} {
		for format, schema := range schemas {
			document := write(t, format, everyDecision(ids...))
			parsed, err := jsonschema.UnmarshalJSON(strings.NewReader(document))
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(parsed); err != nil {
				t.Errorf("%s about %v: %#v\n%s", format, ids, err, document)
			}
			if got := len(read(t, document).Statements); got != 5 {
				t.Errorf("%s about %v has %d statements", format, ids, got)
			}
		}
	}
}

// Other content is another document, and the same is the same.
func TestWrittenIDs(t *testing.T) {
	for _, format := range []vex.Format{vex.FormatOpenVEX, vex.FormatCycloneDX} {
		ids := map[string]bool{}
		other := everyDecision(shopID)
		other.Author = "another cluster"
		for _, export := range []vex.Export{everyDecision(shopID), everyDecision(shopID), everyDecision("registry.example.com/team/other@" + digest), other} {
			ids[read(t, write(t, format, export)).ID] = true
		}
		if len(ids) != 3 {
			t.Errorf("%s: %d IDs of 3 documents: %v", format, len(ids), ids)
		}
	}
}

// What cannot be stated exactly is left out, and what nobody could read is refused.
func TestWriteIsCautious(t *testing.T) {
	fixed := model.Decision{Status: model.DecisionFixed, Since: began}
	many := make([]model.Finding, 20_001)
	for i := range many {
		many[i] = decidedOn(fmt.Sprintf("CVE-%d", i), "pkg:npm/a@1", fixed)
	}
	broad := make([]model.Finding, 200_001)
	for i := range broad {
		broad[i] = decidedOn("CVE-1", fmt.Sprintf("pkg:npm/a@%d", i), fixed)
	}
	dry := decidedOn("CVE-1", "pkg:npm/a@1", fixed)
	dry.Suppressed, dry.Decisions[0].Suppresses = false, false
	somewhere := decidedOn("CVE-1", "pkg:npm/a@1", fixed)
	somewhere.Suppressed = false
	long := decidedOn("CVE-1", "pkg:npm/a@1", fixed)
	long.Vulnerability.ID = strings.Repeat("x", 501)
	until := fixed
	until.ExpiresAt = began.AddDate(1, 0, 0)
	failure := errors.New("the store is away")
	for name, c := range map[string]struct {
		findings []model.Finding
		image    string
		want     error
	}{
		"nothing decided":              {findings: []model.Finding{finding("CVE-1", "pkg:npm/a@1")}, want: vex.ErrNoDecision},
		"a dry run":                    {findings: []model.Finding{dry}, want: vex.ErrNoDecision},
		"not suppressed everywhere":    {findings: []model.Finding{somewhere}, want: vex.ErrNoDecision},
		"no PURL":                      {findings: []model.Finding{decidedOn("CVE-1", "", fixed)}, want: vex.ErrNoDecision},
		"no version":                   {findings: []model.Finding{decidedOn("CVE-1", "pkg:npm/a", fixed)}, want: vex.ErrNoDecision},
		"an image as a package":        {findings: []model.Finding{decidedOn("CVE-1", "pkg:oci/a@sha256:00", fixed)}, want: vex.ErrNoDecision},
		"a long ID":                    {findings: []model.Finding{long}, want: vex.ErrNoDecision},
		"an ID that looks like a PURL": {findings: []model.Finding{decidedOn("CVE-1", "pkg:npm/a@1", fixed)}, image: "pkg:npm/a", want: vex.ErrNoDecision},
		"the same PURL twice":          {findings: []model.Finding{decidedOn("CVE-1", "pkg:npm/a@1", fixed), finding("cve-1", "pkg:npm/a@1?arch=amd64")}, want: vex.ErrNoDecision},
		"the same PURL, another end":   {findings: []model.Finding{decidedOn("CVE-1", "pkg:npm/a@1", fixed), decidedOn("cve-1", "pkg:npm/a@1", until)}, want: vex.ErrNoDecision},
		"the same PURL, the same end":  {findings: []model.Finding{decidedOn("CVE-1", "pkg:npm/a@1", until), decidedOn("cve-1", "pkg:npm/a@1", until)}},
		"other vulnerabilities of it":  {findings: []model.Finding{decidedOn("CVE-1", "pkg:npm/a@1", fixed), finding("CVE-2", "pkg:npm/a@1")}},
		"many statements":              {findings: many, want: vex.ErrLimit},
		"many packages":                {findings: broad, want: vex.ErrLimit},
	} {
		t.Run(name, func(t *testing.T) {
			id := c.image
			if id == "" {
				id = shopID
			}
			for _, format := range []vex.Format{vex.FormatOpenVEX, vex.FormatCycloneDX} {
				var b bytes.Buffer
				err := vex.Write(&b, format, vex.Export{Images: func(yield func(vex.Image) error) error {
					return yield(vex.Image{Key: model.ImageKey{ImageID: id}, Findings: each(c.findings)})
				}})
				if !errors.Is(err, c.want) || (b.Len() == 0) != (c.want != nil) {
					t.Errorf("%s: %v, %d bytes; want %v", format, err, b.Len(), c.want)
				}
			}
		})
	}
	for name, export := range map[string]vex.Export{
		"images": {Images: func(func(vex.Image) error) error { return failure }},
		"findings": {Images: func(yield func(vex.Image) error) error {
			return yield(vex.Image{Key: model.ImageKey{ImageID: "a"}, Findings: func(func(model.Finding) error) error { return failure }})
		}},
	} {
		if err := vex.Write(&bytes.Buffer{}, vex.FormatOpenVEX, export); !errors.Is(err, failure) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := vex.Write(&bytes.Buffer{}, vex.FormatCSAF, everyDecision(shopID)); err == nil || !strings.Contains(err.Error(), "CSAF") {
		t.Errorf("CSAF: %v", err)
	}
}

// An alias that would match another finding is left out, and the statement remains.
func TestWrittenAliases(t *testing.T) {
	fixed := model.Decision{Status: model.DecisionFixed, Since: began}
	for want, others := range map[string][]model.Finding{
		`{"name":"GHSA-1","aliases":["CVE-1"]}`: {finding("CVE-1", "pkg:npm/b@1")},
		`{"name":"GHSA-1"}`:                     {finding("CVE-1", "pkg:npm/a@1")},
	} {
		findings := append([]model.Finding{decidedOn("GHSA-1", "pkg:npm/a@1", fixed, "CVE-1")}, others...)
		got := write(t, vex.FormatOpenVEX, vex.Export{Images: func(yield func(vex.Image) error) error {
			return yield(vex.Image{Key: model.ImageKey{ImageID: shopID}, Findings: each(findings)})
		}})
		if !strings.Contains(got, `"vulnerability":`+want) {
			t.Errorf("the document lacks %s: %s", want, got)
		}
	}
}

// What documents say of decisions is read if it agrees with the status, and otherwise it is text.
func TestDecisionsOfOthers(t *testing.T) {
	statement := func(status, more string) vex.Statement {
		return read(t, openVEX("x", "a", day, 1, about("CVE-1", status, id("pkg:npm/a@1"), more))).Statements[0]
	}
	for name, c := range map[string]struct {
		statement vex.Statement
		want      string
	}{
		"not affected":        {statement("not_affected", ""), "NotAffected  component_not_present true"},
		"fixed":               {statement("fixed", `, "status_notes": "Patched."`), "Fixed Patched.  true"},
		"investigated":        {statement("under_investigation", ""), "UnderInvestigation   false"},
		"affected":            {statement("affected", ""), "none"},
		"accepted":            {statement("affected", `, "status_notes": "Decision: AcceptedRisk."`), "AcceptedRisk Upgrade.  true"},
		"contradiction":       {statement("affected", `, "status_notes": "Decision: NotAffected."`), "none"},
		"another one":         {statement("fixed", `, "status_notes": "Decision: AcceptedRisk."`), "Fixed Decision: AcceptedRisk.  true"},
		"a status of nobody":  {statement("fixed", `, "status_notes": "Decision: Solved."`), "Fixed Decision: Solved.  true"},
		"a time that is none": {statement("fixed", `, "status_notes": "Decision: Fixed until Monday."`), "Fixed Decision: Fixed until Monday.  true"},
	} {
		got := "none"
		if d, known := c.statement.Decision(); known {
			got = fmt.Sprintf("%s %s %s %t", d.Status, d.Comment, d.Justification, d.Suppresses)
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	accepted := read(t, openVEX("x", "a", day, 1, about("CVE-1", "affected", id("pkg:npm/a@1"), `, "status_notes": "Decision: AcceptedRisk."`)))
	if got := apply(t, newSet(t, accepted), shop, []model.Finding{finding("CVE-1", "pkg:npm/a@1")}); len(got.Open) != 1 {
		t.Error("a risk that somebody else accepted is suppressed")
	}
}

// Packages that are nested in a container are those of this image, if the document has no subject.
func TestCycloneDXContainers(t *testing.T) {
	document := func(digest string) *vex.Document {
		return read(t, fmt.Sprintf(`{"bomFormat": "CycloneDX", "specVersion": "1.6", "components": [{"type": "container", "name": "shop", "bom-ref": "i", "hashes": [{"alg": "SHA-256", "content": %q}],
			"components": [{"type": "library", "name": "a", "bom-ref": "a", "purl": "pkg:npm/a@1"}]}],
			"vulnerabilities": [{"id": "CVE-1", "analysis": {"state": "false_positive"}, "affects": [{"ref": "a"}]}]}`, digest))
	}
	for hex, want := range map[string]string{digest[7:]: "not_affected", strings.Repeat("0", 64): "unmatched"} {
		if got := statusOf(t, newSet(t, document(hex)), shop, finding("CVE-1", "pkg:npm/a@1")); got != want {
			t.Errorf("%s: %s, want %s", hex, got, want)
		}
	}
	if d, _ := document(digest[7:]).Statements[0].Decision(); d.Status != model.DecisionFalsePositive {
		t.Errorf("%+v", d)
	}
}
