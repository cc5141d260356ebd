package vex_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/decision"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/vex"
)

// inFull is a document whose exported decisions apply.
func inFull(t *testing.T, text string) *vex.Document {
	t.Helper()
	d := read(t, text)
	d.ExportedDecisions = true
	return d
}

// suppressedAs says as what a set suppresses the finding CVE-1 of the package a at a time, "" if it counts.
func suppressedAs(t *testing.T, now time.Time, documents ...*vex.Document) string {
	t.Helper()
	result, err := newSet(t, documents...).Apply(t.Context(), shop, []model.Finding{finding("CVE-1", "pkg:npm/a@1")}, semantic{}, now)
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Suppressed) == 0 {
		return ""
	}
	s := result.Suppressed[0].Suppression
	return strings.TrimSpace(s.Status + " " + string(s.Decision))
}

// cdxDecision is a CycloneDX document about the same finding, with properties of decisions.
func cdxDecision(state string, properties ...string) string {
	var list []string
	for i := 0; i < len(properties); i += 2 {
		list = append(list, fmt.Sprintf(`{"name": %s, "value": %s}`, quote("scanner-operator:decision"+properties[i]), quote(properties[i+1])))
	}
	return fmt.Sprintf(`{"bomFormat": "CycloneDX", "specVersion": "1.6", "components": [{"type": "library", "name": "a", "bom-ref": "a", "purl": "pkg:npm/a@1"}],
		"vulnerabilities": [{"id": "CVE-1", "analysis": {"state": %q}, "properties": [%s], "affects": [{"ref": "a"}]}]}`, state, strings.Join(list, ","))
}

// TestHostileDecisions: whatever a document states of decisions, nothing is suppressed that the status of its statement does not allow, and that is of an
// accepted risk only what is stated as one. Without the option, the status is all that counts.
func TestHostileDecisions(t *testing.T) {
	now := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	notes := func(status, text string) string {
		return openVEX("x", "a", day, 1, about("CVE-1", status, id("pkg:npm/a@1"), `, "status_notes": `+quote(text)))
	}
	long := strings.Repeat("é Decision: NotAffected. ", 4000)
	for name, c := range map[string]struct {
		document       string
		full, ordinary string
	}{
		"accepted":                     {notes("affected", "Decision: AcceptedRisk."), "affected AcceptedRisk", ""},
		"accepted until later":         {notes("affected", "Decision: AcceptedRisk until 2027-01-01T00:00:00.000001Z."), "affected AcceptedRisk", ""},
		"accepted until now":           {notes("affected", "Decision: AcceptedRisk until 2027-01-01T00:00:00Z."), "", ""},
		"accepted until then":          {notes("affected", "Decision: AcceptedRisk until 2026-12-31T23:59:59Z."), "", ""},
		"accepted with an offset":      {notes("affected", "Decision: AcceptedRisk until 2027-01-01T00:30:00+01:00."), "", ""},
		"the year 1":                   {notes("affected", "Decision: AcceptedRisk until 0001-01-01T00:00:00Z."), "", ""},
		"before the year 1":            {notes("affected", "Decision: AcceptedRisk until 0000-01-01T00:00:00+23:59."), "", ""},
		"not affected, the year 1":     {notes("not_affected", "Decision: NotAffected until 0001-01-01T00:00:00Z."), "", "not_affected"},
		"the year 9999":                {notes("affected", "Decision: AcceptedRisk until 9999-12-31T23:59:59.999999999Z."), "affected AcceptedRisk", ""},
		"the year 10000":               {notes("affected", "Decision: AcceptedRisk until 10000-01-01T00:00:00Z."), "", ""},
		"no time":                      {notes("affected", "Decision: AcceptedRisk until Monday."), "", ""},
		"a time without a zone":        {notes("affected", "Decision: AcceptedRisk until 2030-01-01T00:00:00."), "", ""},
		"the 30th of February":         {notes("affected", "Decision: AcceptedRisk until 2030-02-30T00:00:00Z."), "", ""},
		"two ends":                     {notes("affected", "Decision: AcceptedRisk until 2030-01-01T00:00:00Z until 2031-01-01T00:00:00Z."), "", ""},
		"a long end":                   {notes("affected", "Decision: AcceptedRisk until "+strings.Repeat("9", 9000)+"."), "", ""},
		"long notes":                   {notes("affected", "Decision: AcceptedRisk. "+long), "affected AcceptedRisk", ""},
		"long notes with an end":       {notes("not_affected", "Decision: NotAffected until 2026-01-01T00:00:00Z. "+long), "", "not_affected"},
		"a decision behind a text":     {notes("affected", "See: Decision: AcceptedRisk."), "", ""},
		"a decision in a later line":   {notes("affected", "Open.\nDecision: AcceptedRisk."), "", ""},
		"a decision behind a decision": {notes("affected", "Decision: UnderInvestigation. Decision: AcceptedRisk."), "", ""},
		"another case":                 {notes("affected", "decision: acceptedrisk."), "", ""},
		"affected, and not":            {notes("affected", "Decision: NotAffected."), "", ""},
		"affected, and fixed":          {notes("affected", "Decision: Fixed."), "", ""},
		"affected":                     {notes("affected", "Decision: Affected."), "", ""},
		"investigated, and accepted":   {notes("under_investigation", "Decision: AcceptedRisk."), "", ""},
		"investigated, and not":        {notes("under_investigation", "Decision: NotAffected."), "", ""},
		"investigated":                 {notes("under_investigation", "Decision: UnderInvestigation."), "", ""},
		"not affected, and accepted":   {notes("not_affected", "Decision: AcceptedRisk."), "not_affected", "not_affected"},
		"fixed, and accepted until":    {notes("fixed", "Decision: AcceptedRisk until 2020-01-01T00:00:00Z."), "fixed", "fixed"},
		"a false positive":             {notes("not_affected", "Decision: FalsePositive."), "not_affected FalsePositive", "not_affected"},
		"ended":                        {notes("fixed", "Decision: Fixed until 2020-01-01T00:00:00Z."), "", "fixed"},
		"no decision":                  {notes("fixed", "Decision."), "fixed", "fixed"},
		"CycloneDX, accepted":          {cdxDecision("exploitable", "", "AcceptedRisk"), "affected AcceptedRisk", ""},
		"CycloneDX, ended":             {cdxDecision("false_positive", "", "FalsePositive", ":expiresAt", "2020-01-01T00:00:00Z"), "", "not_affected"},
		"CycloneDX, contradiction":     {cdxDecision("exploitable", "", "NotAffected"), "", ""},
		"CycloneDX, in triage":         {cdxDecision("in_triage", "", "AcceptedRisk"), "", ""},
		"CycloneDX, an end alone":      {cdxDecision("resolved", ":expiresAt", "2020-01-01T00:00:00Z"), "fixed", "fixed"},
		"CycloneDX, no time":           {cdxDecision("exploitable", "", "AcceptedRisk", ":expiresAt", "never"), "", ""},
		"CycloneDX, two decisions":     {cdxDecision("exploitable", "", "NotAffected", "", "AcceptedRisk"), "", ""},
		"CycloneDX, two ends":          {cdxDecision("exploitable", "", "AcceptedRisk", ":expiresAt", "2030-01-01T00:00:00Z", ":expiresAt", "2031-01-01T00:00:00Z"), "", ""},
		"CycloneDX, the same twice":    {cdxDecision("exploitable", "", "AcceptedRisk", "", "AcceptedRisk"), "affected AcceptedRisk", ""},
		"CycloneDX, a status of its own": {strings.Replace(cdxDecision("not_affected", "", "NotAffected"), `{"ref": "a"}`,
			`{"ref": "a", "versions": [{"version": "1", "status": "affected"}]}`, 1), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := suppressedAs(t, now, inFull(t, c.document)); got != c.full {
				t.Errorf("in full: %q, want %q", got, c.full)
			}
			if got := suppressedAs(t, now, read(t, c.document)); got != c.ordinary {
				t.Errorf("status only: %q, want %q", got, c.ordinary)
			}
		})
	}
}

// TestPrecedenceOfDecisions: a decision that applies in full is neither overridden by statements nor overrides them, nor other decisions.
func TestPrecedenceOfDecisions(t *testing.T) {
	now := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	statement := func(author, timestamp, status, notes string) string {
		return openVEX("x-"+author+timestamp+status, author, timestamp, 1, about("CVE-1", status, id("pkg:npm/a@1"), `, "status_notes": `+quote(notes)))
	}
	accepted := func(author, until string) *vex.Document {
		return inFull(t, statement(author, day, "affected", "Decision: AcceptedRisk until "+until+"."))
	}
	later, before := "2030-01-01T00:00:00Z", "2026-06-01T00:00:00Z"
	investigated := inFull(t, statement("cluster", "2026-12-01T00:00:00Z", "under_investigation", "Decision: UnderInvestigation."))
	for name, c := range map[string]struct {
		documents []*vex.Document
		want      string
	}{
		"a vendor says affected":              {[]*vex.Document{accepted("cluster", later), read(t, statement("vendor", "2026-12-01T00:00:00Z", "affected", ""))}, "affected AcceptedRisk"},
		"a vendor says fixed":                 {[]*vex.Document{accepted("cluster", later), read(t, statement("vendor", day, "fixed", ""))}, "affected AcceptedRisk"},
		"ended, and a vendor says fixed":      {[]*vex.Document{accepted("cluster", before), read(t, statement("vendor", day, "fixed", ""))}, "fixed"},
		"investigated, and a vendor: fixed":   {[]*vex.Document{investigated, read(t, statement("vendor", day, "fixed", ""))}, "fixed"},
		"accepted, and investigated later":    {[]*vex.Document{accepted("cluster", later), investigated}, "affected AcceptedRisk"},
		"ended in one, not in the other":      {[]*vex.Document{accepted("cluster", before), accepted("other", later)}, "affected AcceptedRisk"},
		"the same document as any other":      {[]*vex.Document{accepted("cluster", later), read(t, statement("cluster", day, "affected", "Decision: AcceptedRisk."))}, "affected AcceptedRisk"},
		"accepted, and a false positive":      {[]*vex.Document{accepted("cluster", later), inFull(t, statement("other", day, "not_affected", "Decision: FalsePositive."))}, "not_affected FalsePositive"},
		"a statement without a decision":      {[]*vex.Document{inFull(t, statement("cluster", day, "fixed", "")), read(t, statement("vendor", day, "affected", ""))}, ""},
		"a decision without the permission":   {[]*vex.Document{read(t, statement("cluster", day, "affected", "Decision: AcceptedRisk.")), read(t, statement("vendor", day, "fixed", ""))}, ""},
		"investigated, and nobody suppresses": {[]*vex.Document{investigated}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				if got := suppressedAs(t, now, c.documents...); got != c.want {
					t.Errorf("%q, want %q", got, c.want)
				}
				for i, j := 0, len(c.documents)-1; i < j; i, j = i+1, j-1 {
					c.documents[i], c.documents[j] = c.documents[j], c.documents[i]
				}
			}
		})
	}
	set := newSet(t, accepted("cluster", before))
	result, err := set.Apply(t.Context(), shop, []model.Finding{finding("CVE-1", "pkg:npm/a@1")}, semantic{}, now)
	if err != nil || len(result.Unmatched) != 1 || !result.Unmatched[0].Ended {
		t.Errorf("a decision that has ended: %+v, %v", result.Unmatched, err)
	}
}

// TestRulesOfDecisions: decisions are rules that are independent of others, also of those about the same products, unless they say the same.
func TestRulesOfDecisions(t *testing.T) {
	document := inFull(t, openVEX("x", "a", day, 1,
		about("CVE-1", "affected", id("pkg:npm/a@1"), `, "status_notes": "Decision: AcceptedRisk."`),
		about("CVE-1", "affected", id("pkg:npm/a@1"), `, "status_notes": "Decision: AcceptedRisk until 2030-01-01T00:00:00Z."`),
		about("CVE-1", "affected", id("pkg:npm/a@1"), `, "status_notes": "Decision: AcceptedRisk. Again."`),
		about("CVE-1", "fixed", id("pkg:npm/a@1"))))
	for full, want := range map[bool]string{
		true: "AcceptedRisk 0001 true, AcceptedRisk 2030 true, statement false", false: "statement false",
	} {
		document.ExportedDecisions = full
		rules, _, err := newSet(t, document).Rules()
		if err != nil {
			t.Fatal(err)
		}
		evaluator := &vex.Evaluator{Versions: semantic{}}
		var got []string
		keys := map[string]bool{}
		for _, r := range rules {
			keys[r.Key] = true
			var parsed decision.Rule
			if parsed, err = evaluator.Parse(r.Text); err != nil {
				t.Fatal(err)
			}
			text := "statement"
			if r.Decision != nil {
				text = fmt.Sprintf("%s %04d", r.Decision.Status, r.Decision.ExpiresAt.Year())
			}
			got = append(got, fmt.Sprintf("%s %t", text, evaluator.Independent(parsed)))
		}
		if strings.Join(got, ", ") != want || len(keys) != len(rules) {
			t.Errorf("in full %t: %q, want %q", full, got, want)
		}
	}
}
