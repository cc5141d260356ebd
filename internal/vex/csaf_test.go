package vex_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/vex"
)

// The tests in this file follow "Common Security Advisory Framework Version 2.0" (OASIS Standard): section 4.5 (profile VEX), section 3.2.2 (product
// tree), section 3.2.3 (vulnerabilities), and the mandatory tests of section 6.1, which they name.

const csafHead = `"document": {"category": "csaf_vex", "csaf_version": "2.0", "title": "t",
  "publisher": {"category": "vendor", "name": "Example", "namespace": "https://example.com"},
  "tracking": {"id": "EX-1", "version": "2", "status": "final", "initial_release_date": "2026-01-01T00:00:00Z", "current_release_date": "2026-01-02T00:00:00Z",
    "revision_history": [{"date": "2026-01-01T00:00:00Z", "number": "1", "summary": "s"}]}}`

// csaf is a document with a product tree and a vulnerability.
func csaf(tree, vulnerability string) string {
	return fmt.Sprintf(`{%s, "product_tree": {%s}, "vulnerabilities": [{"cve": "CVE-2026-0001", "notes": [{"category": "description", "text": "x"}], %s}]}`,
		csafHead, tree, vulnerability)
}

// names are full product names with PURLs.
func names(purls ...string) string {
	var list []string
	for i, purl := range purls {
		list = append(list, fmt.Sprintf(`{"name": "n", "product_id": "P%d", "product_identification_helper": {"purl": %q}}`, i+1, purl))
	}
	return `"full_product_names": [` + strings.Join(list, ",") + `]`
}

const notAffectedP1 = `"product_status": {"known_not_affected": ["P1"]}, "flags": [{"label": "vulnerable_code_not_present", "product_ids": ["P1"]}]`

func TestCSAFFields(t *testing.T) {
	d := read(t, csaf(names("pkg:npm/a@1.0.0", "pkg:npm/b@1.0.0", "pkg:npm/c", "pkg:npm/d")+
		`, "product_groups": [{"group_id": "G1", "product_ids": ["P2", "P3"]}]`,
		`"ids": [{"system_name": "x", "text": "EX-7"}],
		 "product_status": {"known_not_affected": ["P1", "P2", "P3"], "known_affected": ["P4"], "recommended": ["P1"]},
		 "flags": [{"label": "component_not_present", "product_ids": ["P1"]}],
		 "threats": [{"category": "impact", "details": "why", "group_ids": ["G1"]}, {"category": "exploit_status", "details": "no", "product_ids": ["P1"]}],
		 "remediations": [{"category": "mitigation", "details": "Upgrade.", "product_ids": ["P4"]}]`))
	at := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	statement := func(s vex.Statement, purls ...vex.PURL) vex.Statement {
		s.Vulnerability, s.Aliases, s.Timestamp = "CVE-2026-0001", []string{"EX-7"}, at
		for _, p := range purls {
			s.Products = append(s.Products, vex.Product{Component: vex.Component{PURLs: []vex.PURL{p}}})
		}
		return s
	}
	want := &vex.Document{
		Source: "test.json", Format: vex.FormatCSAF, ID: "EX-1", Revision: "2", Author: "Example", Timestamp: at,
		Statements: []vex.Statement{
			statement(vex.Statement{Status: vex.StatusAffected, ActionStatement: "Upgrade.", Position: "vulnerabilities[0].product_status.known_affected[0]"},
				vex.PURL{Type: "npm", Name: "d"}),
			statement(vex.Statement{Status: vex.StatusNotAffected, Justification: "component_not_present", Position: "vulnerabilities[0].product_status.known_not_affected[0]"},
				vex.PURL{Type: "npm", Name: "a", Version: "1.0.0"}),
			statement(vex.Statement{Status: vex.StatusNotAffected, ImpactStatement: "why", Position: "vulnerabilities[0].product_status.known_not_affected[1]"},
				vex.PURL{Type: "npm", Name: "b", Version: "1.0.0"}, vex.PURL{Type: "npm", Name: "c"}),
		},
	}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("the document differs (-want +got):\n%s", diff)
	}
}

// Section 3.2.3.9: what each list of products means.
func TestCSAFStatuses(t *testing.T) {
	for list, want := range map[string]string{
		"fixed": "fixed", "first_fixed": "fixed", "known_not_affected": "not_affected", "known_affected": "open", "first_affected": "open",
		"last_affected": "open", "under_investigation": "open", "recommended": "unmatched",
	} {
		statuses := `"` + list + `": ["P1"]`
		if list != "under_investigation" {
			statuses += `, "under_investigation": ["P2"]`
		}
		set := newSet(t, read(t, csaf(names("pkg:npm/a@1.0.0", "pkg:npm/other"), `"product_status": {`+statuses+`}, "flags": [{"label": "component_not_present", "product_ids": ["P1"]}],
			"remediations": [{"category": "vendor_fix", "details": "x", "product_ids": ["P1"]}]`)))
		if got := statusOf(t, set, shop, finding("CVE-2026-0001", "pkg:npm/a@1.0.0")); got != want {
			t.Errorf("%s: got %s, want %s", list, got, want)
		}
	}
}

// Section 3.1.2: branches, of which product_version and product_version_range restrict the versions; section 3.1.3.3: identification helpers.
func TestCSAFBranches(t *testing.T) {
	branch := func(category, name, content string) string {
		return fmt.Sprintf(`{"category": %q, "name": %q, %s}`, category, name, content)
	}
	product := func(helper string) string {
		return `"product": {"name": "n", "product_id": "P1", "product_identification_helper": {` + helper + `}}`
	}
	for name, c := range map[string]struct{ category, version, helper, want string }{
		"version in the PURL":     {"product_version", "one", `"purl": "pkg:npm/a@1.2.0"`, "not_affected"},
		"version of the branch":   {"product_version", "1.2.0", `"purl": "pkg:npm/a"`, "not_affected"},
		"other version":           {"product_version", "1.3.0", `"purl": "pkg:npm/a"`, "unmatched"},
		"range":                   {"product_version_range", "vers:npm/>=1.0.0|<1.3.0", `"purl": "pkg:npm/a"`, "not_affected"},
		"other range":             {"product_version_range", "vers:npm/<1.2.0", `"purl": "pkg:npm/a"`, "unmatched"},
		"range without scheme":    {"product_version_range", "<=1.2.0", `"purl": "pkg:npm/a"`, "not_affected"},
		"range in words":          {"product_version_range", "all versions before 2", `"purl": "pkg:npm/a"`, "unmatched"},
		"range of a CPE":          {"product_version_range", "<1.3.0", `"cpe": "cpe:/a:example:a"`, "not_affected"},
		"one exact, one not":      {"product_version", "2.0.0", `"purl": "pkg:npm/a", "cpe": "cpe:/a:example:a:2.0.0"`, "unmatched"},
		"digest of the image":     {"product_version", "1.2", `"hashes": [{"filename": "m", "file_hashes": [{"algorithm": "sha256", "value": "` + digest[7:] + `"}]}]`, "not_affected"},
		"image":                   {"product_version", "1.2", `"purl": "pkg:oci/shop"`, "not_affected"},
		"image with other tag":    {"product_version", "1.3", `"purl": "pkg:oci/shop"`, "unmatched"},
		"image in a range":        {"product_version_range", "<1.3", `"purl": "pkg:oci/shop"`, "unmatched"},
		"no identification":       {"product_version", "1.2.0", ``, "unmatched"},
		"branch that is no range": {"architecture", "amd64", `"purl": "pkg:npm/a"`, "not_affected"},
	} {
		t.Run(name, func(t *testing.T) {
			tree := `"branches": [` + branch("vendor", "Example", `"branches": [`+branch(c.category, c.version, `"branches": [`+
				branch("legacy", "x", product(c.helper))+`]`)+`]`) + `]`
			f := finding("CVE-2026-0001", "pkg:npm/a@1.2.0")
			f.Package.CPEs = []string{"cpe:2.3:a:example:a:1.2.0:*:*:*:*:*:*:*"}
			if got := statusOf(t, newSet(t, read(t, csaf(tree, notAffectedP1))), shop, f); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// Section 3.2.2.4: a relationship makes a product of two.
func TestCSAFRelationships(t *testing.T) {
	relationship := func(id, product, relatesTo string) string {
		return fmt.Sprintf(`{"category": "default_component_of", "product_reference": %q, "relates_to_product_reference": %q,
			"full_product_name": {"name": "n", "product_id": %q}}`, product, relatesTo, id)
	}
	products := func(in string) string {
		return `"full_product_names": [{"name": "a", "product_id": "A", "product_identification_helper": {"purl": "pkg:npm/a@1.0.0"}}, {"name": "in", "product_id": "IN", ` + in + `}]`
	}
	const vulnerability = `"product_status": {"known_not_affected": ["C"]}, "flags": [{"label": "component_not_present", "product_ids": ["C"]}]`
	for name, c := range map[string]struct{ tree, want string }{
		"in the image":        {products(`"product_identification_helper": {"purl": "pkg:oci/shop"}`), "not_affected"},
		"in another image":    {products(`"product_identification_helper": {"purl": "pkg:oci/other"}`), "unmatched"},
		"on the distribution": {products(`"product_identification_helper": {"cpe": "cpe:/o:example:linux"}`), "not_affected"},
		"on another one":      {products(`"product_identification_helper": {"cpe": "cpe:/o:example:linux:8"}`), "unmatched"},
		"in what is unknown":  {products(`"product_identification_helper": {}`), "unmatched"},
	} {
		set := newSet(t, read(t, csaf(c.tree+`, "relationships": [`+relationship("C", "A", "IN")+`]`, vulnerability)))
		if got := statusOf(t, set, shop, finding("CVE-2026-0001", "pkg:npm/a@1.0.0")); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
		if got := statusOf(t, set, shop, finding("CVE-2026-0001", "pkg:npm/b@1.0.0")); got != "unmatched" {
			t.Errorf("%s: another package: %s", name, got)
		}
	}
	image := products(`"product_identification_helper": {"purl": "pkg:oci/shop"}`)
	own := replaceIn(t, relationship("C", "A", "IN"), `"product_id": "C"`, `"product_id": "C", "product_identification_helper": {"purl": "pkg:npm/b"}`)
	if got := statusOf(t, newSet(t, read(t, csaf(image+`, "relationships": [`+own+`]`, vulnerability))), shop, finding("CVE-2026-0001", "pkg:npm/b@1.0.0")); got != "not_affected" {
		t.Errorf("a relationship with an identification of its own: %s", got)
	}
	nested := image + `, "relationships": [` + relationship("B", "A", "IN") + "," + relationship("C", "A", "B") + `]`
	if got := statusOf(t, newSet(t, read(t, csaf(nested, vulnerability))), shop, finding("CVE-2026-0001", "pkg:npm/a@1.0.0")); got != "unmatched" {
		t.Errorf("a relationship of a relationship: %s", got)
	}
	wantErrors(t, map[string]struct{ document, want string }{
		"of itself":  {csaf(image+`, "relationships": [`+relationship("C", "A", "C")+`]`, vulnerability), "made of itself"},
		"in a cycle": {csaf(image+`, "relationships": [`+relationship("B", "C", "IN")+","+relationship("C", "A", "B")+`]`, vulnerability), "made of itself"},
		"of nothing": {csaf(image+`, "relationships": [`+relationship("C", "A", "X")+`]`, vulnerability), `relationships[0]: the product "X" is not defined`},
		"twice":      {csaf(image+`, "relationships": [`+relationship("A", "A", "IN")+`]`, vulnerability), `"A" is defined twice`},
	})
}

func TestCSAFRefuses(t *testing.T) {
	valid := csaf(names("pkg:npm/a", "pkg:npm/b"), notAffectedP1)
	read(t, valid)
	with := func(from, to string) string { return replaceIn(t, valid, from, to) }
	const affected = `"product_status": {"known_affected": ["P1"]}`
	wantErrors(t, map[string]struct{ document, want string }{
		// Section 3.2.1
		"version":         {with(`"csaf_version": "2.0"`, `"csaf_version": "2.1"`), "use 2.0"},
		"other profile":   {with("csaf_vex", "csaf_security_advisory"), `only the VEX profile is supported`},
		"no title":        {with(`"title": "t",`, ""), `document has no "title"`},
		"no publisher":    {with(`"name": "Example", `, ""), `"publisher.name"`},
		"no namespace":    {with(`, "namespace": "https://example.com"`, ""), `"publisher.namespace"`},
		"no ID":           {with(`"id": "EX-1", `, ""), `"tracking.id"`},
		"no release date": {with(`, "current_release_date": "2026-01-02T00:00:00Z"`, ""), `"tracking.current_release_date"`},
		"release date":    {with(`"current_release_date": "2026-01-02T00:00:00Z"`, `"current_release_date": "2.1.2026"`), "2.1.2026"},
		"no history":      {with(`{"date": "2026-01-01T00:00:00Z", "number": "1", "summary": "s"}`, ""), "revision_history"},
		// Values that the schema does not allow
		"publisher":                {with(`"category": "vendor"`, `"category": "x"`), `document.publisher: the category "x" is not one of coordinator`},
		"status":                   {with(`"status": "final"`, `"status": "banana"`), `document.tracking: the status "banana" is not one of draft, final, interim`},
		"draft":                    {with(`"status": "final"`, `"status": "draft"`), "drafts are not applied"},
		"version of the document":  {with(`"version": "2"`, `"version": "two"`), `the version "two" is neither`},
		"initial release date":     {with(`"initial_release_date": "2026-01-01T00:00:00Z"`, `"initial_release_date": "soon"`), `initial_release_date: "soon"`},
		"no date of a revision":    {with(`"date": "2026-01-01T00:00:00Z", `, ""), `revision_history[0] has no "date"`},
		"date of a revision":       {with(`"date": "2026-01-01T00:00:00Z"`, `"date": "x"`), `revision_history[0].date: "x"`},
		"number of a revision":     {with(`"number": "1"`, `"number": "1.0"`), `revision_history[0]: the number "1.0"`},
		"summary of a revision":    {with(`"summary": "s"`, `"summary": ""`), `revision_history[0] has no "summary"`},
		"no text of a summary":     {with(`"summary": "s"`, `"summary": 1`), "must be a text"},
		"category of a note":       {with(`"category": "description"`, `"category": "x"`), `notes[0]: the category "x"`},
		"a note without text":      {with(`, "text": "x"`, ""), `notes[0] has no "text"`},
		"discovery date":           {with(`"notes"`, `"discovery_date": "x", "notes"`), `vulnerabilities[0].discovery_date: "x"`},
		"release date of the CVE":  {with(`"notes"`, `"release_date": "x", "notes"`), `vulnerabilities[0].release_date: "x"`},
		"date of a flag":           {with(`"label"`, `"date": "x", "label"`), `flags[0].date: "x"`},
		"category of a threat":     {with(`"flags"`, `"threats": [{"category": "x", "details": "d"}], "flags"`), `threats[0]: the category "x"`},
		"date of a threat":         {with(`"flags"`, `"threats": [{"category": "impact", "details": "d", "date": "x"}], "flags"`), `threats[0].date: "x"`},
		"category of a remedy":     {with(`"flags"`, `"remediations": [{"category": "x", "details": "d"}], "flags"`), `remediations[0]: the category "x"`},
		"date of a remedy":         {with(`"flags"`, `"remediations": [{"category": "mitigation", "details": "d", "date": "x"}], "flags"`), `remediations[0].date: "x"`},
		"category of a branch":     {with(`"full_product_names"`, `"branches": [{"category": "x", "name": "b"}], "full_product_names"`), `branches[0]: the category "x"`},
		"category of relationship": {with(`"full_product_names"`, `"relationships": [{"category": "x", "product_reference": "P1", "relates_to_product_reference": "P2", "full_product_name": {"name": "n", "product_id": "C"}}], "full_product_names"`), `relationships[0]: the category "x"`},
		// Section 6.1
		"6.1.1 missing definition":          {with(`["P1"]}, "flags"`, `["P9"]}, "flags"`), `known_not_affected[0]: the product "P9" is not defined`},
		"6.1.1 in a flag":                   {with(`"product_ids": ["P1"]`, `"product_ids": ["P1", "P9"]`), `flags[0].product_ids[1]: the product "P9"`},
		"6.1.2 multiple definition":         {with(`"product_id": "P2"`, `"product_id": "P1"`), `full_product_names[1]: the product "P1" is defined twice`},
		"6.1.4 missing group":               {with(`"product_ids": ["P1"]`, `"group_ids": ["G"]`), `flags[0].group_ids[0]: the product group "G" is not defined`},
		"6.1.5 multiple definition":         {csaf(names("pkg:npm/a", "pkg:npm/b")+`, "product_groups": [{"group_id": "G", "product_ids": ["P1"]}, {"group_id": "G", "product_ids": ["P1"]}]`, notAffectedP1), `"G" is defined twice`},
		"6.1.6 contradiction":               {with(`"known_not_affected": ["P1"]`, `"known_not_affected": ["P1"], "fixed": ["P1"]`), `has the status not_affected, too`},
		"6.1.27.4 product tree":             {replaceIn(t, valid, "product_tree", "product_forest"), `no "product_tree"`},
		"6.1.27.5 vulnerability notes":      {with(`"notes": [{"category": "description", "text": "x"}]`, `"notes": []`), `vulnerabilities[0] has no "notes"`},
		"6.1.27.7 product status":           {with("known_not_affected", "first_fixed"), "product_status has no product"},
		"6.1.27.8 vulnerability ID":         {with(`"cve": "CVE-2026-0001", `, ""), `neither "cve" nor "ids"`},
		"a CVE that is none":                {with("CVE-2026-0001", "CVE-2026"), `the CVE "CVE-2026" is invalid`},
		"6.1.27.9 impact statement":         {with(`"flags"`, `"x"`), "neither a flag nor a threat"},
		"6.1.27.9 not of another product":   {with(`"product_ids": ["P1"]`, `"product_ids": ["P2"]`), "neither a flag nor a threat"},
		"6.1.27.10 action statement":        {csaf(names("pkg:npm/a"), affected), "no remediation"},
		"6.1.27.11 vulnerabilities":         {with(`"vulnerabilities"`, `"x"`), `no "vulnerabilities"`},
		"a label that does not exist":       {with("vulnerable_code_not_present", "trust_me"), `flags[0]: the label "trust_me"`},
		"a product without name":            {with(`"name": "n", `, ""), `full_product_names[0] has no "name"`},
		"an invalid PURL":                   {with("pkg:npm/a", "npm/a"), "full_product_names[0].product_identification_helper.purl"},
		"an empty tree":                     {csaf("", notAffectedP1), "defines no product"},
		"a list in place of an object":      {with(`"product_status": {`, `"product_status": [], "x": {`), "vulnerabilities[0]"},
		"a remediation that says nothing":   {csaf(names("pkg:npm/a"), affected+`, "remediations": [{"category": "mitigation", "product_ids": ["P1"]}]`), `remediations[0] has no "details"`},
		"a vulnerability ID without system": {with(`"cve": "CVE-2026-0001"`, `"ids": [{"text": "x"}]`), `vulnerabilities[0].ids[0] has no "system_name"`},
	})
}
