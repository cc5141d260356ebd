package vex_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/decision"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/vex"
)

// list repeats the element n times; %d is the number of the element.
func list(n int, element string) string {
	var out strings.Builder
	for i := range n {
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString(strings.ReplaceAll(element, "%d", fmt.Sprint(i)))
	}
	return out.String()
}

// manyVersions are the constraints of a range that names n versions.
func manyVersions(prefix string, n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s.%d.0", prefix, i)
	}
	return strings.Join(all, "|")
}

// TestHostileDocuments holds documents that would cost much to their bounds: the error names the bound, and reading allocates little.
func TestHostileDocuments(t *testing.T) {
	const mib = 1 << 20
	valid := openVEX("x", "a", day, 1, about("CVE-1", "fixed", id("pkg:npm/a")))
	long := strings.Repeat("x", 600)
	for name, c := range map[string]struct {
		document string
		want     string
		memory   uint64
	}{
		"too large":       {valid + strings.Repeat(" ", 16*mib), "larger than 16777216 bytes", 80 * mib},
		"deep arrays":     {strings.Repeat("[", 8*mib), "nest deeper than 64", 40 * mib},
		"deep objects":    {`{"document":` + strings.Repeat(`{"a":`, mib), "nest deeper than 64", 40 * mib},
		"deep branches":   {csaf(`"branches": [`+strings.Repeat(`{"category": "x", "name": "y", "branches": [`, 40), notAffectedP1), "nest deeper than 64", 10 * mib},
		"many values":     {`{"statements": [` + list(600_000, "{}") + `]}`, "more than 500000 JSON values", 40 * mib},
		"many statements": {openVEX("x", "a", day, 1, list(20_001, "{}")), "20001 statements, more than 20000", 20 * mib},
		"many components": {cycloneDX(`"components": [`+list(400_000, "{}")+`],`, cdxNotCalled, `{"ref": "b"}`), `"b" is not defined`, 300 * mib},
		"many branches":   {csaf(`"branches": [`+list(400_000, "{}")+`]`, notAffectedP1), `branches[0] has no "category"`, 200 * mib},
		"many products":   {openVEX("x", "a", day, 1, about("CVE-1", "fixed", list(50_001, id("pkg:npm/a%d")))), "50001 products and subcomponents, more than 50000", 200 * mib},
		"products in all": {fmt.Sprintf(`{%s, "product_tree": {"full_product_names": [%s]}, "vulnerabilities": [%s]}`, csafHead, list(2500, `{"name": "n", "product_id": "P%d"}`),
			list(90, `{"cve": "CVE-2026-0001", "notes": [{"category": "other", "text": "x"}], "product_status": {"fixed": [`+strings.ReplaceAll(list(2500, `"P%d"`), "%d", "")+`]}}`)),
			"225000 products and subcomponents, more than 200000", 200 * mib},
		"many aliases":     {replaceIn(t, valid, `"name": "CVE-1"`, `"name": "CVE-1", "aliases": [`+list(101, `"a%d"`)+`]`), "101 aliases, more than 100", mib},
		"long ID":          {replaceIn(t, valid, "CVE-1", long), "an ID of the vulnerability has 600 bytes, more than 500", mib},
		"long author":      {replaceIn(t, valid, `"author": "a"`, `"author": "`+long+`"`), "author has 600 bytes", mib},
		"long PURL":        {replaceIn(t, valid, "pkg:npm/a", "pkg:npm/"+strings.Repeat("a", 3000)), "more than the limit of 2048", mib},
		"long version":     {cycloneDX(`"components": [{"type": "library", "bom-ref": "a", "name": "a", "purl": "pkg:npm/a", "version": "`+strings.Repeat("1", mib)+`"}],`, cdxNotCalled, cdxRefA), "components[0].version: the version has 1048576 bytes, more than the limit of 2048", 20 * mib},
		"long affected":    {cycloneDX(cdxPackage, cdxNotCalled, `{"ref": "a", "versions": [{"version": "`+strings.Repeat("1", 2049)+`"}]}`), "affects[0].versions[0]: the version has 2049 bytes, more than the limit of 2048", mib},
		"long branch":      {csaf(`"branches": [{"category": "product_version", "name": "`+strings.Repeat("1", mib)+`"}]`, notAffectedP1), "branches[0]: the version has 1048576 bytes, more than the limit of 2048", 20 * mib},
		"long identifier":  {replaceIn(t, valid, "pkg:npm/a", strings.Repeat("a", 3000)), "more than the limit of 2048", mib},
		"huge version":     {replaceIn(t, valid, `"version": 1`, `"version": 1e400`), "version", mib},
		"large version":    {replaceIn(t, valid, `"version": 1`, `"version": 99999999999999999999`), "version", mib},
		"negative version": {replaceIn(t, valid, `"version": 1`, `"version": -1`), `"version" of 1 or more`, mib},
		"huge number":      {cycloneDX(`"version": `+strings.Repeat("9", mib)+`,`, cdxNotCalled, cdxRefA), "cannot unmarshal number", 80 * mib},
		"open string":      {`{"a": "` + strings.Repeat(`\`, mib), "not valid JSON", 20 * mib},
		"two documents":    {valid + valid, "not valid JSON", mib},
		"null elements":    {openVEX("x", "a", day, 1, "null"), "statements[0] has no", mib},
		"null branches":    {csaf(`"branches": [null]`, notAffectedP1), "branches[0] has no", mib},
		"ranges in one": {
			cycloneDX(cdxShop+cdxPackage, cdxNotCalled, list(60, `{"ref": "a", "versions": [{"range": "vers:npm/`+manyVersions("%d", 90)+`"}]}`)),
			`about "CVE-2026-1" up to this one have ranges with more than 5000 versions`, 60 * mib,
		},
		"groups of a product": {csaf(names("pkg:npm/a")+`, "product_groups": [`+list(101, `{"group_id": "G%d", "product_ids": ["P1"]}`)+`]`, notAffectedP1),
			"in more than 100 product groups", mib},
		"a chain of relationships": {csaf(names("pkg:npm/a")+`, "relationships": [`+list(20_000, `{"category": "installed_on", "product_reference": "P1",
			"relates_to_product_reference": "R%d", "full_product_name": {"name": "n", "product_id": "R%d"}}`)+`]`, notAffectedP1), "made of itself", 100 * mib},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			d, err := vex.Read("x", strings.NewReader(c.document), vex.Limits{})
			runtime.ReadMemStats(&after)
			if err == nil || d != nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, %.300v; want an error with %q", d != nil, err, c.want)
			}
			if len(err.Error()) > 1000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			if !errors.Is(err, vex.ErrLimit) && !errors.Is(err, vex.ErrFormat) {
				t.Errorf("the error is of no kind: %v", err)
			}
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > c.memory {
				t.Errorf("reading allocated %d MiB, more than %d MiB", allocated/mib, c.memory/mib)
			}
		})
	}
}

// A product in many groups, of which each vulnerability has texts, and long chains of relationships are cheap.
func TestHostileButValid(t *testing.T) {
	groups := names("pkg:npm/a") + `, "product_groups": [` + list(100, `{"group_id": "G%d", "product_ids": ["P1"]}`) + `]`
	one := `{"cve": "CVE-2026-0001", "notes": [{"category": "other", "text": "x"}], "product_status": {"known_not_affected": ["P1"]}, "flags": [{"label": "component_not_present", "group_ids": [` +
		list(100, `"G%d"`) + `]}]}`
	document := fmt.Sprintf(`{%s, "product_tree": {%s}, "vulnerabilities": [%s]}`, csafHead, groups, list(4000, one))
	if d := read(t, document); len(d.Statements) != 4000 || d.Statements[3999].Justification != "component_not_present" {
		t.Errorf("%d statements", len(d.Statements))
	}
	// The first one combines P1 with itself.
	chain := list(20_000, `{"category": "installed_on", "product_reference": "BEFORE%d", "relates_to_product_reference": "BEFORE%d", "full_product_name": {"name": "n", "product_id": "R%d"}}`)
	chain = regexp.MustCompile(`BEFORE\d+`).ReplaceAllStringFunc(chain, func(before string) string {
		n, _ := strconv.Atoi(strings.TrimPrefix(before, "BEFORE"))
		return map[bool]string{true: "P1", false: fmt.Sprintf("R%d", n-1)}[n == 0]
	})
	d := read(t, csaf(names("pkg:npm/a")+`, "relationships": [`+chain+`]`, replaceIn(t, notAffectedP1, "P1", "R19999")))
	if d.Statements[0].Identified() {
		t.Error("a product at the end of a chain is identified")
	}
}

// soon is the time that reading and applying a hostile document may take on a busy machine. Work that grows with the product of texts, products,
// groups and findings takes minutes.
const soon = 30 * time.Second

// A long text about each of many products, and many groups of each product, are read once.
func TestHostileExplanations(t *testing.T) {
	products := `"full_product_names": [` + list(40_000, `{"name": "n", "product_id": "P%d"}`) + `]`
	all := list(40_000, `"P%d"`)
	for name, document := range map[string]string{
		"a long text": csaf(products, `"product_status": {"known_affected": [`+all+`]}, "remediations": [{"category": "vendor_fix", "details": "`+
			strings.Repeat("x", 12<<20)+`", "product_ids": [`+all+`]}]`),
		"many groups": fmt.Sprintf(`{%s, "product_tree": {"full_product_names": [%s], "product_groups": [%s]}, "vulnerabilities": [%s]}`, csafHead,
			list(1000, `{"name": "n", "product_id": "P%d"}`), list(100, `{"group_id": "G%d", "product_ids": [`+list(1000, `"P%d"`)+`]}`),
			list(190, `{"cve": "CVE-2026-0001", "notes": [{"category": "other", "text": "x"}], "product_status": {"known_not_affected": [`+list(1000, `"P%d"`)+`]},
				"flags": [{"label": "component_not_present", "group_ids": [`+list(100, `"G%d"`)+`]}]}`)),
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			_, err := vex.Read("x", strings.NewReader(document), vex.Limits{})
			if err != nil {
				t.Error(err)
			}
			if took := time.Since(begin); took > soon {
				t.Errorf("reading takes %s", took)
			}
		})
	}
}

// counted counts how often versions are compared.
type counted struct{ comparisons *int }

func (c counted) Satisfies(packageType, version, constraint string) (bool, error) {
	*c.comparisons++
	return semantic{}.Satisfies(packageType, version, constraint)
}

// The same range of many products is compared once with each version, and the end of the context ends the work.
func TestHostileRanges(t *testing.T) {
	const products, findings = 10_000, 100
	d := read(t, cycloneDX(cdxShop+cdxPackage, cdxNotCalled, list(products, `{"ref": "a", "versions": [{"range": "vers:npm/>5"}]}`)))
	set := newSet(t, d)
	all := make([]model.Finding, findings)
	for i := range all {
		all[i] = finding("CVE-2026-1", "pkg:npm/a@1.2.0")
	}
	comparisons := 0
	result, err := set.Apply(t.Context(), shop, all, counted{&comparisons}, time.Now())
	if err != nil || len(result.Open) != findings {
		t.Errorf("%d findings are open, %v", len(result.Open), err)
	}
	if comparisons == 0 || comparisons > 10 {
		t.Errorf("%d comparisons", comparisons)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if result, err := set.Apply(ended, shop, all, semantic{}, time.Now()); !errors.Is(err, context.Canceled) || len(result.Open)+len(result.Suppressed) > 0 {
		t.Errorf("after the end: %v, %+v", err, result)
	}
}

// TestWork counts what rules cost: little for other packages, and each version in a range, with its bytes and those of the package, for those that it may match.
func TestWork(t *testing.T) {
	components := `"components": [{"type": "library", "bom-ref": "n", "name": "a", "purl": "pkg:npm/a"}],`
	rules, _, err := newSet(t, read(t, cycloneDX(components, cdxNotCalled, `{"ref": "n", "versions": [{"range": "vers:npm/2.0.0|3.0.0|4.0.0"}]}`))).Rules()
	if err != nil || len(rules) != 1 {
		t.Fatalf("%d rules, %v", len(rules), err)
	}
	e := &vex.Evaluator{Versions: semantic{}}
	rule, err := e.Parse(rules[0].Text)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{1, 335, 669} {
		name := map[bool]string{true: "other", false: "a"}[i == 0]
		if n := e.Decide(&model.Package{Type: "npm", Name: name, Version: "1.2.0"}, []decision.Rule{rule}); n != -1 || e.Work(rule) != want {
			t.Errorf("package %s: %d decides, work %d, want %d", name, n, e.Work(rule), want)
		}
	}
}

// Texts of documents are stored in the results; they are bounded.
func TestLongTextsAreTruncated(t *testing.T) {
	long := strings.Repeat("ä", 5000)
	s := read(t, openVEX("x", "a", day, 1, about("CVE-1", "not_affected", id("pkg:npm/a"), `, "impact_statement": "`+long+`", "status_notes": "`+long+`"`))).Statements[0]
	for _, text := range []string{s.ImpactStatement, s.Comment} {
		if len(text) > 4096 || !strings.HasSuffix(text, "…") {
			t.Errorf("a text has %d bytes", len(text))
		}
	}
}

func TestUnknownFormats(t *testing.T) {
	wantErrors(t, map[string]struct{ document, want string }{
		"empty":             {"", "not valid JSON"},
		"empty object":      {"{}", `it has neither "@context" of OpenVEX, nor "document.csaf_version" of CSAF, nor "bomFormat" of CycloneDX`},
		"empty array":       {"[]", "its format is unknown"},
		"null":              {"null", "its format is unknown"},
		"text":              {`"https://openvex.dev/ns"`, "its format is unknown"},
		"YAML":              {"a: b", "not valid JSON"},
		"XML":               {"\ufeff <bom/>", "convert it to JSON"},
		"SPDX":              {`{"spdxVersion": "SPDX-2.3"}`, "its format is unknown"},
		"other context":     {`{"@context": "https://spdx.org/rdf/3.0.1/spdx-context.jsonld"}`, "its format is unknown"},
		"similar context":   {`{"@context": "https://openvex.dev/nsx"}`, "its format is unknown"},
		"envelope":          {`{"payloadType": "application/vnd.in-toto+json", "payload": "e30="}`, "signed envelope"},
		"CSAF without head": {`{"document": {}}`, "its format is unknown"},
		"CycloneDX only":    {`{"bomFormat": "CycloneDX", "specVersion": "1.6"}`, "no VEX statement"},
	})
}

// FuzzRead reads any bytes, and applies what could be read.
func FuzzRead(f *testing.F) {
	f.Add(openVEX("x", "a", day, 1, about("CVE-2026-1", "not_affected", `{"@id": "pkg:oci/shop@`+digest+`?arch=amd64&tag=1", "identifiers": {"cpe23": "cpe:2.3:a:b:c:*:*:*:*:*:*:*:*"},
		"hashes": {"sha-256": "00"}, "subcomponents": [{"@id": "pkg:npm/%40a/b@1.0.0?x=y#z"}]}`)))
	f.Add(csaf(`"branches": [{"category": "product_version_range", "name": "vers:npm/>=1|<2", "product": {"name": "n", "product_id": "P1",
		"product_identification_helper": {"purl": "pkg:npm/a", "cpe": "cpe:/a:b:c"}}}], "product_groups": [{"group_id": "G", "product_ids": ["P1"]}],
		"relationships": [{"category": "installed_on", "product_reference": "P1", "relates_to_product_reference": "P1", "full_product_name": {"name": "n", "product_id": "R"}}]`,
		`"product_status": {"known_not_affected": ["P1", "R"]}, "threats": [{"category": "impact", "details": "x", "group_ids": ["G"], "product_ids": ["R"]}]`))
	f.Add(cycloneDX(cdxShop+cdxPackage, cdxNotCalled, `{"ref": "a", "versions": [{"range": "vers:npm/!=1|>2", "status": "unaffected"}]}, {"ref": "urn:cdx:1/1#pkg:npm/a"}`))
	f.Add("{}")
	limits := vex.Limits{Bytes: 1 << 16, Values: 10_000}
	findings := []model.Finding{finding("CVE-2026-1", "pkg:npm/a@1.2.0", "GHSA-1"), finding("CVE-2026-0001", "pkg:npm/a@1.2.0"), finding("CVE-2026-1", "pkg:npm/%40a/b@1.0.0?x=y#z")}
	findings[0].Package.CPEs = []string{"cpe:2.3:a:b:c:1:*:*:*:*:*:*:*"}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := vex.Read("x", strings.NewReader(text), limits)
		if err != nil {
			if d != nil || !errors.Is(err, vex.ErrLimit) && !errors.Is(err, vex.ErrFormat) {
				t.Fatalf("%v, %v", d, err)
			}
			if strings.Contains(err.Error(), "panicked") {
				t.Fatal(err)
			}
			return
		}
		if len(d.Statements) == 0 {
			t.Fatal("a document without statements is accepted")
		}
		set, err := vex.NewSet([]*vex.Document{d})
		if err != nil {
			t.Fatal(err)
		}
		result := apply(t, set, shop, findings)
		if len(result.Open)+len(result.Suppressed) != len(findings) {
			t.Fatalf("%d findings are open and %d suppressed, of %d", len(result.Open), len(result.Suppressed), len(findings))
		}
		for _, s := range result.Suppressed {
			if status := s.Suppression.Status; status != "not_affected" && status != "fixed" {
				t.Fatalf("the status %q suppresses a finding", status)
			}
		}
	})
}
