package sqlstore

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// joinedChanges is what was opened, closed and is exploited, by statements that join all findings with all images. Tests of the store's suite compare with it.
type joinedChanges struct {
	*summarizer
	since int64
}

func (j joinedChanges) read(t *testing.T) (opened, closed, exploited model.SeverityCounts) {
	t.Helper()
	in := j.chosen.in
	findings := func(uses *gorm.DB) *gorm.DB {
		return j.tx.Table("(?) AS d", uses.Distinct("u.image_pk")).Joins("JOIN images i ON i.id = d.image_pk AND i.matched_at > 0").
			Joins("JOIN image_packages ip ON ip.image_pk = i.id AND ip.excluded = 0").Joins("JOIN findings f ON f.package_pk = ip.package_pk").
			Joins("JOIN vulnerabilities v ON v.id = f.vulnerability_pk").Joins("LEFT JOIN generations e ON e.number = f.until_gen AND e.number <= ?", j.current)
	}
	read := func(found *gorm.DB) map[string]known {
		var rows []struct {
			VulnerabilityID string
			Severity, Kev   int64
		}
		err := found.Select("v.vulnerability_id, MAX(v.severity) AS severity, MAX(v.kev) AS kev").Group("v.vulnerability_id").Scan(&rows).Error
		if err != nil {
			t.Error(err)
		}
		read := map[string]known{}
		for _, row := range rows {
			read[row.VulnerabilityID] = known{severity: model.Severity(row.Severity), kev: row.Kev != 0}
		}
		return read
	}
	past := visiblePresences(uses(j.tx.Table("image_presences AS u"), j.chosen), "u", in).Where(presenceSince("u", in)+" <= ? AND u.until_time > ?", j.since, j.since)
	had := findings(past).Where("f.from_gen <= ? AND f.opened_at <= ? AND "+ended+" > ?", j.current, j.since, j.since)
	if !in.All() {
		had = had.Where("i.matched_at <= ?", j.since)
	}
	now, before, still := read(j.counting(findings(j.uses()))), read(had), read(findings(j.uses()).Where(shown, j.current, j.current))
	for name, one := range now {
		if _, found := before[name]; !found {
			opened.Add(one.severity)
		}
		if one.kev {
			exploited.Add(one.severity)
		}
	}
	for name, one := range before {
		if _, found := still[name]; !found {
			closed.Add(one.severity)
		}
	}
	return opened, closed, exploited
}

// checkChanges expects that summaries say what joinedChanges does, since some of the times at which something changed.
func checkChanges(t *testing.T, s *Store) {
	t.Helper()
	tx := s.db.Reader().WithContext(context.Background()) // That of the test has ended.
	var times []int64
	err := tx.Raw("SELECT opened_at FROM findings UNION SELECT since FROM image_presences UNION SELECT until_time - 1 FROM image_presences UNION SELECT matched_at FROM images ORDER BY 1").Scan(&times).Error
	var namespaces, owners []string
	for statement, list := range map[string]*[]string{
		"SELECT DISTINCT namespace FROM image_namespaces ORDER BY 1": &namespaces, "SELECT DISTINCT owner FROM workload_owners ORDER BY 1": &owners,
	} {
		if err := tx.Raw(statement).Scan(list).Error; err != nil {
			t.Error(err)
		}
	}
	if err != nil {
		t.Error(err)
	}
	if err != nil || len(times) == 0 {
		return
	}
	seers := []store.Namespaces{store.AllNamespaces()}
	if len(namespaces) > 0 {
		seers = append(seers, store.OnlyNamespaces(namespaces[len(namespaces)/2]), store.OnlyNamespaces(namespaces[:(len(namespaces)+1)/2]...))
	}
	owned := []store.Ownership{{}}
	if len(owners) > 0 {
		owned = append(owned, store.Ownership{Owner: owners[0]})
	}
	for _, since := range slices.Compact([]int64{0, times[len(times)/3], times[2*len(times)/3]}) {
		for _, in := range seers {
			for _, owner := range owned {
				z, err := s.summarizer(tx, in, owner, 0)
				if err != nil {
					t.Fatal(err)
				}
				var got store.Summary
				if err := z.changes(since, true, &got); err != nil {
					t.Error(err)
				}
				opened, closed, exploited := joinedChanges{z, since}.read(t)
				want := [3]model.SeverityCounts{opened, closed, exploited}
				if diff := cmp.Diff(want, [3]model.SeverityCounts{got.Opened.Counts, got.Closed.Counts, got.Exploited.Counts}); diff != "" {
					t.Errorf("opened, closed and exploited since %d for %v of %+v (-want +got):\n%s", since, in, owner, diff)
				}
				var sums store.Summary
				if err := z.changes(since, false, &sums); err != nil || sums.Opened.Counts != got.Opened.Counts || sums.Closed.Counts != got.Closed.Counts {
					t.Errorf("without what is exploited: %v, %+v; want %+v", err, sums, got)
				}
			}
		}
	}
}
