package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pressly/goose/v3"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest"
)

// withFixes opens a store with images 0 to 2, of which each holds one package more. They run in namespace "one", image 2 also in "two". Decisions suppress
// findings everywhere, in images 0 and 2, and in namespace "one", so that packages 0 and 1 have divided findings.
func withFixes(t *testing.T, config Config) *Store {
	t.Helper()
	clk := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	config.Clock = clk
	s := openWith(t, config)
	if _, err := s.StartResultSet(t.Context(), model.DatabaseBuild{ID: "1"}, "", true); err != nil {
		t.Fatal(err)
	}
	uses := []store.Use{fixUse(2, "two")}
	for n := range 3 {
		if _, err := s.WantImages(t.Context(), []model.ImageKey{fixKey(n)}); err != nil {
			t.Fatal(err)
		}
		if err := scanFixes(t.Context(), s, n, "d", fixCatalog(n)); err != nil {
			t.Fatal(err)
		}
		uses = append(uses, fixUse(n, "one"))
	}
	if err := s.RecordUses(t.Context(), "scope", uses); err != nil {
		t.Fatal(err)
	}
	cases := decisionCases(clk)
	placed := store.Decision{
		Object:          store.DecisionObject{Kind: "VulnerabilityException", Namespace: "one", Name: "placed"},
		Vulnerabilities: []string{"CVE-4"}, Packages: []string{"pkg:generic/package-1@*"}, Status: model.DecisionAcceptedRisk,
		Places: &store.DecisionPlaces{Selector: "one", Namespaces: []string{"one"}},
	}
	problems, err := s.SyncDecisions(t.Context(), "test", []store.Decision{cases[0], cases[7], placed})
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	checkFixes(t, s)
	if actions := texts(t, s, "SELECT DISTINCT action FROM image_fixes ORDER BY 1"); len(actions) != int(fixWait)+1 {
		t.Errorf("there are only rows with the actions %v", actions)
	}
	if images := texts(t, s, "SELECT image_pk FROM reached_counts"); len(images) != 2 {
		t.Errorf("findings count in some places only in the images %v", images)
	}
	return s
}

func fixKey(n int) model.ImageKey {
	return model.ImageKey{ImageID: fmt.Sprintf("registry.example/image-%d@sha256:%064x", n, n), Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
}

func fixUse(n int, namespace string) store.Use {
	return store.Use{Image: fixKey(n), Workload: store.Workload{Namespace: namespace, Kind: "Deployment", Name: fmt.Sprint("web-", n)}, Container: "c"}
}

// fixCatalog is that of decidedCatalog with a package of a distribution.
func fixCatalog(n int) model.Catalog {
	catalog := decidedCatalog(n)
	catalog.Packages[0].Package.Type = "deb"
	return catalog
}

// fixFindings are those of decidedFindings with risks. Package 2 has none that count in some images only.
func fixFindings() map[string][]model.PackageFinding {
	findings := decidedFindings(5)
	for _, list := range findings {
		for i := range list {
			v := &list[i].Vulnerability
			if v.Risk = float64(i) + 0.5; i == 4 {
				v.KEV = []model.KnownExploited{{CVE: v.ID}}
			}
		}
	}
	findings["package-2"] = slices.DeleteFunc(findings["package-2"], func(f model.PackageFinding) bool {
		return f.Vulnerability.ID == "CVE-1" || f.Vulnerability.ID == "CVE-3"
	})
	return findings
}

// scanFixes saves an SBOM of image n and matches it.
func scanFixes(ctx context.Context, s *Store, n int, digest string, catalog model.Catalog) error {
	if err := s.SaveSBOM(ctx, fixKey(n), store.SBOM{SHA256: digest, Size: 1}, catalog); err != nil {
		return err
	}
	return storetest.Match(ctx, s, fixKey(n), digest, fixFindings())
}

// listedFixes are the fixes that lists have for several readers and queries, of which none depends on what is suppressed in some places of an image.
func listedFixes(t *testing.T, s *Store) map[string][]store.Fix {
	t.Helper()
	listed := map[string][]store.Fix{}
	for name, in := range map[string]store.Namespaces{"all": store.AllNamespaces(), "two": store.OnlyNamespaces("two")} {
		for _, query := range []store.FixQuery{
			{}, {KEV: true}, {Overdue: true}, {Overdue: true, KEV: true}, {Kind: store.FixUpdate}, {Where: store.Where{Namespace: "two"}}, {ImageID: fixKey(2).ImageID},
		} {
			page, err := s.ListFixes(t.Context(), in, query)
			if err != nil {
				t.Fatal(err)
			}
			if page.Total != len(page.Fixes) {
				t.Errorf("%s: %+v: %d fixes, want the total %d", name, query, len(page.Fixes), page.Total)
			}
			listed[fmt.Sprintf("%s %+v", name, query)] = page.Fixes
		}
	}
	return listed
}

// TestMigrationOfFixes migrates a database with findings and decisions back to before there were fixes, and up again. Rows are those of an earlier version then:
// lists stay the same, and what changes is written as this version does.
func TestMigrationOfFixes(t *testing.T) {
	eachDatabase(t, func(t *testing.T, config Config) {
		s := withFixes(t, config)
		days := 0
		// Going back may also remove the dates of findings.
		due := func() {
			t.Helper()
			for _, policies := range [][]store.Policy{nil, {{Name: "now", From: model.DueFromFirstSeen, DueIn: model.DueIn{Critical: &days, High: &days, Medium: &days, Low: &days}}}} {
				if problems, err := s.SyncPolicies(t.Context(), policies); err != nil || len(problems) > 0 {
					t.Fatal(problems, err)
				}
			}
		}
		due()
		before := listedFixes(t, s)
		open := openServer
		if config.Type == sqldb.TypeSQLite {
			open = func(t *testing.T, config Config) *sql.DB { return openFile(t, config.DSN) }
		}
		provider := migrator(t, open(t, config), config.Type)
		first := slices.IndexFunc(provider.ListSources(), func(source *goose.Source) bool { return strings.HasSuffix(source.Path, "fixes.sql") })
		for _, step := range []struct {
			name   string
			change func() error
		}{
			{"compute again", func() error { return s.RefreshFixes(t.Context()) }},
			{"end decisions", func() error {
				_, err := s.SyncDecisions(t.Context(), "test", nil)
				return err
			}},
		} {
			if _, err := provider.DownTo(t.Context(), provider.ListSources()[first].Version-1); err != nil {
				t.Fatal(err)
			}
			if _, err := provider.Up(t.Context()); err != nil {
				t.Fatal(err)
			}
			checkReached(t, s)
			due()
			if diff := cmp.Diff(before, listedFixes(t, s)); diff != "" {
				t.Errorf("lists of rows of an earlier version (-want +got):\n%s", diff)
			}
			if err := step.change(); err != nil {
				t.Fatal(err)
			}
			checkFixes(t, s)
			if t.Failed() {
				t.Fatalf("after %q", step.name)
			}
		}
	})
}

// TestFixesOfOtherImages expects that writes about one image leave the rows of others alone, though all hold packages with divided findings. It marks these
// rows, which are written again once they are computed again.
func TestFixesOfOtherImages(t *testing.T) {
	t.Parallel()
	s := withFixes(t, Config{DSN: migrated(t)})
	add := func(marks int) {
		t.Helper()
		err := s.write(t.Context(), "mark fixes", func(tx *txn) error {
			return tx.Execute("UPDATE image_fixes SET findings = findings + ? WHERE image_pk IN (SELECT i.id FROM images i WHERE i.image_id <> ?)", marks, fixKey(3).ImageID)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	marked := func() []string {
		return texts(t, s, "SELECT image_pk, action, package_pk FROM image_fixes WHERE findings >= 1000 ORDER BY 1, 2, 3")
	}
	for _, step := range []struct {
		name  string
		write func() error
	}{
		{"the image is found", func() error {
			_, err := s.WantImages(t.Context(), []model.ImageKey{fixKey(3)})
			return err
		}},
		{"it is scanned", func() error { return scanFixes(t.Context(), s, 3, "d", fixCatalog(1)) }},
		{"it runs where a decision applies", func() error { return s.RecordUses(t.Context(), "other", []store.Use{fixUse(3, "one")}) }},
		{"it runs elsewhere, too", func() error {
			return s.RecordUses(t.Context(), "other", []store.Use{fixUse(3, "one"), fixUse(3, "two")})
		}},
		{"its SBOM is read again", func() error { return s.ReplaceCatalog(t.Context(), fixKey(3), "d", fixCatalog(0)) }},
		{"it has another SBOM", func() error { return scanFixes(t.Context(), s, 3, "e", fixCatalog(1)) }},
		{"it is deleted", func() error {
			return s.DeleteImage(t.Context(), store.AllNamespaces(), store.AllNamespaces(), fixKey(3).ImageID)
		}},
	} {
		add(1000)
		before := marked()
		if err := step.write(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if diff := cmp.Diff(before, marked()); diff != "" {
			t.Errorf("%s: rows of other images were computed again (-marked before +marked after):\n%s", step.name, diff)
		}
		add(-1000)
		checkFixes(t, s)
		checkReached(t, s)
		if t.Failed() {
			t.Fatalf("after %q", step.name)
		}
	}
	add(1000)
	if _, err := s.SyncDecisions(t.Context(), "test", nil); err != nil {
		t.Fatal(err)
	}
	checkFixes(t, s) // All images hold a package about which there were decisions.
}

// leaveBehind changes a database without what the store computes with each change, as a version does that does not know of it.
func leaveBehind(t *testing.T, s *Store, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if err := s.db.Writer().Exec(statement).Error; err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

func TestRefreshFixes(t *testing.T) {
	eachDatabase(t, func(t *testing.T, config Config) {
		s := withFixes(t, config)
		leaveBehind(t, s, "UPDATE findings SET fixable = 1 - fixable WHERE package_pk IN (SELECT p.id FROM packages p WHERE p.name = 'package-2')",
			"DELETE FROM finding_suppressions WHERE reach = 0",
			"DELETE FROM package_fixes WHERE package_pk IN (SELECT p.id FROM packages p WHERE p.name = 'package-0')",
			"UPDATE images SET matched_at = 0 WHERE image_id LIKE '%image-1@%'", "UPDATE reached_counts SET high = high + 1", "DELETE FROM reached_elsewhere", "DELETE FROM image_package_sets")
		if err := s.RefreshFixes(t.Context()); err != nil {
			t.Fatal(err)
		}
		checkFixes(t, s)
		checkReached(t, s)
		checkPackageSets(t, s)
	})
}

// TestFixesLeftBehind expects that rows which another version left behind are computed again when a difference shows that they are wrong.
func TestFixesLeftBehind(t *testing.T) {
	eachDatabase(t, func(t *testing.T, config Config) {
		s := withFixes(t, config)
		if _, err := s.SyncDecisions(t.Context(), "test", nil); err != nil {
			t.Fatal(err)
		}
		leaveBehind(t, s, "DELETE FROM image_fixes")
		examined := store.Decision{
			Object: store.DecisionObject{Kind: "ClusterVulnerabilityException", Name: "examined"}, Vulnerabilities: []string{"CVE-2", "CVE-4"},
			Status: model.DecisionFalsePositive,
		}
		if problems, err := s.SyncDecisions(t.Context(), "test", []store.Decision{examined}); err != nil || len(problems) > 0 {
			t.Fatal(problems, err)
		}
		checkFixes(t, s)
	})
}

// TestScoresRefreshFixes expects that scores which no fix depends on have all images computed again.
func TestScoresRefreshFixes(t *testing.T) {
	t.Parallel()
	s := withFixes(t, Config{DSN: migrated(t)})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.SyncDecisions(t.Context(), "test", nil)
	must(err)
	leaveBehind(t, s, "UPDATE image_fixes SET risk_micros = risk_micros + 1")
	next, err := s.StartResultSet(t.Context(), model.DatabaseBuild{ID: "2"}, "", false)
	must(err)
	must(s.StartMatching(t.Context(), next.Number))
	scores, err := s.Vulnerabilities(t.Context(), 0, 1)
	must(err)
	scores[0].EPSS = &model.EPSS{Score: 0.01}
	must(s.StageScores(t.Context(), next.Number, scores))
	_, err = s.Switch(t.Context(), next.Number)
	must(err)
	checkFixes(t, s)
}

// TestFixesOfLiveImages reads pages of images whose fixes are computed for who asks: no more entries are kept than a page has.
func TestFixesOfLiveImages(t *testing.T) {
	t.Parallel()
	s := withFixes(t, Config{DSN: migrated(t)})
	// All images run where the decision about places does not hold, too.
	if err := s.RecordUses(t.Context(), "elsewhere", []store.Use{fixUse(0, "two"), fixUse(1, "two")}); err != nil {
		t.Fatal(err)
	}
	in := store.OnlyNamespaces("one")
	all, err := s.ListFixes(t.Context(), in, store.FixQuery{})
	if err != nil {
		t.Fatal(err)
	}
	var paged []store.Fix
	for page := (store.Page{Size: 2}); ; {
		r := &fixReader{s: s, tx: s.db.Reader(), query: store.FixQuery{Page: page}, chosen: place{in: in}, token: fixToken{List: "fixes"}}
		if err := r.begin(); err != nil {
			t.Fatal(err)
		}
		if len(r.live) != 3 {
			t.Fatalf("the fixes of %d images are computed, want 3", len(r.live))
		}
		entries, total, err := r.liveEntries()
		if want := min(page.Size+1, len(all.Fixes)-len(paged)); err != nil || len(entries) != want || total != len(all.Fixes) {
			t.Fatalf("got %d of %d entries, %v; want %d of %d", len(entries), total, err, want, len(all.Fixes))
		}
		list, err := s.ListFixes(t.Context(), in, store.FixQuery{Page: page})
		if err != nil {
			t.Fatal(err)
		}
		paged = append(paged, list.Fixes...)
		if page.Token = list.NextToken; page.Token == "" {
			break
		}
	}
	if diff := cmp.Diff(all.Fixes, paged); diff != "" || len(paged) < 6 {
		t.Errorf("%d fixes, page by page (-want +got):\n%s", len(paged), diff)
	}
}

// TestFixesOfAllImages expects that computing all images at once is the same as computing each.
func TestFixesOfAllImages(t *testing.T) {
	eachDatabase(t, func(t *testing.T, config Config) {
		s := withFixes(t, config)
		leaveBehind(t, s, "UPDATE image_fixes SET risk_micros = risk_micros + 1, findings = findings + 1")
		err := s.write(t.Context(), "compute all images", func(tx *txn) error {
			current, err := currentNumber(tx.DB)
			if err != nil {
				return err
			}
			return tx.refreshImageFixes(nil, current)
		})
		if err != nil {
			t.Fatal(err)
		}
		checkFixes(t, s)
	})
}
