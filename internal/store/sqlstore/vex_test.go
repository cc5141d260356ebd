package sqlstore

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/scanner-operator/scanner-operator/internal/decision"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest"
)

// ranked are rules such as "2 package-1": the greatest of those about a package decides. "*" is every package.
type ranked struct{}

func (ranked) Parse(text string) (decision.Rule, error) {
	if !strings.Contains(text, " ") {
		return nil, errors.New("no rule")
	}
	return text, nil
}

func (ranked) Decide(p *model.Package, rules []decision.Rule) int {
	best := -1
	for i, rule := range rules {
		text, _ := rule.(string)
		if _, name, _ := strings.Cut(text, " "); name != p.Name && name != "*" {
			continue
		}
		if best < 0 || text > fmt.Sprint(rules[best]) {
			best = i
		}
	}
	return best
}

// statement is a decision of a document.
func statement(source, name, vulnerability, rule string, status model.DecisionStatus) store.Decision {
	return store.Decision{
		Object: store.DecisionObject{Kind: store.VEXKindSource, Name: source, Statement: name}, Vulnerabilities: []string{vulnerability}, Status: status, Rule: rule, Author: "Vendor",
	}
}

func documentsOf(texts ...string) []store.VEXContent {
	var all []store.VEXContent
	for i, text := range texts {
		all = append(all, store.VEXContent{Name: fmt.Sprint("d", i), Content: []byte(text)})
	}
	return all
}

// decisionRows says which decisions each finding has.
const decisionRows = `SELECT p.name, v.vulnerability_id, d.name, r.statement FROM decision_findings m JOIN decisions d ON d.id = m.decision_pk
	JOIN decision_rules r ON r.decision_pk = d.id JOIN findings f ON f.id = m.finding_id JOIN packages p ON p.id = f.package_pk
	JOIN vulnerabilities v ON v.id = f.vulnerability_pk WHERE f.until_gen > (SELECT MAX(g.number) FROM generations g WHERE g.state = 'Current') ORDER BY 1, 2, 3, 4`

func TestVEXDocuments(t *testing.T) {
	eachDatabase(t, func(t *testing.T, config Config) {
		clk := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
		config.Clock = clk
		s := openWith(t, config)
		list := func() ([]store.VEXSource, string) {
			t.Helper()
			sources, revision, err := s.VEX(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return sources, revision
		}
		save := func(source store.VEXSource, documents []store.VEXContent) error {
			return s.SaveVEX(t.Context(), source, documents)
		}
		sources, first := list()
		if len(sources) > 0 || first == "" {
			t.Errorf("at the beginning: %v, %q", sources, first)
		}
		large := strings.Repeat("0123456789abcdef", 1<<20)
		for _, err := range []error{
			save(store.VEXSource{Kind: store.VEXKindSource, Name: "b", Version: `"etag"`}, documentsOf("{}", large)),
			save(store.VEXSource{Kind: store.VEXKindUpload, Name: "a", Author: "jane"}, documentsOf("[]")),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		sources, second := list()
		if second == first || len(sources) != 2 || sources[0].Name != "b" || sources[0].Documents != 2 || sources[0].Bytes != int64(len(large)+2) || sources[0].Version != `"etag"` ||
			len(sources[0].SHA256) != 64 || sources[1].Author != "jane" || !sources[1].SavedAt.Equal(clk.Now()) {
			t.Errorf("%+v, %q", sources, second)
		}
		contents, err := s.VEXContent(t.Context(), store.VEXKindSource, "b")
		if err != nil || len(contents) != 2 || contents[1].Name != "d1" || !bytes.Equal(contents[1].Content, []byte(large)) {
			t.Errorf("%d documents, %v", len(contents), err)
		}
		for name, err := range map[string]error{
			"an unknown kind":  save(store.VEXSource{Kind: "x", Name: "a"}, documentsOf("{}")),
			"no document":      save(store.VEXSource{Kind: store.VEXKindSource, Name: "a"}, nil),
			"no name":          save(store.VEXSource{Kind: store.VEXKindSource}, documentsOf("{}")),
			"a large document": save(store.VEXSource{Kind: store.VEXKindSource, Name: "c"}, documentsOf(large+"x")),
			"many documents":   save(store.VEXSource{Kind: store.VEXKindSource, Name: "c"}, documentsOf(slices.Repeat([]string{"{}"}, store.MaxVEXDocuments-2)...)),
			"large documents":  save(store.VEXSource{Kind: store.VEXKindSource, Name: "c"}, documentsOf(large, large)),
		} {
			if err == nil {
				t.Errorf("%s is accepted", name)
			}
		}
		clk.Step(time.Hour)
		if err := save(store.VEXSource{Kind: store.VEXKindSource, Name: "b", Version: `"other"`}, documentsOf("{}", large)); err != nil {
			t.Fatal(err)
		}
		sources, third := list()
		if third != second || sources[0].Version != `"other"` {
			t.Errorf("what was refused, or saved again, has changed the documents: %+v", sources)
		}
		if found, err := s.DeleteVEX(t.Context(), store.VEXKindSource, "b"); err != nil || !found {
			t.Error(found, err)
		}
		if found, err := s.DeleteVEX(t.Context(), store.VEXKindSource, "b"); err != nil || found {
			t.Error("deleted twice", found, err)
		}
		if _, err := s.VEXContent(t.Context(), store.VEXKindSource, "b"); !errors.Is(err, store.ErrNotFound) {
			t.Error(err)
		}
		if left := texts(t, s, "SELECT COUNT(*) FROM vex_document_parts"); left[0] != "1" {
			t.Errorf("parts of documents: %v", left)
		}
	})
}

// TestSyncVEX: of the statements about a finding one decides, whichever begins, changes or ends, and whether the finding is there before or comes later.
func TestSyncVEX(t *testing.T) {
	eachDatabase(t, func(t *testing.T, config Config) {
		config.Rules = ranked{}
		s := openWith(t, config)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		sync := func(decisions ...store.Decision) {
			t.Helper()
			_, revision, err := s.VEX(t.Context())
			must(err)
			must(s.SyncVEX(t.Context(), revision, decisions))
		}
		expect := func(what string, want ...string) {
			t.Helper()
			if diff := cmp.Diff(want, texts(t, s, decisionRows)); diff != "" {
				t.Errorf("%s: %s", what, diff)
			}
			checkHeld(t, s)
		}
		_, err := s.StartResultSet(t.Context(), model.DatabaseBuild{ID: "1"}, "", true)
		must(err)
		one := statement("vendor", "one", "cve-0", "1 *", model.DecisionNotAffected)
		two := statement("vendor", "two", "CVE-0", "2 package-1", model.DecisionAffected)
		sync(one, two)
		expect("before there are findings")
		key := model.ImageKey{ImageID: "image", Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
		_, err = s.WantImages(t.Context(), []model.ImageKey{key})
		must(err)
		must(s.SaveSBOM(t.Context(), key, store.SBOM{SHA256: "d", Size: 1}, decidedCatalog(2)))
		must(storetest.Match(t.Context(), s, key, "d", decidedFindings(2)))
		first := []string{"package-0|CVE-0|vendor|one", "package-1|CVE-0|vendor|two", "package-2|CVE-0|vendor|one"}
		expect("findings that come later", first...)
		if got := texts(t, s, "SELECT COUNT(*) FROM finding_suppressions"); got[0] != "2" {
			t.Errorf("%v findings are suppressed", got)
		}
		sync(one)
		expect("without the statement that decided", "package-0|CVE-0|vendor|one", "package-1|CVE-0|vendor|one", "package-2|CVE-0|vendor|one")
		sync(one, two)
		expect("with it again", first...)
		last := texts(t, s, "SELECT MAX(seq) FROM events")
		sync(two, one)
		if now := texts(t, s, "SELECT MAX(seq) FROM events"); now[0] != last[0] {
			t.Error("the same statements in another order are a change")
		}
		rows := texts(t, s, "SELECT COUNT(*) FROM decisions")
		revised := one
		revised.Rule = "3 *"
		sync(revised, two)
		expect("with another rule", "package-0|CVE-0|vendor|one", "package-1|CVE-0|vendor|one", "package-2|CVE-0|vendor|one")
		if now := texts(t, s, "SELECT COUNT(*) FROM decisions"); now[0] != rows[0] {
			t.Error("another rule is a new decision")
		}
		exception := store.Decision{Object: store.DecisionObject{Kind: "x", Name: "x"}, Vulnerabilities: []string{"CVE-0"}, Status: model.DecisionAcceptedRisk}
		_, err = s.SyncDecisions(t.Context(), store.DecisionSourceKubernetes, []store.Decision{exception})
		must(err)
		fixed := statement("other", "x", "CVE-1", "1 package-2", model.DecisionFixed)
		sync(fixed)
		expect("other statements", "package-2|CVE-1|other|x")
		if got := texts(t, s, "SELECT COUNT(*) FROM finding_suppressions"); got[0] != "4" {
			t.Errorf("%v findings are suppressed, want those of the exception, too", got)
		}
		must(switchTo(t.Context(), s, decidedFindings(3)))
		expect("after a switch", "package-2|CVE-1|other|x")
		counts, err := s.DecisionCounts(t.Context(), store.AllNamespaces(), store.DecisionSourceVEX)
		must(err)
		if got := counts[fixed.Object]; len(counts) != 1 || got.Matched != 1 || got.Suppressed != 1 {
			t.Errorf("%+v", counts)
		}
		sync()
		expect("without any")
		if left := texts(t, s, "SELECT COUNT(*) FROM decision_rules"); left[0] != "0" {
			t.Errorf("%v rules are left", left)
		}
	})
}

func TestSyncVEXRefuses(t *testing.T) {
	s := openWith(t, Config{DSN: migrated(t), Rules: ranked{}})
	_, revision, err := s.VEX(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	good := statement("vendor", "one", "CVE-0", "1 *", model.DecisionNotAffected)
	if err := s.SyncVEX(t.Context(), "another", []store.Decision{good}); !errors.Is(err, store.ErrVEXChanged) {
		t.Errorf("of other documents: %v", err)
	}
	if err := s.SyncVEX(t.Context(), revision, slices.Repeat([]store.Decision{good}, store.MaxVEXDecisions+1)); !errors.Is(err, store.ErrVEXTooMany) {
		t.Errorf("too many: %v", err)
	}
	for name, change := range map[string]func(*store.Decision){
		"without a rule":          func(d *store.Decision) { d.Rule = "" },
		"without a vulnerability": func(d *store.Decision) { d.Vulnerabilities = nil },
		"with patterns":           func(d *store.Decision) { d.Packages = []string{"pkg:deb/*"} },
		"with an end":             func(d *store.Decision) { d.ExpiresAt = time.Now().Add(time.Hour) },
		"without a name":          func(d *store.Decision) { d.Object.Statement = "" },
	} {
		bad := good
		change(&bad)
		if err := s.SyncVEX(t.Context(), revision, []store.Decision{bad}); err == nil {
			t.Errorf("a decision %s is accepted", name)
		}
	}
	if left := texts(t, s, "SELECT COUNT(*) FROM decisions"); left[0] != "0" {
		t.Errorf("%v decisions", left)
	}
	without := openWith(t, Config{DSN: migrated(t)})
	if err := without.SyncVEX(t.Context(), revision, []store.Decision{good}); err == nil {
		t.Error("a store without rules takes decisions with one")
	}
}
