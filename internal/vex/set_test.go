package vex_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/vex"
)

// says is a document of an author with statements about one package.
type says struct {
	id, author, at string
	trust          string
	version        int
	statuses       []string
	product        string
}

func (s says) document(t *testing.T) *vex.Document {
	t.Helper()
	var statements []string
	for _, status := range s.statuses {
		status, at, _ := strings.Cut(status, "@")
		more := ""
		if at != "" {
			more = fmt.Sprintf(`, "timestamp": %q`, at)
		}
		product := "pkg:npm/a"
		if s.product != "" {
			product = s.product
		}
		statements = append(statements, about("CVE-1", status, id(product), more))
	}
	d := read(t, openVEX(s.id, s.author, s.at, max(s.version, 1), statements...))
	d.Trust = s.trust
	return d
}

func TestPrecedence(t *testing.T) {
	const early, late = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"
	for name, c := range map[string]struct {
		documents []says
		want      string
	}{
		"the newest of one author decides": {[]says{
			{id: "1", author: "a", at: early, statuses: []string{"under_investigation"}}, {id: "2", author: "a", at: late, statuses: []string{"fixed"}},
		}, "fixed"},
		"also if it opens": {[]says{
			{id: "1", author: "a", at: early, statuses: []string{"not_affected"}}, {id: "2", author: "a", at: late, statuses: []string{"affected"}},
		}, "open"},
		"within a document": {[]says{
			{id: "1", author: "a", at: late, statuses: []string{"affected@" + early, "fixed"}},
		}, "fixed"},
		"at the same time the more exact product decides": {[]says{
			{id: "1", author: "a", at: early, statuses: []string{"affected"}}, {id: "2", author: "a", at: early, statuses: []string{"fixed"}, product: "pkg:npm/a@1.0.0"},
		}, "fixed"},
		"and then caution": {[]says{
			{id: "1", author: "a", at: early, statuses: []string{"not_affected", "under_investigation", "fixed"}},
		}, "open"},
		"not_affected is more cautious than fixed": {[]says{
			{id: "1", author: "a", at: early, statuses: []string{"fixed", "not_affected"}},
		}, "not_affected"},
		"of two authors the more cautious one decides": {[]says{
			{id: "1", author: "a", at: early, statuses: []string{"affected"}}, {id: "2", author: "b", at: late, statuses: []string{"fixed"}},
		}, "open"},
		"with what each says now": {[]says{
			{id: "1", author: "a", at: early, statuses: []string{"affected"}}, {id: "2", author: "b", at: late, statuses: []string{"fixed"}},
			{id: "3", author: "a", at: late, statuses: []string{"not_affected"}},
		}, "not_affected"},
		"a new revision replaces a document": {[]says{
			{id: "1", author: "a", at: late, statuses: []string{"fixed"}}, {id: "1", author: "a", at: early, version: 2, statuses: []string{"affected"}},
		}, "open"},
		"revisions are numbers": {[]says{
			{id: "1", author: "a", at: late, version: 9, statuses: []string{"fixed"}}, {id: "1", author: "a", at: early, version: 10, statuses: []string{"affected"}},
		}, "open"},
		"not that of another author": {[]says{
			{id: "1", author: "a", at: early, statuses: []string{"affected"}}, {id: "1", author: "b", at: late, version: 2, statuses: []string{"fixed"}},
		}, "open"},
		"a name is no author": {[]says{
			{id: "1", author: "a", trust: "signed", at: early, statuses: []string{"affected"}}, {id: "2", author: "a", at: late, statuses: []string{"fixed"}},
		}, "open"},
		"and replaces no document": {[]says{
			{id: "1", author: "a", trust: "signed", at: early, statuses: []string{"affected"}}, {id: "1", author: "a", at: late, version: 2, statuses: []string{"fixed"}},
		}, "open"},
		"of equal trust, it is one": {[]says{
			{id: "1", author: "a", trust: "signed", at: early, statuses: []string{"affected"}}, {id: "2", author: "a", trust: "signed", at: late, statuses: []string{"fixed"}},
		}, "fixed"},
		"a revision without the statement withdraws it": {[]says{
			{id: "1", author: "a", at: early, statuses: []string{"fixed"}}, {id: "1", author: "a", at: late, version: 2, statuses: []string{"fixed"}, product: "pkg:npm/other"},
		}, "unmatched"},
	} {
		t.Run(name, func(t *testing.T) {
			var documents []*vex.Document
			for _, s := range c.documents {
				documents = append([]*vex.Document{s.document(t)}, documents...)
			}
			for range 2 {
				if got := statusOf(t, newSet(t, documents...), shop, finding("CVE-1", "pkg:npm/a@1.0.0")); got != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
				documents = append(documents[1:], documents[0])
			}
		})
	}
}

// TestOrderDoesNotMatter applies random documents in random orders: of the documents, and of the statements within each.
func TestOrderDoesNotMatter(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	closed, total := 0, 0
	for round := range 400 {
		var documents []*vex.Document
		for range 1 + random.IntN(5) {
			var statements []string
			for range 1 + random.IntN(6) {
				statement := about(pick("CVE-1", "CVE-2", "GHSA-1"), pick("affected", "not_affected", "fixed", "under_investigation"),
					id(pick("pkg:npm/a", "pkg:npm/a@1.0.0", "pkg:npm/b", "pkg:oci/shop", "pkg:oci/shop@"+digest, "pkg:npm/a@2.0.0")),
					pick("", `, "timestamp": "2026-01-02T00:00:00Z"`, `, "timestamp": "2026-01-03T00:00:00Z"`), pick("", `, "status_notes": "x"`, `, "status_notes": "y"`))
				statements = append(statements, statement)
			}
			text := openVEX(pick("1", "2"), pick("a", "b"), pick("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"), 1+random.IntN(5)/4, statements...)
			documents = append(documents, read(t, text))
		}
		findings := []model.Finding{
			finding("CVE-1", "pkg:npm/a@1.0.0"), finding("CVE-2", "pkg:npm/a@1.0.0"), finding("GHSA-1", "pkg:npm/b@1.0.0", "CVE-1"), finding("CVE-1", "pkg:npm/a@2.0.0"),
		}
		want := apply(t, newSet(t, documents...), shop, findings)
		closed, total = closed+len(want.Suppressed), total+len(findings)
		for range 5 {
			random.Shuffle(len(documents), func(i, j int) { documents[i], documents[j] = documents[j], documents[i] })
			for _, d := range documents {
				// The position of a statement stays its own.
				random.Shuffle(len(d.Statements), func(i, j int) { d.Statements[i], d.Statements[j] = d.Statements[j], d.Statements[i] })
			}
			got := apply(t, newSet(t, documents...), shop, findings)
			if diff := cmp.Diff(want.Open, got.Open); diff != "" {
				t.Fatalf("round %d: other findings are open (-first +shuffled):\n%s", round, diff)
			}
			if diff := cmp.Diff(want.Suppressed, got.Suppressed); diff != "" {
				t.Fatalf("round %d: other statements suppress findings (-first +shuffled):\n%s", round, diff)
			}
			if len(want.Unmatched) != len(got.Unmatched) {
				t.Fatalf("round %d: %d statements are unmatched, and %d in another order", round, len(want.Unmatched), len(got.Unmatched))
			}
		}
	}
	if closed < total/10 || closed > total*9/10 {
		t.Errorf("%d of %d findings are suppressed; the documents show too little", closed, total)
	}
}

// Copies of a document that differ in a text only are ordered by it.
func TestTies(t *testing.T) {
	copies := make([]*vex.Document, 2)
	for i, notes := range []string{"x", "y"} {
		copies[i] = read(t, openVEX("1", "a", day, 1, about("CVE-1", "fixed", id("pkg:npm/a"), `, "status_notes": "`+notes+`"`)))
	}
	findings := []model.Finding{finding("CVE-1", "pkg:npm/a@1.0.0")}
	want := apply(t, newSet(t, copies[0], copies[1]), shop, findings).Suppressed[0].Suppression
	if got := apply(t, newSet(t, copies[1], copies[0]), shop, findings).Suppressed[0].Suppression; got != want {
		t.Errorf("got %+v, and %+v in another order", want, got)
	}
}

// TestApplyKeepsFindings shows that every finding is either open or suppressed, and that those that are open are as they were.
func TestApplyKeepsFindings(t *testing.T) {
	findings := []model.Finding{finding("CVE-1", "pkg:npm/a@1.0.0"), finding("CVE-2", "pkg:npm/a@1.0.0"), finding("CVE-3", "")}
	set := newSet(t, read(t, openVEX("x", "a", day, 1, about("CVE-1", "fixed", id("pkg:npm/a")), about("CVE-9", "affected", id("pkg:npm/a")))))
	got := apply(t, set, shop, findings)
	if diff := cmp.Diff(findings[1:], got.Open); diff != "" {
		t.Errorf("open (-want +got):\n%s", diff)
	}
	want := []model.SuppressedFinding{{Finding: findings[0], Suppression: model.Suppression{
		Status: "fixed", Author: "a", Source: "test.json", Document: "x", Position: "statements[0]", Timestamp: got.Suppressed[0].Suppression.Timestamp,
	}}}
	if diff := cmp.Diff(want, got.Suppressed); diff != "" {
		t.Errorf("suppressed (-want +got):\n%s", diff)
	}
	if len(got.Unmatched) != 1 || got.Unmatched[0].Statement.Position != "statements[1]" || got.Unmatched[0].Source != "test.json" {
		t.Errorf("unmatched: %+v", got.Unmatched)
	}
}

func TestSetLimits(t *testing.T) {
	d := read(t, openVEX("x", "a", day, 1, about("CVE-1", "fixed", id("pkg:npm/a"))))
	documents := make([]*vex.Document, vex.MaxDocuments+1)
	for i := range documents {
		documents[i] = d
	}
	if _, err := vex.NewSet(documents); err == nil || !strings.Contains(err.Error(), "limit of 100") {
		t.Errorf("too many documents: %v", err)
	}
	many := &vex.Document{Statements: make([]vex.Statement, 100_001)}
	if _, err := vex.NewSet([]*vex.Document{many}); err == nil || !strings.Contains(err.Error(), "100001 statements") {
		t.Errorf("too many statements: %v", err)
	}
	wide := &vex.Document{Statements: []vex.Statement{{Products: make([]vex.Product, 1_000_001)}}}
	if _, err := vex.NewSet([]*vex.Document{wide}); err == nil || !strings.Contains(err.Error(), "1000001 products") {
		t.Errorf("too many products: %v", err)
	}
}
