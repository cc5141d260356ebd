package sqlstore

import (
	"fmt"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// TestTooManyVersions asks about one version more than the bound.
func TestTooManyVersions(t *testing.T) {
	t.Parallel()
	s := openAt(t, migrated(t))
	fill := func(from, to int) {
		t.Helper()
		held := make([]model.HeldPackage, 0, to-from)
		for n := from; n < to; n++ {
			held = append(held, model.HeldPackage{Package: model.Package{Fingerprint: fmt.Sprintf("%064x", n), Name: "p", Version: fmt.Sprint(n), Type: "deb"}})
		}
		if _, err := s.StorePackages(t.Context(), held); err != nil {
			t.Fatal(err)
		}
	}
	asked := 0
	query := store.PackageQuery{Name: "p", Version: func(string, string) bool { asked++; return asked%2 == 0 }}
	fill(0, store.MaxVersions)
	if page, err := s.ListPackages(t.Context(), store.AllNamespaces(), query); err != nil || asked != store.MaxVersions || page.Total != 0 {
		t.Errorf("%d versions: asked about %d, got %d packages that no image holds, %v", store.MaxVersions, asked, page.Total, err)
	}
	fill(store.MaxVersions, store.MaxVersions+1)
	asked = 0
	_, err := s.ListPackages(t.Context(), store.AllNamespaces(), query)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprint("more than ", store.MaxVersions, " versions")) || asked > store.MaxVersions {
		t.Errorf("one more: asked about %d, got %v", asked, err)
	}
}

// TestSearchPlans keeps the searches that must be fast on indexes.
func TestSearchPlans(t *testing.T) {
	s := openAt(t, migrated(t))
	everywhere := place{in: store.AllNamespaces()}
	affected := affectedQuery{chosen: everywhere, AffectedQuery: store.AffectedQuery{ID: "CVE-1"}, names: []string{"CVE-1"}, current: 1}
	packages, worst := packageSearch{chosen: everywhere, PackageQuery: store.PackageQuery{Name: "p"}, dialect: s.db.Dialect()}, packageSearch{chosen: everywhere, dialect: s.db.Dialect()}
	divided := dividing{images: map[int64]map[int64]bool{1: {}, 2: {}}}
	scoped := packageSearch{chosen: place{in: store.OnlyNamespaces("a")}, PackageQuery: store.PackageQuery{Vulnerable: true}, dialect: s.db.Dialect(), divided: divided, current: 1}
	exposures := exposureQuery{tx: s.db.Reader(), chosen: everywhere, names: []string{"CVE-2026-1"}, current: 1}
	workloads := make([]exposedWorkload, store.DefaultPageSize)
	for i := range workloads {
		workloads[i] = exposedWorkload{Namespace: "a", Name: fmt.Sprint(i)}
	}
	exposed, err := exposures.rowsOf(workloads)
	if err != nil {
		t.Fatal(err)
	}
	every := &layerTree{tx: s.db.Reader(), among: func(rows *gorm.DB, _ string) *gorm.DB { return rows }}
	some := &layerTree{tx: s.db.Reader(), among: func(rows *gorm.DB, column string) *gorm.DB {
		return rows.Where(column+" IN (?)", numberList([]int64{1, 2}))
	}}
	bases, onBase := []layerOf{{1, 2}, {3, 4}}, []string{
		"SEARCH d USING INDEX sqlite_autoindex_image_layers_1 (image_pk=?)", "SEARCH b USING COVERING INDEX image_layers_chain (chain_id=? AND position=? AND is_top=?)",
	}
	for name, c := range map[string]struct {
		query *gorm.DB
		want  []string
	}{
		"affected": {affected.entries(s.db.Reader()), []string{
			"SEARCH n USING PRIMARY KEY (name=?)", "SEARCH f USING INDEX findings_shown (vulnerability_pk=? AND until_gen>?)",
			"SEARCH ip USING COVERING INDEX image_packages_package (package_pk=? AND excluded=?)", "SEARCH i USING INTEGER PRIMARY KEY (rowid=?)",
		}},
		"packages by name": {packages.filter(s.db.Reader()).Select("p.id").Order(sqldb.OrderBy(packageSorts[store.SortPackageName])), []string{
			"SEARCH p USING INDEX packages_name (name=?)", "SEARCH h USING COVERING INDEX sqlite_autoindex_held_packages_1 (package_pk=?)",
		}},
		"packages, the worst first": {worst.entries(worst.filter(s.db.Reader())).Order(sqldb.OrderBy(worstHeld)).Limit(1), []string{
			"SCAN h USING INDEX held_packages_worst", "SEARCH p USING INTEGER PRIMARY KEY (rowid=?)",
		}},
		// Nothing is joined to count them.
		"packages, counted":           {worst.filter(s.db.Reader()).Select("COUNT(*)"), []string{"USING COVERING INDEX"}},
		"what images say of packages": {ownOf(s.db.Reader(), []heldPackage{{1, 2}, {3, 4}}), []string{"MULTI-INDEX OR", "(image_pk=? AND package_pk=?)"}},
		"suppressed findings": {suppressedOf(s.db.Reader(), place{in: store.AllNamespaces()}, 1).Select("COUNT(*)"), []string{
			"finding_suppressions_reach (reach=?)", "COVERING INDEX image_packages_package (package_pk=? AND excluded=?)",
		}},
		"vulnerabilities": {s.foundVulnerabilities(s.db.Reader(), 1, everywhere, seen{}, nil, dividing{}, store.VulnerabilityQuery{}), []string{
			"SCAN v USING INDEX vulnerabilities_vulnerability", "SEARCH h USING COVERING INDEX sqlite_autoindex_found_vulnerabilities_1 (vulnerability_pk=?)",
		}},
		// Of the decisions about some images, those are read that reach one that is visible.
		"decisions about images of a namespace": {seen{}.closing(s.db.Reader(), scoped.chosen, nil), []string{"SEARCH x USING COVERING INDEX reached_image (image_pk=?)"}},
		"decisions about known images":          {seen{}.closing(s.db.Reader(), scoped.chosen, []int64{1, 2}), []string{"SEARCH x USING COVERING INDEX reached_image (image_pk=?)"}},
		"packages of a namespace": {scoped.filter(s.db.Reader()).Select("COUNT(*)"), []string{
			"SEARCH fs USING COVERING INDEX finding_suppressions_reach (reach=?)",
			"SEARCH ft USING PRIMARY KEY (finding_id=?)", "SEARCH x USING PRIMARY KEY (reach=? AND image_pk=?)",
		}},
		"vulnerabilities of a namespace": {s.foundVulnerabilities(s.db.Reader(), 1, scoped.chosen, seen{}, s.db.Dialect().Among("f.package_pk", []int64{1, 2}), divided, store.VulnerabilityQuery{}), []string{
			"SEARCH fs USING COVERING INDEX finding_suppressions_reach (reach=?)",
			"SEARCH fs USING PRIMARY KEY (finding_id=? AND reach=?)", "SEARCH x USING PRIMARY KEY (reach=? AND image_pk=?)",
		}},
		// Layers are read in the order of an index or of some images, and images by the layers of bases: none are compared with all others.
		"shared layers":         {every.shared(), []string{"[{SCAN l USING COVERING INDEX image_layers_chain}]"}},
		"ends of shared layers": {every.ends([]string{"a", "b"}), []string{"[{SEARCH l USING COVERING INDEX image_layers_chain (chain_id=?)}]"}},
		"shared layers of some": {some.shared(), []string{"SEARCH l USING INDEX sqlite_autoindex_image_layers_1 (image_pk=?)"}},
		"images on bases":       {onBases(s.db.Reader().Table("images AS i"), bases), append(onBase[:2:2], "SEARCH i USING INTEGER PRIMARY KEY (rowid=?)")},
		"workloads on bases":    {workloadsOn(s.db.Reader(), everywhere, bases), append(onBase[:2:2], "SEARCH u USING COVERING INDEX image_uses_image (image_pk=?)")},
		// Presences are looked up for each image, and not each workload for each image.
		"exposures of workloads": {exposed.Select("u.name"), []string{"SEARCH u USING INDEX sqlite_autoindex_image_presences_1 (image_pk=?)"}},
	} {
		statement := s.db.Reader().ToSQL(func(*gorm.DB) *gorm.DB { return c.query.Session(&gorm.Session{DryRun: true}).Find(&[]map[string]any{}) })
		var rows []struct{ Detail string }
		if err := s.db.Reader().Raw("EXPLAIN QUERY PLAN " + statement).Scan(&rows).Error; err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, want := range c.want {
			if !strings.Contains(fmt.Sprint(rows), want) {
				t.Errorf("%s: nothing says %q in %v", name, want, rows)
			}
		}
	}
}
