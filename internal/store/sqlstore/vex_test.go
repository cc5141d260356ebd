package sqlstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
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

func (ranked) Work(decision.Rule) int { return 0 }

// Independent is true of rules such as "+1 package-1".
func (ranked) Independent(rule decision.Rule) bool { return strings.HasPrefix(fmt.Sprint(rule), "+") }

// costly are such rules whose number is also what each use of them costs.
type costly struct {
	ranked
	work map[string]int
}

func (c costly) Decide(p *model.Package, rules []decision.Rule) int {
	for _, rule := range rules {
		text := fmt.Sprint(rule)
		cost, _, _ := strings.Cut(text, " ")
		n, _ := strconv.Atoi(cost)
		c.work[text] += n
	}
	return c.ranked.Decide(p, rules)
}

func (c costly) Work(rule decision.Rule) int { return c.work[fmt.Sprint(rule)] }

// ruledDecision is a decision with a rule, for some images or all.
type ruledDecision struct {
	n          int
	rule       decision.Rule
	images     []string
	suppresses bool
}

// decidingOf are the decisions that decide about a finding in a package: see ruleReader.decideFinding.
func decidingOf(rules decision.Rules, p *model.Package, decisions []ruledDecision) (deciding []int) {
	var all []ruledDecision
	for _, d := range decisions {
		switch {
		case !rules.Independent(d.rule):
			all = append(all, d)
		case rules.Decide(p, []decision.Rule{d.rule}) == 0:
			deciding = append(deciding, d.n)
		}
	}
	if len(all) == 0 {
		return deciding
	}
	in := func(digest string) *ruledDecision {
		var list []decision.Rule
		var of []int
		for i, d := range all {
			if d.images == nil || slices.Contains(d.images, digest) {
				list, of = append(list, d.rule), append(of, i)
			}
		}
		if n := rules.Decide(p, list); n >= 0 {
			return &all[of[n]]
		}
		return nil
	}
	counts := func(digest string) bool { d := in(digest); return d == nil || !d.suppresses }
	general := in("")
	for _, d := range all {
		if general != nil && general.suppresses && slices.ContainsFunc(d.images, counts) {
			general = nil
		}
	}
	if general != nil {
		deciding = append(deciding, general.n)
	}
	for i := range all {
		d := &all[i]
		if !slices.ContainsFunc(d.images, func(digest string) bool { return in(digest) == d }) {
			continue
		}
		if !d.suppresses || (general == nil || !general.suppresses) && !slices.ContainsFunc(d.images, counts) {
			deciding = append(deciding, d.n)
		}
	}
	return deciding
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
			"many uploads":     save(store.VEXSource{Kind: store.VEXKindUpload, Name: "c"}, documentsOf(slices.Repeat([]string{"{}"}, store.MaxVEXUploads)...)),
			"large uploads":    save(store.VEXSource{Kind: store.VEXKindUpload, Name: "c"}, documentsOf(large, large[:store.MaxVEXUploadBytes-len(large)])),
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
		if found, err := s.DeleteVEX(t.Context(), store.VEXKindSource, "b", ""); err != nil || !found {
			t.Error(found, err)
		}
		if found, err := s.DeleteVEX(t.Context(), store.VEXKindSource, "b", ""); err != nil || found {
			t.Error("deleted twice", found, err)
		}
		if _, err := s.VEXContent(t.Context(), store.VEXKindSource, "b"); !errors.Is(err, store.ErrNotFound) {
			t.Error(err)
		}
		if left := texts(t, s, "SELECT COUNT(*) FROM vex_document_parts"); left[0] != "1" {
			t.Errorf("parts of documents: %v", left)
		}
		// A request for a change is recorded with the change.
		changes := map[string]func(context.Context) error{
			"save": func(ctx context.Context) error {
				return s.SaveVEX(ctx, store.VEXSource{Kind: store.VEXKindUpload, Name: "requested"}, documentsOf("{}"))
			},
			"delete": func(ctx context.Context) error { _, err := s.DeleteVEX(ctx, store.VEXKindUpload, "a", ""); return err },
		}
		for name, change := range changes {
			request := store.ChangeRequest{Verb: name, Object: store.ChangeObject{Resource: "vexdocuments", Name: "a"}}
			if err := change(store.WithChangeRequest(t.Context(), &request)); err != nil || !request.Recorded {
				t.Errorf("%s: recorded %v, %v", name, request.Recorded, err)
			}
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
		"with an end, and others": func(d *store.Decision) { d.ExpiresAt = time.Now().Add(time.Hour) },
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

// TestSyncVEXImages: statements about images suppress findings there, and where statements contradict each other about an image, the finding counts.
func TestSyncVEXImages(t *testing.T) {
	eachDatabase(t, func(t *testing.T, config Config) {
		config.Rules = ranked{}
		s := openWith(t, config)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		_, err := s.StartResultSet(t.Context(), model.DatabaseBuild{ID: "1"}, "", true)
		must(err)
		var keys []model.ImageKey
		for _, digit := range []string{"a", "b"} {
			key := model.ImageKey{ImageID: "r.example/" + digit + "@sha256:" + strings.Repeat(digit, 64), Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
			_, err = s.WantImages(t.Context(), []model.ImageKey{key})
			must(err)
			must(s.SaveSBOM(t.Context(), key, store.SBOM{SHA256: "d" + digit, Size: 1}, decidedCatalog(2)))
			must(storetest.Match(t.Context(), s, key, "d"+digit, decidedFindings(1)))
			keys = append(keys, key)
		}
		_, revision, err := s.VEX(t.Context())
		must(err)
		everywhere := func(source, rule string, status model.DecisionStatus) store.Decision {
			return statement(source, "x", "CVE-0", rule, status)
		}
		inA := func(source, rule string, status model.DecisionStatus) store.Decision {
			d := everywhere(source, rule, status)
			d.Images = []string{keys[0].Digest()}
			return d
		}
		const fixed, affected = model.DecisionFixed, model.DecisionAffected
		for name, c := range map[string]struct {
			decisions []store.Decision
			want      []string
			a, b      int
		}{
			"in an image":               {[]store.Decision{inA("one", "1 *", fixed)}, []string{"package-0|CVE-0|one|x", "package-1|CVE-0|one|x", "package-2|CVE-0|one|x"}, 3, 0},
			"everywhere and there":      {[]store.Decision{inA("one", "1 *", fixed), everywhere("two", "2 package-1", fixed)}, []string{"package-0|CVE-0|one|x", "package-1|CVE-0|two|x", "package-2|CVE-0|one|x"}, 3, 1},
			"affected elsewhere":        {[]store.Decision{inA("one", "2 *", fixed), everywhere("two", "1 package-1", affected)}, []string{"package-0|CVE-0|one|x", "package-1|CVE-0|one|x", "package-1|CVE-0|two|x", "package-2|CVE-0|one|x"}, 3, 0},
			"overridden":                {[]store.Decision{inA("one", "1 *", fixed), everywhere("two", "2 package-1", affected)}, []string{"package-0|CVE-0|one|x", "package-1|CVE-0|two|x", "package-2|CVE-0|one|x"}, 2, 0},
			"affected there":            {[]store.Decision{inA("one", "2 package-1", affected), everywhere("two", "1 *", fixed)}, []string{"package-0|CVE-0|two|x", "package-1|CVE-0|one|x", "package-2|CVE-0|two|x"}, 2, 2},
			"affected there, too early": {[]store.Decision{inA("one", "1 package-1", affected), everywhere("two", "2 *", fixed)}, []string{"package-0|CVE-0|two|x", "package-1|CVE-0|two|x", "package-2|CVE-0|two|x"}, 3, 3},
		} {
			must(s.SyncVEX(t.Context(), revision, c.decisions))
			if diff := cmp.Diff(c.want, texts(t, s, decisionRows)); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
			for n, want := range []int{c.a, c.b} {
				list, err := s.Findings(t.Context(), store.AllNamespaces(), store.FindingQuery{Image: keys[n], Page: store.Page{Size: 10}})
				must(err)
				if found := len(list.Findings); found != 3-want {
					t.Errorf("%s: %d findings count in %s, want %d", name, found, keys[n].ImageID, 3-want)
				}
			}
			checkHeld(t, s)
		}
		must(s.SyncVEX(t.Context(), revision, nil))
		if left := texts(t, s, "SELECT (SELECT COUNT(*) FROM reaches) + (SELECT COUNT(*) FROM reached) + (SELECT COUNT(*) FROM finding_suppressions)"); left[0] != "0" {
			t.Errorf("%v rows are left", left)
		}
	})
}

// TestSyncVEXWork: rules that take too much work are refused with the name of their source, nothing changes, and new findings are stored all the same.
func TestSyncVEXWork(t *testing.T) {
	s := openWith(t, Config{DSN: migrated(t), Rules: costly{work: map[string]int{}}})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.StartResultSet(t.Context(), model.DatabaseBuild{ID: "1"}, "", true)
	must(err)
	key := model.ImageKey{ImageID: "image", Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
	_, err = s.WantImages(t.Context(), []model.ImageKey{key})
	must(err)
	_, revision, err := s.VEX(t.Context())
	must(err)
	cheap := statement("cheap", "one", "CVE-0", "1 *", model.DecisionNotAffected)
	dear := statement("dear", "one", "CVE-0", fmt.Sprint(maxRuleWork, " *"), model.DecisionNotAffected)
	// Nothing is found yet, so that nothing is compared.
	must(s.SyncVEX(t.Context(), revision, []store.Decision{cheap, dear}))
	must(s.SaveSBOM(t.Context(), key, store.SBOM{SHA256: "d", Size: 1}, decidedCatalog(2)))
	must(storetest.Match(t.Context(), s, key, "d", decidedFindings(2)))
	before := texts(t, s, decisionRows)
	if len(before) != 3 || !strings.HasSuffix(before[0], "|dear|one") {
		t.Fatalf("the findings have %v", before)
	}

	dear.Rule = fmt.Sprint(maxRuleWork+1, " *")
	err = s.SyncVEX(t.Context(), revision, []store.Decision{cheap, dear})
	var refused *store.VEXWorkError
	if !errors.As(err, &refused) || !errors.Is(err, store.ErrVEXTooMany) || refused.Kind != store.VEXKindSource || refused.Name != "dear" {
		t.Fatalf("rules with much work: %v", err)
	}
	if diff := cmp.Diff(before, texts(t, s, decisionRows)); diff != "" {
		t.Errorf("what was refused has an effect: %s", diff)
	}
	must(s.SyncVEX(t.Context(), revision, []store.Decision{cheap}))
	for _, row := range texts(t, s, decisionRows) {
		if !strings.HasSuffix(row, "|cheap|one") {
			t.Errorf("without the source: %s", row)
		}
	}
}

// TestSyncVEXMatches: more matches than the bound are refused, and fewer are not, although there are still too many.
func TestSyncVEXMatches(t *testing.T) {
	s := openWith(t, Config{DSN: migrated(t), Rules: ranked{}})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.StartResultSet(t.Context(), model.DatabaseBuild{ID: "1"}, "", true)
	must(err)
	key := model.ImageKey{ImageID: "image", Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
	_, err = s.WantImages(t.Context(), []model.ImageKey{key})
	must(err)
	must(s.SaveSBOM(t.Context(), key, store.SBOM{SHA256: "d", Size: 1}, decidedCatalog(2)))
	must(storetest.Match(t.Context(), s, key, "d", decidedFindings(4)))
	_, revision, err := s.VEX(t.Context())
	must(err)
	// Each matches three findings.
	var all []store.Decision
	for i := range 4 {
		all = append(all, statement("vendor", fmt.Sprint(i), fmt.Sprint("CVE-", i), "1 *", model.DecisionNotAffected))
	}
	must(s.SyncVEX(t.Context(), revision, all[:3]))
	// The findings of the last one came later, and were not refused.
	s.matchBounds.all = 5
	must(s.SyncVEX(t.Context(), revision, all[:2]))
	if err := s.SyncVEX(t.Context(), revision, all[:3]); !errors.Is(err, store.ErrVEXTooMany) || !strings.Contains(err.Error(), "would match 9 findings; the maximum is 5") {
		t.Errorf("more matches: %v", err)
	}
	if got := texts(t, s, decisionRows); len(got) != 6 {
		t.Errorf("the findings have %v, want what applied before", got)
	}
	must(s.SyncVEX(t.Context(), revision, []store.Decision{all[3]}))
	if got := texts(t, s, decisionRows); len(got) != 3 || !strings.Contains(got[0], "|CVE-3|") {
		t.Errorf("the findings have %v, want those of the only statement", got)
	}
}
