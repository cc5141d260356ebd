package sqlstore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// checkHeld expects that the tables which lists are ordered by say what follows from all others. Every test of the store's suite ends with it.
func checkHeld(t *testing.T, s *Store) {
	t.Helper()
	if t.Failed() || s.Ready(context.Background()) != nil {
		return // Some tests close the store, or take its database away.
	}
	checkVisible(t, s)
	checkCounts(t, s)
	checkDecisions(t, s)
	checkFixes(t, s)
	checkTagFixes(t, s)
	checkLacks(t, s)
	checkReached(t, s)
	checkSeen(t, s)
	checkPackageSets(t, s)
	checkChanges(t, s)
	checkChangePackages(t, s)
	const number = "SELECT COALESCE(MAX(g.number), 0) FROM generations g WHERE g.state = 'Current'"
	const shown = "f.from_gen <= (" + number + ") AND f.until_gen > (" + number + ")" +
		" AND NOT EXISTS (SELECT 1 FROM finding_suppressions x LEFT JOIN reached y ON y.reach = x.reach WHERE x.finding_id = f.id AND (x.reach = 0 OR y.image_pk = ip.image_pk))"
	type row struct {
		PackagePk, Level int64
		Counts           countsRow `gorm:"embedded"`
	}
	type level struct{ VulnerabilityPk, Level int64 }
	var held, wantHeld, counts []row
	var known, wantKnown []level
	for _, query := range []struct {
		statement string
		into      any
	}{
		{"SELECT * FROM held_packages ORDER BY package_pk", &held},
		{`SELECT ip.package_pk, MAX(CASE WHEN ip.excluded = 1 THEN 1 WHEN i.matched_at = 0 THEN 2 ELSE 3 END) AS level
			FROM image_packages ip JOIN images i ON i.id = ip.image_pk GROUP BY ip.package_pk ORDER BY ip.package_pk`, &wantHeld},
		{"SELECT f.package_pk, " + severitySums() + " FROM findings f JOIN vulnerabilities v ON v.id = f.vulnerability_pk WHERE EXISTS" +
			" (SELECT 1 FROM image_packages ip WHERE ip.package_pk = f.package_pk AND ip.excluded = 0 AND " + shown + ") GROUP BY f.package_pk", &counts},
		{"SELECT * FROM found_vulnerabilities ORDER BY vulnerability_pk", &known},
		{`SELECT f.vulnerability_pk, 1 + MAX(f.fixable) AS level FROM findings f JOIN image_packages ip ON ip.package_pk = f.package_pk AND ip.excluded = 0
			JOIN images i ON i.id = ip.image_pk AND i.matched_at > 0 WHERE ` + shown + " GROUP BY f.vulnerability_pk ORDER BY f.vulnerability_pk", &wantKnown},
	} {
		if err := s.db.Reader().Raw(query.statement).Scan(query.into).Error; err != nil {
			t.Error(err)
			return
		}
	}
	byPackage := map[int64]countsRow{}
	for _, c := range counts {
		byPackage[c.PackagePk] = c.Counts
	}
	for i := range wantHeld {
		if wantHeld[i].Level >= heldCounted {
			wantHeld[i].Counts = byPackage[wantHeld[i].PackagePk]
		}
	}
	if diff := cmp.Diff(wantHeld, held); diff != "" {
		t.Errorf("held_packages (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantKnown, known); diff != "" {
		t.Errorf("found_vulnerabilities (-want +got):\n%s", diff)
	}
}

// reachedFindings are the findings that reaches with places suppress in images of which they have some place, without those that something else suppresses there.
const reachedFindings = `SELECT fs.reach, ip.image_pk, v.severity, v.kev, f.fixable FROM finding_suppressions fs JOIN findings f ON f.id = fs.finding_id
	JOIN vulnerabilities v ON v.id = f.vulnerability_pk JOIN image_packages ip ON ip.package_pk = f.package_pk AND ip.excluded = 0
	JOIN images i ON i.id = ip.image_pk AND i.matched_at > 0 JOIN generations g ON f.from_gen <= g.number AND f.until_gen > g.number AND g.state = 'Current'
	WHERE (SELECT COUNT(*) FROM reached_namespaces y WHERE y.reach = fs.reach AND y.image_pk = ip.image_pk) > 0
	AND (SELECT COUNT(*) FROM finding_suppressions x LEFT JOIN reached y ON y.reach = x.reach AND y.image_pk = ip.image_pk
		WHERE x.finding_id = f.id AND x.reach <> fs.reach AND (x.reach = 0 OR y.image_pk IS NOT NULL)) = 0`

// checkReached expects that reached_counts has the counts of these findings, and reached_elsewhere the places of images of which a reach has not all.
func checkReached(t *testing.T, s *Store) {
	t.Helper()
	var found []struct{ Reach, ImagePk, Severity, Kev, Fixable int64 }
	if err := s.db.Reader().Raw(reachedFindings).Scan(&found).Error; err != nil {
		t.Error(err)
		return
	}
	want := map[imageReach]countsRow{}
	for _, f := range found {
		var delta countsDelta
		delta.add(f.Severity, f.Kev, f.Fixable, 1)
		counts := want[imageReach{f.Reach, f.ImagePk}]
		counts.add(delta)
		want[imageReach{f.Reach, f.ImagePk}] = counts
	}
	got, err := readReachedCounts(s.db.Reader().Table("reached_counts AS c"))
	if err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reached_counts (-want +got):\n%s", diff)
	}
	var rows, wantRows []namespaceReach
	err = errors.Join(s.db.Reader().Raw("SELECT reach, image_pk, namespace FROM reached_elsewhere ORDER BY reach, image_pk, namespace").Scan(&rows).Error,
		s.db.Reader().Raw(`SELECT y.reach, y.image_pk, y.namespace FROM reached_namespaces y LEFT JOIN reached x ON x.reach = y.reach AND x.image_pk = y.image_pk
			WHERE x.reach IS NULL ORDER BY y.reach, y.image_pk, y.namespace`).Scan(&wantRows).Error)
	if err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(wantRows, rows); diff != "" {
		t.Errorf("reached_elsewhere (-want +got):\n%s", diff)
	}
}

// checkCounts expects that matched images count their findings.
func checkCounts(t *testing.T, s *Store) {
	t.Helper()
	var images []struct {
		ID     int64
		Counts countsRow `gorm:"embedded"`
	}
	err := s.db.Reader().Raw("SELECT i.id, " + strings.Join(countColumns, ", ") + " FROM images i WHERE i.matched_at > 0 ORDER BY i.id").Scan(&images).Error
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]int64, len(images))
	for i := range images {
		ids[i] = images[i].ID
	}
	for part := range slices.Chunk(ids, sqldb.MaxIn) {
		counts, err := countsOfImages(s.db.Reader(), part)
		if err != nil {
			t.Fatal(err)
		}
		for i := range images {
			if id := images[i].ID; slices.Contains(part, id) && counts[id] != images[i].Counts {
				t.Errorf("image %d counts %+v, want %+v", id, images[i].Counts, counts[id])
			}
		}
	}
}
