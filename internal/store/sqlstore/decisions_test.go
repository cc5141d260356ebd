package sqlstore

import (
	gocmp "cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/scanner-operator/scanner-operator/internal/decision"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest"
)

// checkDecisions expects that findings are matched with the decisions that apply, each with each, and suppressed by those that suppress. Every test of
// the store's suite ends with it.
func checkDecisions(t *testing.T, s *Store) {
	t.Helper()
	type pair struct{ FindingID, DecisionPk int64 }
	var findings []struct {
		Finding         matchedFinding `gorm:"embedded"`
		VulnerabilityPk int64
	}
	var names []struct {
		Name, VulnerabilityID string
		VulnerabilityPk       int64
	}
	var decisions []struct {
		ID, Suppresses, Unfixed, Reach int64
		Spec, Rule                     string
	}
	var got, want []pair
	var suppressions, wantSuppressed []suppressed
	var images []imageRow
	var reaches []storedReach
	var reached, wantReached []imageReach
	var closed []int64
	placed, err := readPlaced(s)
	if err != nil {
		t.Error(err)
		return
	}
	for _, query := range []struct {
		statement string
		into      any
	}{
		{"SELECT " + matchedColumns + `, f.vulnerability_pk FROM findings f JOIN packages p ON p.id = f.package_pk
			WHERE f.until_gen > (SELECT COALESCE(MAX(g.number), 0) FROM generations g WHERE g.state = 'Current') ORDER BY f.id`, &findings},
		{"SELECT n.name, n.vulnerability_pk, v.vulnerability_id FROM vulnerability_names n JOIN vulnerabilities v ON v.id = n.vulnerability_pk", &names},
		{`SELECT d.id, d.suppresses, d.unfixed, d.reach, d.spec, COALESCE(r.rule, '') AS rule FROM decisions d LEFT JOIN decision_rules r ON r.decision_pk = d.id
			WHERE d.until_time = 9223372036854775807 ORDER BY d.id`, &decisions},
		{"SELECT finding_id, decision_pk FROM decision_findings ORDER BY finding_id, decision_pk", &got},
		{"SELECT finding_id, reach FROM finding_suppressions ORDER BY finding_id, reach", &suppressions},
		{"SELECT id, image_id FROM images ORDER BY id", &images},
		{"SELECT id, digest, spec FROM reaches ORDER BY id", &reaches},
		{"SELECT reach, image_pk FROM reached ORDER BY reach, image_pk", &reached},
		{"SELECT DISTINCT reach FROM closed_suppressions", &closed},
	} {
		if err := s.db.Reader().Raw(query.statement).Scan(query.into).Error; err != nil {
			t.Error(err)
			return
		}
	}
	known := map[int64][]string{}
	cves := map[int64]int{}
	for _, name := range names {
		if strings.HasPrefix(name.Name, "CVE-") {
			cves[name.VulnerabilityPk]++
		}
	}
	for _, name := range names {
		if cves[name.VulnerabilityPk] <= 1 || name.Name == name.VulnerabilityID {
			known[name.VulnerabilityPk] = append(known[name.VulnerabilityPk], name.Name)
		}
	}
	matches := func(finding int64, n int) {
		d := &decisions[n]
		want = append(want, pair{finding, d.ID})
		if d.Suppresses != 0 && placed.members[d.Reach] != nil {
			placed.suppress(finding, d.Reach)
			return
		}
		if one := (suppressed{finding, d.Reach}); d.Suppresses != 0 && !slices.Contains(wantSuppressed, one) {
			wantSuppressed = append(wantSuppressed, one)
		}
	}
	for i := range findings {
		f, vulnerability := &findings[i].Finding, findings[i].VulnerabilityPk
		p := model.Package{Type: f.Type, Name: f.Name, Version: f.Version, Distro: f.Distro, PURL: f.Purl}
		id := decision.IdentityOf(&p)
		var ruled []ruledDecision
		for n := range decisions {
			d := &decisions[n]
			var spec decisionSpec
			if err := fromJSON(d.Spec, &spec); err != nil {
				t.Fatal(err)
			}
			m := decision.NewStoredMatcher(spec.Packages, d.Unfixed != 0)
			named := len(spec.Vulnerabilities) == 0 || slices.ContainsFunc(spec.Vulnerabilities, func(id string) bool {
				return slices.ContainsFunc(spellings(id), func(name string) bool { return slices.Contains(known[vulnerability], name) })
			})
			if named && d.Rule != "" {
				rule, err := s.rules.Parse(d.Rule)
				if err != nil {
					t.Fatal(err)
				}
				ruled = append(ruled, ruledDecision{n, rule, spec.Images, d.Suppresses != 0})
				continue
			}
			if named && m.Matches(&id, f.Fixable != 0) {
				matches(f.ID, n)
			}
		}
		for _, n := range decidingOf(s.rules, &p, ruled) {
			matches(f.ID, n)
		}
	}
	slices.SortFunc(want, func(a, b pair) int {
		return gocmp.Or(gocmp.Compare(a.FindingID, b.FindingID), gocmp.Compare(a.DecisionPk, b.DecisionPk))
	})
	wantSuppressed = append(wantSuppressed, placed.suppressed()...)
	slices.SortFunc(wantSuppressed, func(a, b suppressed) int {
		return gocmp.Or(gocmp.Compare(a.FindingID, b.FindingID), gocmp.Compare(a.Reach, b.Reach))
	})
	specs := map[int64]string{}
	for _, reach := range reaches {
		var spec reachSpec
		if err := fromJSON(reach.Spec, &spec); err != nil {
			t.Fatal(err)
		}
		if placed.members[reach.ID] != nil {
			if spec.Members == "" {
				specs[reach.ID] = spec.Places + " " + strings.Join(spec.Images, " ")
			}
			continue
		}
		specs[reach.ID] = strings.Join(spec.Images, " ")
		for i := range images {
			for _, text := range spec.Images {
				pattern, err := decision.ParseImagePattern(text)
				if err != nil {
					t.Fatal(err)
				}
				if image := decision.ImageOf(images[i].ImageID); pattern.Matches(&image) {
					wantReached = append(wantReached, imageReach{reach.ID, images[i].ID})
					break
				}
			}
		}
	}
	wantReached = append(wantReached, placed.check(t, s)...)
	slices.SortFunc(wantReached, imageReach.compare)
	if diff := cmp.Diff(wantReached, reached, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("reached (-want +got):\n%s", diff)
	}
	unused := maps.Clone(specs)
	for _, d := range decisions {
		var spec decisionSpec
		if err := fromJSON(d.Spec, &spec); err != nil {
			t.Fatal(err)
		}
		patterns := strings.Join(slices.Compact(spec.Images), " ")
		if spec.Places != "" {
			patterns = spec.Places + " " + patterns
		}
		if specs[d.Reach] != patterns {
			t.Errorf("decision %d about the images %q has the reach %q", d.ID, patterns, specs[d.Reach])
		}
		delete(unused, d.Reach)
	}
	for _, reach := range closed {
		if specs[reach] == "" {
			t.Errorf("a closed finding was suppressed in the reach %d, which does not exist", reach)
		}
		delete(unused, reach)
	}
	if len(unused) > 0 {
		t.Errorf("reaches of no decision: %v", unused)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decision_findings (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantSuppressed, suppressions); diff != "" {
		t.Errorf("finding_suppressions (-want +got):\n%s", diff)
	}
	left := texts(t, s, "SELECT n.name, d.ended_by FROM decision_names n JOIN decisions d ON d.id = n.decision_pk WHERE d.ended_by <> ''")
	if len(left) > 0 {
		t.Errorf("names of decisions that have ended: %v", left)
	}
}

// decisionCases are decisions that overlap.
func decisionCases(clk *clocktesting.FakeClock) []store.Decision {
	var all []store.Decision
	for i, one := range []store.Decision{
		{Vulnerabilities: []string{"CVE-0"}, Status: model.DecisionAcceptedRisk},
		{Vulnerabilities: []string{"CVE-0", "CVE-1"}, Status: model.DecisionNotAffected, ExpiresAt: clk.Now().Add(time.Hour)},
		{Packages: []string{"pkg:generic/package-1@*"}, Status: model.DecisionFalsePositive},
		{Packages: []string{"pkg:generic/package-*"}, Vulnerabilities: []string{"cve-2"}, Status: model.DecisionFixed},
		{Packages: []string{"pkg:generic/*"}, Status: model.DecisionUnderInvestigation},
		{Packages: []string{"pkg:generic/*"}, Status: model.DecisionAcceptedRisk, DryRun: true},
		{Vulnerabilities: []string{"CVE-3"}, Status: model.DecisionAcceptedRisk, Unfixed: true},
		{Vulnerabilities: []string{"CVE-1", "CVE-3"}, Images: []string{"registry.example/image-0", "registry.example/image-2"}, Status: model.DecisionAcceptedRisk},
		{Vulnerabilities: []string{"CVE-4"}, Images: []string{"registry.example/*"}, Status: model.DecisionFixed},
	} {
		one.Object = store.DecisionObject{Kind: "ClusterVulnerabilityException", Name: fmt.Sprint("d", i)}
		all = append(all, one)
	}
	return all
}

// TestOrderOfDecisions gives stores the same decisions in other orders, cut into other calls, before, between and after the matching.
func TestOrderOfDecisions(t *testing.T) {
	t.Parallel()
	want := orderedDecisions(t, 0, Config{DSN: migrated(t)})
	if len(want) < 20 {
		t.Errorf("only %d rows were compared", len(want))
	}
	expect := func(t *testing.T, seed uint64, config Config) {
		t.Helper()
		if diff := cmp.Diff(want, orderedDecisions(t, seed, config)); diff != "" {
			t.Fatalf("seed %d: %s", seed, diff)
		}
	}
	for seed := range uint64(7) {
		expect(t, seed+1, Config{DSN: migrated(t)})
	}
	eachServer(t, func(t *testing.T, config Config) { expect(t, 8, config) })
}

// orderedDecisions is what a store contains after decisions in an order that the seed determines.
func orderedDecisions(t *testing.T, seed uint64, config Config) []string {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	clk := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	config.Clock = clk
	s := openWith(t, config)
	decisions := decisionCases(clk)
	random.Shuffle(len(decisions), func(i, j int) { decisions[i], decisions[j] = decisions[j], decisions[i] })
	known := 0
	more := func(least int) {
		for known < least || known < len(decisions) && random.IntN(2) == 0 {
			known = min(len(decisions), max(least, known+1+random.IntN(3)))
			problems, err := s.SyncDecisions(t.Context(), "test", decisions[:known])
			if err != nil || len(problems) > 0 {
				t.Fatal(problems, err)
			}
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.StartResultSet(t.Context(), model.DatabaseBuild{ID: "1"}, "", true)
	must(err)
	more(0)
	for n := range 3 {
		key := model.ImageKey{ImageID: fmt.Sprintf("registry.example/image-%d@sha256:%064x", n, n), Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
		_, err := s.WantImages(t.Context(), []model.ImageKey{key})
		must(err)
		must(s.SaveSBOM(t.Context(), key, store.SBOM{SHA256: "d", Size: 1}, decidedCatalog(n)))
		must(storetest.Match(t.Context(), s, key, "d", decidedFindings(4)))
		more(0)
	}
	must(switchTo(t.Context(), s, decidedFindings(5)))
	more(len(decisions))
	got := append(texts(t, s, `SELECT p.name, v.vulnerability_id, d.name, f.fixable FROM decision_findings m JOIN decisions d ON d.id = m.decision_pk
		JOIN findings f ON f.id = m.finding_id JOIN packages p ON p.id = f.package_pk JOIN vulnerabilities v ON v.id = f.vulnerability_pk ORDER BY 1, 2, 3, 4`),
		texts(t, s, "SELECT image_id, critical, high, medium, low, negligible, unknown, kev, fixable FROM images ORDER BY 1")...)
	got = append(got, texts(t, s, `SELECT p.name, v.vulnerability_id, COALESCE(r.spec, '') FROM finding_suppressions s JOIN findings f ON f.id = s.finding_id
		JOIN packages p ON p.id = f.package_pk JOIN vulnerabilities v ON v.id = f.vulnerability_pk LEFT JOIN reaches r ON r.id = s.reach ORDER BY 1, 2, 3`)...)
	got = append(got, texts(t, s, "SELECT r.spec, i.image_id FROM reached x JOIN reaches r ON r.id = x.reach JOIN images i ON i.id = x.image_pk ORDER BY 1, 2")...)
	checkHeld(t, s)
	return got
}

// TestRemovedDecisions expects that decisions which come and go leave all counts as they were.
func TestRemovedDecisions(t *testing.T) {
	eachDatabase(t, func(t *testing.T, config Config) {
		clk := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
		config.Clock = clk
		s := openWith(t, config)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		_, err := s.StartResultSet(t.Context(), model.DatabaseBuild{ID: "1"}, "", true)
		must(err)
		for n := range 3 {
			key := model.ImageKey{ImageID: fmt.Sprintf("registry.example/image-%d@sha256:%064x", n, n), Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
			_, err := s.WantImages(t.Context(), []model.ImageKey{key})
			must(err)
			must(s.SaveSBOM(t.Context(), key, store.SBOM{SHA256: "d", Size: 1}, decidedCatalog(n)))
			must(storetest.Match(t.Context(), s, key, "d", decidedFindings(5)))
		}
		counts := func() []string {
			return slices.Concat(texts(t, s, "SELECT image_id, critical, high, medium, low, negligible, unknown, kev, fixable FROM images ORDER BY 1"),
				texts(t, s, "SELECT fingerprint, level, critical, high, medium, low, negligible, unknown, kev, fixable FROM held_packages ORDER BY 1"),
				texts(t, s, "SELECT v.vulnerability_id, n.level FROM found_vulnerabilities n JOIN vulnerabilities v ON v.id = n.vulnerability_pk ORDER BY 1"),
				texts(t, s, "SELECT reach FROM reached UNION SELECT id FROM reaches UNION SELECT reach FROM finding_suppressions UNION SELECT decision_pk FROM decision_findings"))
		}
		before := counts()
		random := rand.New(rand.NewPCG(1, 1))
		for range 10 {
			decisions := decisionCases(clk)
			random.Shuffle(len(decisions), func(i, j int) { decisions[i], decisions[j] = decisions[j], decisions[i] })
			for _, n := range []int{1 + random.IntN(len(decisions)), random.IntN(len(decisions))} {
				problems, err := s.SyncDecisions(t.Context(), "test", decisions[:n])
				must(err)
				if len(problems) > 0 {
					t.Fatal(problems)
				}
				checkHeld(t, s)
			}
			_, err := s.SyncDecisions(t.Context(), "test", nil)
			must(err)
			if diff := cmp.Diff(before, counts()); diff != "" {
				t.Fatalf("without decisions again: %s", diff)
			}
		}
	})
}

// decidedCatalog is what image n holds.
func decidedCatalog(n int) model.Catalog {
	var catalog model.Catalog
	for i := range n + 1 {
		name := fmt.Sprint("package-", i)
		catalog.Packages = append(catalog.Packages, model.HeldPackage{Package: model.Package{Fingerprint: name, Name: name, Version: "1", Type: "binary"}})
	}
	return catalog
}

// decidedFindings is what a database says that knows some vulnerabilities.
func decidedFindings(vulnerabilities int) map[string][]model.PackageFinding {
	says := map[string][]model.PackageFinding{}
	for i := range 3 {
		for j := range vulnerabilities {
			one := model.PackageFinding{Vulnerability: model.Vulnerability{ID: fmt.Sprint("CVE-", j), Severity: model.Severities()[j%5]}}
			if (i+j)%2 == 0 {
				one.Fix = model.Fix{State: model.FixStateFixed, Versions: []string{"2"}}
			}
			says[fmt.Sprint("package-", i)] = append(says[fmt.Sprint("package-", i)], one)
		}
	}
	return says
}

// TestDecisionsOfReplicas ends a decision from two processes at once.
func TestDecisionsOfReplicas(t *testing.T) {
	eachServer(t, func(t *testing.T, config Config) {
		clk := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
		config.Clock = clk
		one, other := openWith(t, config), openWith(t, config)
		if _, err := one.SyncDecisions(t.Context(), "test", decisionCases(clk)); err != nil {
			t.Fatal(err)
		}
		clk.Step(time.Hour)
		errs := make(chan error, 2)
		for _, s := range []*Store{one, other} {
			go func() {
				_, err := s.ExpireDecisions(t.Context())
				errs <- err
			}()
		}
		for range 2 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if got := texts(t, one, "SELECT kind FROM events WHERE kind = 'decision.expired'"); len(got) != 1 {
			t.Errorf("%d decisions expired", len(got))
		}
		checkHeld(t, one)
	})
}

// TestDecisionsAreMatchedAgain: another version of the matcher looks up once what the decisions match that apply, and changes nothing else of them.
func TestDecisionsAreMatchedAgain(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, config Config) {
		s := openJoining(t, config, "a", "b")
		unnamed := store.Decision{Object: store.DecisionObject{Kind: "ClusterVulnerabilityException", Name: "all"}, Packages: []string{"pkg:generic/*"}, Status: model.DecisionUnderInvestigation}
		all := []store.Decision{inPlace("a", "a", "", 0, 1), inPlace("b", "b", "web", 1), unnamed}
		s.decide(t, all...)
		want := map[string]int{"a": 2, "b": 4, "b/web": 3}
		s.expect(t, "at first", want)
		execute := func(statement string) {
			t.Helper()
			if err := s.write(t.Context(), "spoil", func(tx *txn) error { return tx.Execute(statement) }); err != nil {
				t.Fatal(err)
			}
		}
		const rows = "SELECT id, digest, since, until_time FROM decisions ORDER BY id"
		read := func() (all []decisionRow) {
			t.Helper()
			if err := s.db.Reader().WithContext(t.Context()).Raw(rows).Scan(&all).Error; err != nil {
				t.Fatal(err)
			}
			return all
		}
		before := read()
		// As if the earlier version had not known a package, and had taken another one for it.
		execute("DELETE FROM finding_suppressions")
		execute("DELETE FROM reached_counts") // They follow from what is suppressed.
		execute("DELETE FROM decision_findings")
		execute("INSERT INTO decision_findings (finding_id, decision_pk) SELECT MAX(f.id), (SELECT MIN(id) FROM decisions) FROM findings f")
		s.matcherVersion++
		s.decide(t, all...) // It ends with a comparison of what is stored.
		s.expect(t, "matched again", want)
		if diff := cmp.Diff(before, read()); diff != "" {
			t.Errorf("decisions (-want +got):\n%s", diff)
		}
		execute("DELETE FROM decision_findings WHERE decision_pk = (SELECT MAX(id) FROM decisions)")
		if _, err := s.SyncDecisions(t.Context(), "test", all); err != nil {
			t.Fatal(err)
		}
		var left int64
		if err := s.db.Reader().WithContext(t.Context()).Raw("SELECT COUNT(*) FROM decision_findings WHERE decision_pk = (SELECT MAX(id) FROM decisions)").Scan(&left).Error; err != nil || left > 0 {
			t.Errorf("%d findings were matched again by the same version: %v", left, err)
		}
		s.matcherVersion++
		s.decide(t, all...)
	})
}
