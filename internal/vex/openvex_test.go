package vex_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/vex"
)

// The tests in this file follow "OpenVEX Specification v0.2.0" of the OpenVEX project, whose sections they name.

func TestOpenVEXFields(t *testing.T) {
	d := read(t, openVEX("https://example.com/vex/1", "Example", "2026-01-02T03:04:05.5+01:00", 3,
		`{"vulnerability": {"@id": "https://example.com/CVE-2026-1", "name": "CVE-2026-1", "aliases": ["GHSA-aaaa-bbbb-cccc"]},
		  "products": [{"@id": "pkg:oci/shop", "identifiers": {"purl": "pkg:npm/%40scope/shop@1.0", "cpe23": "cpe:2.3:a:example:shop:1.0:*:*:*:*:*:*:*"},
		    "hashes": {"sha-256": "AB12", "md5": "00"}, "subcomponents": [{"@id": "pkg:deb/debian/libc6@2.31-13%2Bdeb11u5?arch=amd64"}]}],
		  "status": "not_affected", "justification": "vulnerable_code_not_present", "impact_statement": "why", "status_notes": "notes",
		  "last_updated": "2026-02-01T00:00:00Z"}`))
	created := time.Date(2026, 1, 2, 2, 4, 5, 500_000_000, time.UTC)
	want := &vex.Document{
		Source: "test.json", Format: vex.FormatOpenVEX, ID: "https://example.com/vex/1", Revision: "3", Author: "Example", Timestamp: created,
		Statements: []vex.Statement{{
			Vulnerability: "CVE-2026-1", Aliases: []string{"GHSA-aaaa-bbbb-cccc", "https://example.com/CVE-2026-1"},
			Products: []vex.Product{{
				Component: vex.Component{
					PURLs:   []vex.PURL{{Type: "oci", Name: "shop"}, {Type: "npm", Namespace: "@scope", Name: "shop", Version: "1.0"}},
					CPEs:    []vex.CPE{{Part: "a", Vendor: "example", Product: "shop", Version: `1\.0`}},
					Digests: []string{"sha256:ab12"},
				},
				Subcomponents: []vex.Component{{PURLs: []vex.PURL{{
					Type: "deb", Namespace: "debian", Name: "libc6", Version: "2.31-13+deb11u5", Qualifiers: map[string]string{"arch": "amd64"},
				}}}},
			}},
			Status: vex.StatusNotAffected, Justification: "vulnerable_code_not_present", ImpactStatement: "why", Comment: "notes",
			Timestamp: created, LastUpdated: time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC), Position: "statements[0]",
		}},
	}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("the document differs (-want +got):\n%s", diff)
	}
}

// Section "Timestamps": one of a statement overrides that of the document.
func TestOpenVEXInheritsTimestamps(t *testing.T) {
	d := read(t, openVEX("x", "a", day, 1, about("CVE-1", "fixed", id("pkg:npm/a")),
		about("CVE-1", "fixed", id("pkg:npm/a"), `, "timestamp": "2025-05-05T00:00:00Z"`)))
	if got := d.Statements[0].Timestamp; !got.Equal(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("the first has %v", got)
	}
	if got := d.Statements[1].Timestamp; !got.Equal(time.Date(2025, 5, 5, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("the second has %v", got)
	}
	read(t, replaceIn(t, openVEX("x", "a", day, 1, about("CVE-1", "fixed", id("pkg:npm/a"))), "/v0.2.0", "")) // as in the examples of the specification
}

// Sections "Document Struct Fields", "Statement Fields", "Product Data Structure", "Vulnerability Struct Fields", "Status Labels" and "Status
// Justifications": what is required, and what is allowed.
func TestOpenVEXRefuses(t *testing.T) {
	valid := openVEX("x", "a", day, 1, about("CVE-1", "not_affected", id("pkg:npm/a")))
	read(t, valid)
	statement := func(s string) string { return openVEX("x", "a", day, 1, s) }
	product := func(p string) string { return statement(about("CVE-1", "fixed", p)) }
	wantErrors(t, map[string]struct{ document, want string }{
		"version 0.0.1":             {replaceIn(t, valid, "v0.2.0", "v0.0.1"), "use https://openvex.dev/ns/v0.2.0"},
		"no @id":                    {replaceIn(t, valid, `"@id": "x", `, ""), `"@id"`},
		"no author":                 {replaceIn(t, valid, `"author": "a", `, ""), `"author"`},
		"no timestamp":              {replaceIn(t, valid, `"timestamp": "`+day+`", `, ""), `"timestamp"`},
		"no version":                {replaceIn(t, valid, `"version": 1, `, ""), `"version"`},
		"no statements":             {openVEX("x", "a", day, 1), "no VEX statement"},
		"timestamp":                 {replaceIn(t, valid, day, "yesterday"), "yesterday"},
		"no name":                   {statement(about("", "fixed", id("pkg:npm/a"))), `statements[0] has no "vulnerability.name"`},
		"no status":                 {statement(about("CVE-1", "", id("pkg:npm/a"))), `"status"`},
		"unknown status":            {statement(about("CVE-1", "safe", id("pkg:npm/a"))), "not one of not_affected"},
		"no products":               {statement(about("CVE-1", "fixed", "")), `statements[0] has no "products"`},
		"no justification":          {replaceIn(t, valid, `"justification": "component_not_present"`, `"status_notes": "x"`), `neither "justification" nor "impact_statement"`},
		"unknown justification":     {replaceIn(t, valid, "component_not_present", "trust_me"), "trust_me"},
		"justification of affected": {statement(about("CVE-1", "affected", id("pkg:npm/a"), `, "justification": "component_not_present"`)), "only the status not_affected"},
		"no action":                 {replaceIn(t, statement(about("CVE-1", "affected", id("pkg:npm/a"))), `"action_statement"`, `"status_notes"`), `"action_statement"`},
		"product without identity":  {product(`{}`), `statements[0].products[0] has no "@id"`},
		"subcomponent":              {product(`{"@id": "pkg:npm/a", "subcomponents": [{}]}`), `statements[0].products[0].subcomponents[0] has no`},
		"bad PURL":                  {product(id("pkg:npm")), `statements[0].products[0]["@id"]`},
		"bad identifier PURL":       {product(`{"identifiers": {"purl": "npm/a"}}`), `products[0].identifiers["purl"]`},
		"bad CPE":                   {product(`{"identifiers": {"cpe23": "cpe:9:a"}}`), `products[0].identifiers["cpe23"]`},
		"unknown identifier":        {product(`{"identifiers": {"swid": "x"}}`), `statements[0]: unknown field "products[0].identifiers.swid"`},
		"empty justification":       {replaceIn(t, valid, `"component_not_present"`, `"", "impact_statement": "x"`), `"justification" is empty`},
		"vulnerability of 0.0.1":    {replaceIn(t, valid, `{"name": "CVE-1"}`, `"CVE-1"`), "statements[0]: "},
	})
	read(t, replaceIn(t, valid, `"justification": "component_not_present"`, `"impact_statement": "It is not there."`))
}

// Section "Product": the product is the image and the package is its subcomponent, or either stands alone. Section "Status Labels": not_affected and
// fixed switch a finding off.
func TestOpenVEXMatching(t *testing.T) {
	const purl = "pkg:npm/left-pad@1.0.0?arch=x86_64"
	within := func(product string) string {
		return `{"@id": ` + quote(product) + `, "subcomponents": [{"@id": "pkg:npm/left-pad"}]}`
	}
	for name, c := range map[string]struct{ product, status, want string }{
		"package":                    {id("pkg:npm/left-pad@1.0.0"), "fixed", "fixed"},
		"package, all versions":      {id("pkg:npm/left-pad"), "not_affected", "not_affected"},
		"package, affected":          {id("pkg:npm/left-pad"), "affected", "open"},
		"package, in investigation":  {id("pkg:npm/left-pad"), "under_investigation", "open"},
		"package, other version":     {id("pkg:npm/left-pad@1.0.1"), "fixed", "unmatched"},
		"package, other name":        {id("pkg:npm/right-pad"), "fixed", "unmatched"},
		"package, other type":        {id("pkg:pypi/left-pad"), "fixed", "unmatched"},
		"package, other namespace":   {id("pkg:npm/%40x/left-pad"), "fixed", "unmatched"},
		"package, qualifier":         {id("pkg:npm/left-pad?arch=x86_64"), "fixed", "fixed"},
		"package, other qualifier":   {id("pkg:npm/left-pad?arch=arm64"), "fixed", "unmatched"},
		"package, unknown qualifier": {id("pkg:npm/left-pad?os=linux"), "fixed", "unmatched"},
		"package, subpath":           {id("pkg:npm/left-pad#sub"), "fixed", "unmatched"},
		"package as identifier":      {`{"@id": "https://example.com/p", "identifiers": {"purl": "pkg:npm/left-pad"}}`, "fixed", "fixed"},
		"image":                      {id("pkg:oci/shop"), "fixed", "fixed"},
		"image by digest":            {id("pkg:oci/shop@" + digest), "fixed", "fixed"},
		"image by escaped digest":    {id("pkg:oci/shop@sha256%3A" + digest[7:]), "fixed", "fixed"},
		"image by own digest":        {id("pkg:oci/shop@" + shop.Digests[0]), "fixed", "fixed"},
		"image by other digest":      {id("pkg:oci/shop@sha256:00"), "fixed", "unmatched"},
		"image by other name":        {id("pkg:oci/team@" + digest), "fixed", "unmatched"},
		"image by repository":        {id("pkg:oci/shop?repository_url=registry.example.com/team/shop"), "fixed", "fixed"},
		"image by parent":            {id("pkg:oci/shop?repository_url=registry.example.com/team"), "fixed", "fixed"},
		"image by other repository":  {id("pkg:oci/shop?repository_url=registry.example.com/other"), "fixed", "unmatched"},
		"image by host":              {id("pkg:oci/shop?repository_url=registry.example.com"), "fixed", "unmatched"},
		"image by tag":               {id("pkg:oci/shop?tag=1.2"), "fixed", "fixed"},
		"image by other tag":         {id("pkg:oci/shop?tag=1.3"), "fixed", "unmatched"},
		"image by architecture":      {id("pkg:oci/shop?arch=amd64"), "fixed", "fixed"},
		"image, other architecture":  {id("pkg:oci/shop?arch=arm64"), "fixed", "unmatched"},
		"image, unknown qualifier":   {id("pkg:oci/shop?os=linux"), "fixed", "unmatched"},
		"image as reference":         {id(shop.References[0]), "fixed", "fixed"},
		"image as tag":               {id(shop.References[1]), "fixed", "fixed"},
		"image without tag":          {id("registry.example.com/team/shop"), "fixed", "unmatched"},
		"image as other reference":   {id("registry.example.com/team/shop:1.3"), "fixed", "unmatched"},
		"image by hash":              {`{"hashes": {"sha-256": "` + digest[7:] + `"}}`, "fixed", "fixed"},
		"image by other hash":        {`{"hashes": {"sha-256": "00"}}`, "fixed", "unmatched"},
		"image by other algorithm":   {`{"hashes": {"sha-512": "` + digest[7:] + `"}}`, "fixed", "unmatched"},
		"package in image":           {within("pkg:oci/shop@" + digest), "fixed", "fixed"},
		"package in other image":     {within("pkg:oci/shop@sha256:00"), "fixed", "unmatched"},
		"package in other product":   {within("pkg:npm/app@1"), "fixed", "unmatched"},
		"other package in image":     {`{"@id": "pkg:oci/shop", "subcomponents": [{"@id": "pkg:npm/right-pad"}]}`, "fixed", "unmatched"},
		"something else":             {id("https://example.com/shop"), "fixed", "unmatched"},
	} {
		t.Run(name, func(t *testing.T) {
			set := newSet(t, read(t, openVEX("x", "a", day, 1, about("CVE-2026-1", c.status, c.product))))
			if got := statusOf(t, set, shop, finding("CVE-2026-1", purl)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if got := statusOf(t, set, shop, finding("CVE-2026-2", purl)); got != "unmatched" {
				t.Errorf("another vulnerability: %s", got)
			}
		})
	}
}

// An archive has a digest, but no name.
func TestOpenVEXArchive(t *testing.T) {
	archive := model.ImageNames{Digests: []string{digest}}
	for product, want := range map[string]string{
		"pkg:oci/shop@" + digest: "fixed", "pkg:oci/shop": "unmatched", "pkg:oci/shop@sha256:00": "unmatched",
		"pkg:oci/shop@" + digest + "?repository_url=registry.example.com/team": "unmatched",
	} {
		set := newSet(t, read(t, openVEX("x", "a", day, 1, about("CVE-1", "fixed", id(product)))))
		if got := statusOf(t, set, archive, finding("CVE-1", "pkg:npm/a@1.0.0")); got != want {
			t.Errorf("%s: got %s, want %s", product, got, want)
		}
	}
}

// Repositories of Docker Hub have several names.
func TestOpenVEXShortReferences(t *testing.T) {
	hub := model.ImageNames{References: []string{"index.docker.io/library/debian@" + digest, "debian:12"}}
	for product, want := range map[string]string{
		"debian@" + digest: "fixed", "docker.io/library/debian@" + digest: "fixed", "docker.io/library/debian:12": "fixed", "docker.io/debian:12": "fixed",
		"debian:12": "fixed", "debian:13": "unmatched", "debian": "unmatched", "docker.io/other/debian:12": "unmatched",
		"pkg:oci/debian?repository_url=docker.io/library": "fixed", "pkg:oci/debian?repository_url=index.docker.io/library/debian": "fixed",
		"pkg:oci/debian?repository_url=https://docker.io/library/": "fixed", "pkg:oci/debian?repository_url=docker.io/other": "unmatched",
	} {
		set := newSet(t, read(t, openVEX("x", "a", day, 1, about("CVE-1", "fixed", id(product)))))
		if got := statusOf(t, set, hub, finding("CVE-1", "pkg:npm/a@1.0.0")); got != want {
			t.Errorf("%s: got %s, want %s", product, got, want)
		}
	}
}

// Section "Vulnerability Data Structure": aliases name the same vulnerability. The database has aliases, too.
func TestVulnerabilityIDs(t *testing.T) {
	const purl = "pkg:npm/a@1.0.0"
	statement := about("CVE-2026-1", "fixed", id("pkg:npm/a"))
	aliased := replaceIn(t, statement, `"name": "CVE-2026-1"`, `"name": "EX-1", "aliases": ["cve-2026-1"]`)
	for name, c := range map[string]struct {
		statement string
		finding   model.Finding
		want      string
	}{
		"same":                        {statement, finding("CVE-2026-1", purl), "fixed"},
		"other case":                  {statement, finding("cve-2026-1", purl), "fixed"},
		"alias of the finding":        {statement, finding("GHSA-aaaa-bbbb-cccc", purl, "CVE-2026-1"), "fixed"},
		"alias of the statement":      {aliased, finding("CVE-2026-1", purl), "fixed"},
		"record of several CVEs":      {statement, finding("ALAS-2026-1", purl, "CVE-2026-1", "CVE-2026-2"), "unmatched"},
		"ID of the record of several": {replaceIn(t, statement, "CVE-2026-1", "ALAS-2026-1"), finding("ALAS-2026-1", purl, "CVE-2026-1", "CVE-2026-2"), "fixed"},
		"a CVE with another alias":    {statement, finding("CVE-2026-2", purl, "CVE-2026-1"), "unmatched"},
	} {
		set := newSet(t, read(t, openVEX("x", "a", day, 1, c.statement)))
		if got := statusOf(t, set, shop, c.finding); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// Appendix B names CPEs as identifiers. They are compared with those of the package as the CPE Name Matching Specification (NISTIR 7696) says.
func TestCPEs(t *testing.T) {
	for text, want := range map[string]string{
		"cpe:2.3:a:example:lib:1.0:*:*:*:*:*:*:*":   "fixed",
		"cpe:2.3:a:example:lib:*:*:*:*:*:*:*:*":     "fixed",
		"cpe:2.3:a:Example:LIB:1.0:*:*:*:*:*:*:*":   "fixed",
		"cpe:/a:example:lib:1.0":                    "fixed",
		"CPE:/a:example:lib":                        "fixed",
		"cpe:2.3:a:example:lib:1.1:*:*:*:*:*:*:*":   "unmatched",
		"cpe:2.3:a:other:lib:1.0:*:*:*:*:*:*:*":     "unmatched",
		"cpe:2.3:a:example:lib:1.0:sp1:*:*:*:*:*:*": "unmatched",
		"cpe:2.3:a:example:lib:-:*:*:*:*:*:*:*":     "unmatched",
		"cpe:2.3:a:example:*:*:*:*:*:*:*:*:*":       "unmatched", // any product is none
		"cpe:2.3:a:example:li*:1.0:*:*:*:*:*:*:*":   "unmatched",
		"cpe:/o:example:linux:9":                    "unmatched", // the distribution, of which the package may be no part
	} {
		f := finding("CVE-1", "pkg:npm/lib@1.0")
		f.Package.CPEs = []string{"cpe:2.3:a:lib:lib:1.0:*:*:*:*:*:*:*", "cpe:2.3:a:example:lib:1.0:*:*:*:*:*:*:*"}
		set := newSet(t, read(t, openVEX("x", "a", day, 1, about("CVE-1", "fixed", `{"identifiers": {"cpe23": `+quote(text)+`}}`))))
		if got := statusOf(t, set, shop, f); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
