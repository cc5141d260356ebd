package sqlstore

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest/fleet"
	"github.com/scanner-operator/scanner-operator/internal/vex"
)

// bulk is the store of the benchmarks of lists: 200 packages in each image, of which every other one has two findings, so there are two million findings in
// images.
var bulk = fleet.Fleet{Images: 10000}

// number is how databases keep what holds or not.
var number = map[bool]int{true: 1}

// filler fills a store past its methods, which would take far longer.
type filler struct{ fleet.Fleet }

// eachBulk runs a benchmark on each database that is there, with the bulk store.
func eachBulk(b *testing.B, benchmark func(b *testing.B, s *Store)) {
	b.Helper()
	eachFilled(b, bulk, benchmark)
}

// eachFilled does so with the store of another fleet.
func eachFilled(b *testing.B, filled fleet.Fleet, benchmark func(b *testing.B, s *Store)) {
	b.Helper()
	for _, name := range []string{sqldb.TypeSQLite, sqldb.TypePostgres, sqldb.TypeMySQL} {
		b.Run(name, func(b *testing.B) { benchmark(b, filledStore(b, name, filled)) })
	}
}

// filledStore opens a store of another fleet on a database of its own.
func filledStore(b *testing.B, name string, filled fleet.Fleet) *Store {
	b.Helper()
	config := Config{Type: name, Rules: &vex.Evaluator{Versions: unversioned{}}}
	if name == sqldb.TypeSQLite {
		config.DSN = filepath.Join(b.TempDir(), "bulk.db")
	} else {
		config.DSN = servers[name].migrated(b)
	}
	s, err := Open(b.Context(), config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	if err := (filler{filled}).fill(b.Context(), s); err != nil {
		b.Fatal(err)
	}
	filledWith[s] = config
	return s
}

// filledWith has the configurations of the stores that filledStore and reopened made.
var filledWith = map[*Store]Config{}

// reopened closes such a store and opens its database again. What writing much leaves in the memory of the process makes lists of SQLite take longer for a while, with or
// without what was written.
func reopened(b *testing.B, s *Store) *Store {
	b.Helper()
	config := filledWith[s]
	delete(filledWith, s)
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	again, err := Open(b.Context(), config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = again.Close() })
	filledWith[again] = config
	return again
}

// fill writes what every benchmark needs, and more.
func (f filler) fill(ctx context.Context, s *Store, more ...func(*txn) error) error {
	for _, fill := range append([]func(*txn) error{f.images, f.layers, f.packages, f.vulnerabilities, f.findings, f.uses, f.held, f.counts, f.history}, more...) {
		if err := s.write(ctx, "fill", fill); err != nil {
			return err
		}
	}
	return analyze(ctx, s)
}

// analyze makes the statistics that databases plan by. They make them by themselves, but not at once.
func analyze(ctx context.Context, s *Store) error {
	for _, statement := range map[string][]string{
		sqldb.TypePostgres: {"VACUUM ANALYZE"},
		sqldb.TypeMySQL: {"ANALYZE TABLE images, image_layers, packages, image_packages, image_package_sets, vulnerabilities, vulnerability_names, findings, image_uses, image_presences, held_packages, found_vulnerabilities, package_fixes, image_fixes, " +
			"finding_changes, container_coverage, rollouts, events, daily_sums, image_namespaces"},
	}[s.db.Dialect().Type()] {
		if err := s.db.Writer().WithContext(ctx).Exec(statement).Error; err != nil {
			return err
		}
	}
	return nil
}

func (f filler) images(tx *txn) error {
	var values []any
	for n := range f.Images {
		row := newImage(fleet.Image(n), store.StateScanned, tx.now, store.Counts{})
		row[13], row[15], row[16] = 0, tx.now, "x" // Known for long, matched, and the digest of an SBOM.
		values = append(append(values, n+1), row...)
	}
	if newImageColumns[13] != "first_seen" || newImageColumns[15] != "matched_at" || newImageColumns[16] != "sbom_sha256" {
		return fmt.Errorf("columns of images have moved: %v", newImageColumns)
	}
	return tx.Insert("images", append([]string{"id"}, newImageColumns...), values, "")
}

// layers gives each image the four layers of its base and six of its own.
func (f filler) layers(tx *txn) error {
	for n := range f.Images {
		if err := saveLayers(tx, int64(n+1), &model.Catalog{Layers: f.Layers(n)}); err != nil {
			return err
		}
	}
	return nil
}

func (f filler) packages(tx *txn) error {
	var values []any
	for n := 1; n <= f.Packages(); n++ {
		name, version, kind := f.Package(n)
		values = append(values, n, fleet.Fingerprint(n), name, version, kind, "", fleet.PURL(name, version), fleet.Distro, "", "", []byte("{}"))
	}
	err := tx.Insert("packages", []string{
		"id", "fingerprint", "name", "version", "type", "language", "purl", "distro", "licenses", "cpes", "match_input",
	}, values, "")
	if err != nil {
		return err
	}
	err = tx.Execute(`INSERT INTO image_packages (image_pk, package_pk, excluded, locations, own)
		SELECT i.id, (i.id % ?) * ? + k.id, 0, '', '' FROM images i CROSS JOIN packages k WHERE k.id <= ? ORDER BY 1, 2`, f.Bases(), fleet.BasePackages, fleet.BasePackages)
	if err != nil {
		return err
	}
	first, stride, step, rest := f.Own()
	err = tx.Execute(`INSERT INTO image_packages (image_pk, package_pk, excluded, locations, own)
		SELECT i.id, ? + (i.id * ? + k.id * ?) % ?, 0, '', '' FROM images i CROSS JOIN packages k WHERE k.id <= ? ORDER BY 1, 2`,
		first, stride, step, rest, fleet.BasePackages)
	if err != nil {
		return err
	}
	images := make([]int64, f.Images)
	for n := range images {
		images[n] = int64(n + 1)
	}
	return inParts(images, tx.savePackageSets)
}

func (f filler) vulnerabilities(tx *txn) error {
	err := tx.Execute(`INSERT INTO generations (number, build_id, schema_version, built, source, engine, previous_build, full_match, state, started_at,
		current_since, queued, matched, opened, closed, changed, images, opened_critical, new_kev)
		VALUES (1, 'build', '6', 1, 'official', 'engine', '', 1, ?, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0)`, string(store.ResultSetCurrent))
	if err != nil {
		return err
	}
	detail := `{"id": %q, "namespace": "debian:distro:debian:12", "description": "` + strings.Repeat("A long description. ", 50) + `"}`
	var rows, details, names []any
	for n := range f.CVEs() + 1 {
		id := fleet.CVE(n)
		rows = append(rows, n+1, id, id, "debian:distro:debian:12", int64(fleet.Severity(n)), 1, n%1000*1000, n%97*1e6, number[fleet.KEV(n)], `{"risk": 1}`)
		details = append(details, n+1, fmt.Sprintf(detail, id))
		names = append(names, id, n+1, fmt.Sprintf("GHSA-%04d-aaaa-bbbb", n), n+1)
	}
	err = tx.Insert("vulnerabilities", append([]string{"id", "digest", "vulnerability_id", "namespace", "severity", "from_gen"}, scoreColumns...), rows, "")
	if err != nil {
		return err
	}
	if err := tx.Insert("vulnerability_details", []string{"vulnerability_pk", "detail"}, details, ""); err != nil {
		return err
	}
	return tx.Insert("vulnerability_names", []string{"name", "vulnerability_pk"}, names, "")
}

func (f filler) findings(tx *txn) error {
	var values []any
	add := func(n, cve, from int, until int64, fixable bool) {
		values = append(values, n, cve+1, fmt.Sprintf("%032x", cve), from, until, "fixed", number[fixable], `["1.2.3"]`, `[{"type":"exact-direct-match","matcher":"`+strings.Repeat("x", 460)+`"}]`, 1, 1)
	}
	for n := 1; n <= f.Packages(); n++ {
		for _, finding := range f.FindingsOf(n) {
			add(n, finding.CVE, 1, stillOpen, finding.Fixable)
		}
		if cve, found := f.ClosedFinding(n); found {
			add(n, cve, 0, 1, n/2%2 == 1)
		}
	}
	return tx.Insert("findings", []string{
		"package_pk", "vulnerability_pk", "digest", "from_gen", "until_gen", "fix_state", "fixable", "fix_versions", "details", "opened_at", "opened_gen",
	}, values, "")
}

func (f filler) held(tx *txn) error {
	var ids []int64
	for _, n := range f.Held() {
		ids = append(ids, int64(n))
	}
	return tx.raiseHeld(ids, heldMatched)
}

// counts counts the findings of all images.
func (f filler) counts(tx *txn) error {
	ids := make([]int64, f.Images)
	for i := range ids {
		ids[i] = int64(i) + 1
	}
	return inParts(ids, func(part []int64) error {
		counts, err := countsOfImages(tx.DB, part)
		if err != nil {
			return err
		}
		deltas := make(map[int64]countsDelta, len(counts))
		for id, row := range counts {
			deltas[id] = row.since(&countsRow{})
		}
		return tx.addCounts(part, deltas)
	})
}

// countsOfImages counts what images show, without any of the tables that are written for it.
func countsOfImages(tx *gorm.DB, ids []int64) (map[int64]countsRow, error) {
	var rows []struct {
		ImagePk int64
		Counts  countsRow `gorm:"embedded"`
	}
	err := tx.Raw("SELECT ip.image_pk, "+severitySums()+` FROM image_packages ip CROSS JOIN generations g CROSS JOIN findings f CROSS JOIN vulnerabilities v
		WHERE ip.image_pk IN ? AND ip.excluded = 0 AND g.state = 'Current' AND f.package_pk = ip.package_pk AND f.from_gen <= g.number
		AND f.until_gen > g.number AND NOT EXISTS (SELECT 1 FROM finding_suppressions x LEFT JOIN reached y ON y.reach = x.reach
			WHERE x.finding_id = f.id AND (x.reach = 0 OR y.image_pk = ip.image_pk)) AND v.id = f.vulnerability_pk GROUP BY ip.image_pk`, ids).Scan(&rows).Error
	counts := make(map[int64]countsRow, len(rows))
	for _, row := range rows {
		counts[row.ImagePk] = row.Counts
	}
	return counts, err
}

func (f filler) uses(tx *txn) error {
	var uses, presences []any
	for n := range f.Images {
		namespace, name := fleet.Namespace(n), f.Workload(n)
		uses = append(uses, "scope", n+1, namespace, fleet.Kind, name, fleet.Container)
		for _, times := range [][2]int64{{1, 2}, {3, stillOpen}} {
			presences = append(presences, n+1, fmt.Sprint(n), "", namespace, fleet.Kind, name, fleet.Container, times[0], times[1])
		}
	}
	if err := tx.Insert("image_uses", []string{"scope", "image_pk", "namespace", "kind", "name", "container"}, uses, ""); err != nil {
		return err
	}
	return tx.Insert("image_presences", []string{
		"image_pk", "slot", "cluster", "namespace", "kind", "name", "container", "since", "until_time",
	}, presences, "")
}

// history writes what lists show of containers, changes, rollouts, days and events.
func (f filler) history(tx *txn) error { return f.historyIn(tx, fleet.Namespaces) }

// historyIn writes it of so many namespaces.
func (f filler) historyIn(tx *txn, namespaces int) error {
	namespaceOf := func(n int) string { return fmt.Sprintf("namespace-%d", n%namespaces) }
	var containers, changes, rollouts, days, events, audience []any
	states := []string{"Scanned", "Scanned", "Scanned", "Stale", "Pending", "Failed"}
	for n := range f.Images {
		image := fleet.Image(n).ImageID
		state := states[n%len(states)]
		reason := map[string]string{"Failed": "PullFailed"}[state]
		containers = append(containers, "scope", fmt.Sprint(n), namespaceOf(n), fleet.Kind, f.Workload(n), fleet.Container,
			image, "linux/amd64", image, 3, state, reason, "", 0, 1)
	}
	for n := range f.Changes() {
		changes = append(changes, 1, 1+n%f.Packages(), fleet.CVE(n%f.CVEs()), "debian:distro:debian:12", int64(fleet.Severity(n)), number[fleet.KEV(n)], n%3, "severity", "", "")
	}
	for n := range f.Rollouts() {
		rollouts = append(rollouts, n, "", namespaceOf(n), fleet.Kind, f.Workload(n), fleet.Container,
			fleet.Image(n).ImageID, "linux/amd64", fleet.Image(n+1).ImageID, "linux/amd64")
	}
	for day := range store.MaxTrendDays {
		for namespace := range namespaces + 1 {
			name := ""
			if namespace > 0 {
				name = namespaceOf(namespace - 1)
			}
			days = append(days, dayOf(time.Unix(0, 0).AddDate(0, 0, day)), "", name, 200, 200)
			for range countColumns {
				days = append(days, day)
			}
		}
	}
	for n := range f.Events() {
		events = append(events, n+1, n, string(store.EventImageMatched), fmt.Sprintf("registry.example/image-%d", n), "linux/amd64", `{"counts":{"critical":1}}`)
		audience = append(audience, n+1, namespaceOf(n))
	}
	for _, table := range []struct {
		name    string
		columns []string
		values  []any
	}{
		{"container_coverage", coverageColumns, containers},
		{"finding_changes", []string{
			"generation", "package_pk", "vulnerability_id", "namespace", "severity", "kev", "kind", "reasons", "before_side", "after_side",
		}, changes},
		{"rollouts", rolloutColumns, rollouts},
		{"daily_sums", sumColumns, days},
		{"events", []string{"seq", "at", "kind", "image_id", "platform", "data"}, events},
		{"event_namespaces", []string{"seq", "namespace"}, audience},
	} {
		if err := tx.Insert(table.name, table.columns, table.values, ""); err != nil {
			return fmt.Errorf("%s: %w", table.name, err)
		}
	}
	// As the switch of a result set writes them.
	const grouped = "c.generation, c.severity, c.kev, c.kind"
	groups := tx.Table("finding_changes AS c").Select(grouped + ", CASE WHEN c.kind = 0 THEN c.kev ELSE 0 END, 0, COUNT(*), " + tx.Dialect.List("c.package_pk")).Group(grouped)
	return tx.Execute("INSERT INTO change_packages (generation, severity, kev, kind, newly_kev, partly, changes, packages) ?", groups)
}
