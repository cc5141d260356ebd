package vex_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/vex"
)

// The tests in this file follow the CycloneDX specification (ECMA-424; JSON schemas 1.4 to 1.7): vulnerabilities[].analysis and
// vulnerabilities[].affects, BOM-Link, and package-url/vers-spec for ranges.

// cycloneDX is a document with components and a vulnerability.
func cycloneDX(more, analysis, affects string) string {
	return fmt.Sprintf(`{"bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": "urn:uuid:1", "version": 2, %s
		"vulnerabilities": [{"id": "CVE-2026-0"}, {"id": "CVE-2026-1", "references": [{"id": "GHSA-1"}], "recommendation": "Upgrade.", "analysis": {%s}, "affects": [%s]}]}`,
		more, analysis, affects)
}

const (
	cdxMetadata   = `"metadata": {"timestamp": "2026-01-01T00:00:00Z", "authors": [{"name": "Example"}]},`
	cdxPackage    = `"components": [{"type": "library", "bom-ref": "a", "name": "a", "version": "1.2.0", "purl": "pkg:npm/a@1.2.0"}],`
	cdxNotCalled  = `"state": "not_affected", "justification": "code_not_reachable", "detail": "why"`
	cdxRefA       = `{"ref": "a"}`
	cdxShop       = `"metadata": {"component": {"type": "container", "bom-ref": "shop", "name": "shop", "purl": "pkg:oci/shop@` + digest + `"}},`
	cdxOtherImage = `"metadata": {"component": {"type": "container", "bom-ref": "shop", "name": "shop", "purl": "pkg:oci/shop@sha256:00"}},`
)

func TestCycloneDXFields(t *testing.T) {
	d := read(t, cycloneDX(cdxMetadata+cdxPackage, cdxNotCalled+`, "firstIssued": "2026-01-03T00:00:00Z", "lastUpdated": "2026-01-04T00:00:00Z"`, cdxRefA))
	want := &vex.Document{
		Source: "test.json", Format: vex.FormatCycloneDX, ID: "urn:uuid:1", Revision: "2", Author: "Example", Timestamp: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		Statements: []vex.Statement{{
			Vulnerability: "CVE-2026-1", Aliases: []string{"GHSA-1"}, Status: vex.StatusNotAffected, Justification: "vulnerable_code_not_in_execute_path",
			Products:        []vex.Product{{Component: vex.Component{PURLs: []vex.PURL{{Type: "npm", Name: "a", Version: "1.2.0"}}}}},
			ImpactStatement: "why", Timestamp: time.Date(2026, 1, 4, 0, 0, 0, 0, time.UTC), LastUpdated: time.Date(2026, 1, 4, 0, 0, 0, 0, time.UTC),
			Position: "vulnerabilities[1]",
		}},
	}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("the document differs (-want +got):\n%s", diff)
	}
}

func TestCycloneDXStates(t *testing.T) {
	for state, want := range map[string]string{
		"resolved": "fixed", "resolved_with_pedigree": "fixed", "exploitable": "open", "in_triage": "open", "false_positive": "not_affected", "not_affected": "not_affected",
	} {
		set := newSet(t, read(t, cycloneDX(cdxPackage, `"state": "`+state+`"`, cdxRefA)))
		if got := statusOf(t, set, shop, finding("CVE-2026-1", "pkg:npm/a@1.2.0")); got != want {
			t.Errorf("%s: got %s, want %s", state, got, want)
		}
	}
	for justification, want := range map[string]vex.Justification{
		"code_not_present": "vulnerable_code_not_present", "code_not_reachable": "vulnerable_code_not_in_execute_path",
		"requires_configuration": "vulnerable_code_cannot_be_controlled_by_adversary", "requires_dependency": "vulnerable_code_cannot_be_controlled_by_adversary",
		"requires_environment": "vulnerable_code_cannot_be_controlled_by_adversary", "protected_by_compiler": "inline_mitigations_already_exist",
		"protected_at_runtime": "inline_mitigations_already_exist", "protected_at_perimeter": "inline_mitigations_already_exist",
		"protected_by_mitigating_control": "inline_mitigations_already_exist",
	} {
		got := read(t, cycloneDX(cdxPackage, `"state": "not_affected", "justification": "`+justification+`"`, cdxRefA)).Statements[0].Justification
		if got != want || !got.Valid() {
			t.Errorf("%s: got %q, want %q", justification, got, want)
		}
	}
}

// affects[].ref is a component of the document, or a BOM-Link to one of another document.
func TestCycloneDXReferences(t *testing.T) {
	for name, c := range map[string]struct{ document, ref, want string }{
		"component":                      {cdxPackage, "a", "not_affected"},
		"component of the image":         {cdxShop + cdxPackage, "a", "not_affected"},
		"component of another image":     {cdxOtherImage + cdxPackage, "a", "unmatched"},
		"component of an application":    {`"metadata": {"component": {"type": "application", "bom-ref": "app", "name": "app"}},` + cdxPackage, "a", "unmatched"},
		"image":                          {cdxShop, "shop", "not_affected"},
		"another image":                  {cdxOtherImage, "shop", "unmatched"},
		"nested component":               {`"components": [{"type": "application", "name": "x", "components": [{"type": "library", "bom-ref": "n", "name": "a", "purl": "pkg:npm/a"}]}],`, "n", "not_affected"},
		"other version of the component": {`"components": [{"type": "library", "bom-ref": "a", "name": "a", "version": "1.3.0", "purl": "pkg:npm/a"}],`, "a", "unmatched"},
		"PURL":                           {"", "pkg:npm/a@1.2.0?package-id=0123", "not_affected"},
		"other PURL":                     {"", "pkg:npm/a@1.3.0", "unmatched"},
		"BOM-Link with PURL":             {"", "urn:cdx:f08a6ccd-4dce-4759-bd84-c626675d60a7/1#pkg%3Anpm%2Fa%401.2.0", "unmatched"},
		"BOM-Link":                       {cdxPackage, "urn:cdx:f08a6ccd-4dce-4759-bd84-c626675d60a7/1#a", "unmatched"},
		"BOM-Link to the document":       {cdxPackage, "urn:cdx:1/2#a", "not_affected"},
		"to the document, in the image":  {cdxOtherImage + cdxPackage, "urn:cdx:1/2#a", "unmatched"},
		"to another version of it":       {cdxPackage, "urn:cdx:1/1#a", "unmatched"},
		"to no part of it":               {cdxPackage, "urn:cdx:1/2", "unmatched"},
		"to what it does not define":     {cdxPackage, "urn:cdx:1/2#pkg:npm/a@1.2.0", "unmatched"},
		"hash of the image":              {`"components": [{"type": "container", "bom-ref": "i", "name": "i", "hashes": [{"alg": "SHA-256", "content": "` + digest[7:] + `"}]}],`, "i", "not_affected"},
		"image with tag":                 {`"components": [{"type": "container", "bom-ref": "i", "name": "i", "version": "1.2", "purl": "pkg:oci/shop"}],`, "i", "not_affected"},
		"image with another tag":         {`"components": [{"type": "container", "bom-ref": "i", "name": "i", "version": "1.3", "purl": "pkg:oci/shop"}],`, "i", "unmatched"},
	} {
		set := newSet(t, read(t, cycloneDX(c.document, cdxNotCalled, fmt.Sprintf(`{"ref": %q}`, c.ref))))
		if got := statusOf(t, set, shop, finding("CVE-2026-1", "pkg:npm/a@1.2.0")); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
	foreign := read(t, cycloneDX("", cdxNotCalled, `{"ref": "urn:cdx:f08a6ccd-4dce-4759-bd84-c626675d60a7/1#pkg:npm/a@1.2.0"}`))
	if foreign.Statements[0].Identified() {
		t.Error("a statement about a component of another document is not reported to identify nothing")
	}
}

// affects[].versions says which versions of the component have which status.
func TestCycloneDXVersions(t *testing.T) {
	const component = `"components": [{"type": "library", "bom-ref": "a", "name": "a", "purl": "pkg:npm/a"}],`
	for name, c := range map[string]struct{ state, versions, want string }{
		"without status":                   {"not_affected", `{"version": "1.2.0"}`, "open"},
		"false positive without status":    {"false_positive", `{"version": "1.2.0"}`, "open"},
		"fixed without status":             {"resolved", `{"version": "1.2.0"}`, "fixed"},
		"pedigree without status":          {"resolved_with_pedigree", `{"version": "1.2.0"}`, "fixed"},
		"exploitable without status":       {"exploitable", `{"version": "1.2.0"}`, "open"},
		"in triage without status":         {"in_triage", `{"version": "1.2.0"}`, "open"},
		"not listed":                       {"not_affected", `{"version": "1.3.0", "status": "unaffected"}`, "unmatched"},
		"unaffected":                       {"not_affected", `{"version": "1.2.0", "status": "unaffected"}`, "not_affected"},
		"fixed and unaffected":             {"resolved", `{"version": "1.2.0", "status": "unaffected"}`, "fixed"},
		"affected in spite of the state":   {"not_affected", `{"version": "1.2.0", "status": "affected"}`, "open"},
		"unknown":                          {"not_affected", `{"version": "1.2.0", "status": "unknown"}`, "open"},
		"unaffected in spite of the state": {"exploitable", `{"range": "vers:npm/<1.2.0", "status": "affected"}, {"range": "vers:npm/>=1.2.0", "status": "unaffected"}`, "not_affected"},
		"affected range":                   {"exploitable", `{"range": "vers:npm/<1.3.0", "status": "affected"}, {"range": "vers:npm/>=1.3.0", "status": "unaffected"}`, "open"},
		"range":                            {"not_affected", `{"range": "vers:npm/>=1.0.0|<2.0.0", "status": "unaffected"}`, "not_affected"},
		"range without status":             {"not_affected", `{"range": "vers:npm/>=1.0.0|<2.0.0"}`, "open"},
		"no range":                         {"not_affected", `{"range": "before 2", "status": "unaffected"}`, "unmatched"},
		"no range of vers":                 {"exploitable", `{"range": "vers:npm", "status": "affected"}, {"version": "1.2.0", "status": "unaffected"}`, "not_affected"},
	} {
		set := newSet(t, read(t, cycloneDX(component, `"state": "`+c.state+`"`, `{"ref": "a", "versions": [`+c.versions+`]}`)))
		if got := statusOf(t, set, shop, finding("CVE-2026-1", "pkg:npm/a@1.2.0")); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
		// In the image it is the same, and in another one nothing.
		set = newSet(t, read(t, cycloneDX(cdxShop+component, `"state": "`+c.state+`"`, `{"ref": "a", "versions": [`+c.versions+`]}`)))
		if got := statusOf(t, set, shop, finding("CVE-2026-1", "pkg:npm/a@1.2.0")); got != c.want {
			t.Errorf("%s, in the image: got %s, want %s", name, got, c.want)
		}
	}
	// A component that has a version is not another one.
	set := newSet(t, read(t, cycloneDX(cdxPackage, `"state": "exploitable"`, `{"ref": "a", "versions": [{"version": "2.0.0", "status": "unaffected"}]}`)))
	if got := statusOf(t, set, shop, finding("CVE-2026-1", "pkg:npm/a@1.2.0")); got != "unmatched" {
		t.Errorf("a fixed version says of the component: %s", got)
	}
}

func TestCycloneDXRefuses(t *testing.T) {
	valid := cycloneDX(cdxMetadata+cdxPackage, cdxNotCalled, cdxRefA)
	read(t, valid)
	with := func(from, to string) string { return replaceIn(t, valid, from, to) }
	versions := func(v string) string { return with(cdxRefA, `{"ref": "a", "versions": [`+v+`]}`) }
	wantErrors(t, map[string]struct{ document, want string }{
		"old version":           {with(`"1.6"`, `"1.3"`), "use one of 1.4"},
		"no version":            {with(`"specVersion": "1.6", `, ""), "use one of 1.4"},
		"no ID":                 {with(`"id": "CVE-2026-1", `, ""), `vulnerabilities[1] has no "id"`},
		"no state":              {with(`"state": "not_affected", `, ""), `"analysis.state"`},
		"unknown state":         {with(`"state": "not_affected"`, `"state": "safe"`), `analysis.state: "safe"`},
		"unknown justification": {with("code_not_reachable", "trust_me"), `analysis.justification: "trust_me"`},
		"no affects":            {with(cdxRefA, ""), `no "affects"`},
		"no ref":                {with(cdxRefA, "{}"), `affects[0] has no "ref"`},
		"unknown ref":           {with(cdxRefA, `{"ref": "b"}`), `affects[0]: the bom-ref "b" is not defined`},
		"no analysis at all":    {with(`"analysis"`, `"x"`), "no VEX statement"},
		"two components":        {with(cdxPackage, `"components": [{"bom-ref": "a"}, {"bom-ref": "a"}],`), `components[1]: the bom-ref "a" is defined twice`},
		"bad PURL":              {with(`"pkg:npm/a@1.2.0"`, `"a@1.2.0"`), "components[0].purl"},
		"timestamp":             {with("2026-01-01T00:00:00Z", "today"), "metadata.timestamp"},
		"analysis timestamp":    {with(`"detail": "why"`, `"lastUpdated": "today"`), "analysis.lastUpdated"},
		"version and range":     {versions(`{"version": "1", "range": "vers:npm/1"}`), "versions[0] must have either"},
		"neither":               {versions(`{}`), "versions[0] must have either"},
		"misspelt versions":     {with(cdxRefA, `{"ref": "a", "version": [{"version": "1", "status": "unaffected"}]}`), `vulnerabilities[1].affects[0]: unknown field "version"`},
		"misspelt range":        {versions(`{"version": "1", "ranges": "vers:npm/1"}`), `vulnerabilities[1].affects[0]: unknown field "versions[0].ranges"`},
		"no versions":           {with(cdxRefA, `{"ref": "a", "versions": null}`), `vulnerabilities[1].affects[0]: "versions" is null`},
		"null element":          {with(cdxRefA, "null"), `affects[0] has no "ref"`},
		"upper case":            {with(`"state"`, `"State"`), `"analysis.state"`},
		"twice":                 {with(`"state"`, `"state": "resolved", "state"`), `vulnerabilities[1]: duplicate field "analysis.state"`},
		"twice in the document": {with(`"version": 2`, `"version": 1, "version": 2`), `duplicate field "version"`},
		"empty status":          {versions(`{"version": "1", "status": ""}`), `versions[0].status: ""`},
		"status of a version":   {versions(`{"version": "1", "status": "safe"}`), `versions[0].status: "safe"`},
		"bad BOM-Link":          {with(cdxRefA, `{"ref": "urn:cdx:1/1#%zz"}`), "BOM-Link"},
		"bad PURL in BOM-Link":  {with(cdxRefA, `{"ref": "urn:cdx:1/1#pkg:npm"}`), "affects[0]: the PURL"},
	})
}
