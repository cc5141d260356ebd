package sqlstore

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// The size of the store of the benchmarks of lists: 200 packages in each image, of which every other one has two findings, so there are
// two million findings in images.
const (
	bulkImages    = 10000
	bulkBases     = 40
	bulkBase      = 100 // Packages of each base, which 250 images have.
	bulkPackages  = 20000
	bulkCVEs      = 8000
	bulkWorkloads = 5000
	// wideCVE is in a package of every base, so in every image.
	wideCVE = bulkCVEs
)

func bulkID(n int) string { return fmt.Sprintf("CVE-2026-%05d", n) }

// bulkPackage is the name and the version of a package: each base has another version of the same names.
func bulkPackage(n int) (name, version string) {
	if n <= bulkBases*bulkBase {
		return fmt.Sprintf("base-%d", n%bulkBase), fmt.Sprintf("1.%d", n/bulkBase)
	}
	return fmt.Sprintf("app-%d", n%2000), fmt.Sprintf("2.%d", n/2000)
}

// eachBulk runs a benchmark on each database that is there, with a store of bulkImages images.
func eachBulk(b *testing.B, benchmark func(b *testing.B, s *Store)) {
	b.Helper()
	for _, name := range []string{sqldb.TypeSQLite, sqldb.TypePostgres, sqldb.TypeMySQL} {
		b.Run(name, func(b *testing.B) {
			config := Config{Type: name}
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
			if err := fillBulk(b.Context(), s); err != nil {
				b.Fatal(err)
			}
			benchmark(b, s)
		})
	}
}

// fillBulk writes past the store's methods, which would take far longer.
func fillBulk(ctx context.Context, s *Store) error {
	for _, fill := range []func(*txn) error{fillImages, fillPackages, fillVulnerabilities, fillFindings, fillUses, fillHeld} {
		if err := s.write(ctx, "fill", fill); err != nil {
			return err
		}
	}
	// Databases that plan by statistics make them by themselves, but not at once.
	for _, statement := range map[string][]string{
		sqldb.TypePostgres: {"ANALYZE"},
		sqldb.TypeMySQL:    {"ANALYZE TABLE images, packages, image_packages, vulnerabilities, vulnerability_names, findings, image_uses, image_presences, held_packages, found_vulnerabilities"},
	}[s.db.Dialect().Type()] {
		if err := s.db.Writer().WithContext(ctx).Exec(statement).Error; err != nil {
			return err
		}
	}
	return nil
}

func fillImages(tx *txn) error {
	var values []any
	for n := range bulkImages {
		key := model.ImageKey{ImageID: fmt.Sprintf("registry.example/team-%d/image-%d@sha256:%064x", n%31, n%977, n), Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
		row := newImage(key, store.StateScanned, tx.now, store.Counts{
			SeverityCounts: model.SeverityCounts{Critical: n % 7, High: n % 41, Medium: 50, Low: 100}, KEV: (n % 50) / 49, Fixable: n % 3,
		})
		row[13], row[15], row[16] = 0, tx.now, "x" // Known for long, matched, and the digest of an SBOM.
		values = append(append(values, n+1), row...)
	}
	if newImageColumns[13] != "first_seen" || newImageColumns[15] != "matched_at" || newImageColumns[16] != "sbom_sha256" {
		return fmt.Errorf("columns of images have moved: %v", newImageColumns)
	}
	return tx.Insert("images", append([]string{"id"}, newImageColumns...), values, "")
}

func fillPackages(tx *txn) error {
	var values []any
	for n := 1; n <= bulkPackages; n++ {
		name, version := bulkPackage(n)
		values = append(values, n, fmt.Sprintf("%064x", n), name, version, "deb", "", "pkg:deb/debian/"+name+"@"+version, "debian:12", "", "", []byte("{}"))
	}
	err := tx.Insert("packages", []string{
		"id", "fingerprint", "name", "version", "type", "language", "purl", "distro", "licenses", "cpes", "match_input",
	}, values, "")
	if err != nil {
		return err
	}
	err = tx.Execute(`INSERT INTO image_packages (image_pk, package_pk, excluded, locations, own)
		SELECT i.id, (i.id % ?) * ? + k.id, 0, '', '' FROM images i CROSS JOIN packages k WHERE k.id <= ? ORDER BY 1, 2`, bulkBases, bulkBase, bulkBase)
	if err != nil {
		return err
	}
	const rest = bulkPackages - bulkBases*bulkBase
	return tx.Execute(`INSERT INTO image_packages (image_pk, package_pk, excluded, locations, own)
		SELECT i.id, ? + (i.id * 97 + k.id * 163) % ?, 0, '', '' FROM images i CROSS JOIN packages k WHERE k.id <= ? ORDER BY 1, 2`,
		bulkPackages-rest+1, rest, bulkBase)
}

func fillVulnerabilities(tx *txn) error {
	err := tx.Execute(`INSERT INTO generations (number, build_id, schema_version, built, source, engine, previous_build, full_match, state, started_at,
		current_since, queued, matched, opened, closed, changed, images, opened_critical, new_kev)
		VALUES (1, 'build', '6', 1, 'official', 'engine', '', 1, ?, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0)`, string(store.ResultSetCurrent))
	if err != nil {
		return err
	}
	detail := `{"id": %q, "namespace": "debian:distro:debian:12", "description": "` + strings.Repeat("A long description. ", 50) + `"}`
	var rows, details, names []any
	for n := range bulkCVEs + 1 {
		id := bulkID(n)
		rows = append(rows, n+1, id, id, "debian:distro:debian:12", int64(model.Severities()[n%5]), 1, n%1000*1000, n%97*1e6, (n%100)/99, `{"risk": 1}`)
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

func fillFindings(tx *txn) error {
	var values []any
	add := func(n, cve, from int, until int64) {
		values = append(values, n, cve+1, fmt.Sprintf("%032x", cve), from, until, "fixed", n/2%2, `["1.2.3"]`, strings.Repeat("x", 500), 1, 1)
	}
	for n := 2; n <= bulkPackages; n += 2 {
		cve := n * 7919 % bulkCVEs
		add(n, cve, 1, stillOpen)
		add(n, (cve+3571)%bulkCVEs, 1, stillOpen)
		add(n, (cve+1)%bulkCVEs, 0, 1)
	}
	for base := range bulkBases {
		add(base*bulkBase+7, wideCVE, 1, stillOpen)
	}
	return tx.Insert("findings", []string{
		"package_pk", "vulnerability_pk", "digest", "from_gen", "until_gen", "fix_state", "fixable", "fix_versions", "details", "opened_at", "opened_gen",
	}, values, "")
}

func fillHeld(tx *txn) error {
	ids := make([]int64, bulkPackages)
	for i := range ids {
		ids[i] = int64(i) + 1
	}
	return tx.raiseHeld(ids, heldMatched)
}

func fillUses(tx *txn) error {
	var uses, presences []any
	for n := range bulkImages {
		namespace, name := fmt.Sprintf("namespace-%d", n%50), fmt.Sprintf("workload-%d", n%bulkWorkloads)
		uses = append(uses, "scope", n+1, namespace, "Deployment", name, "main")
		for _, times := range [][2]int64{{1, 2}, {3, stillOpen}} {
			presences = append(presences, n+1, fmt.Sprint(n), "", namespace, "Deployment", name, "main", times[0], times[1])
		}
	}
	if err := tx.Insert("image_uses", []string{"scope", "image_pk", "namespace", "kind", "name", "container"}, uses, ""); err != nil {
		return err
	}
	return tx.Insert("image_presences", []string{
		"image_pk", "slot", "cluster", "namespace", "kind", "name", "container", "since", "until_time",
	}, presences, "")
}

// measure reports the median and the 99th percentile of a call that returns how many rows there are, of which there must be some.
func measure(b *testing.B, name string, call func(ctx context.Context) (int, error)) {
	b.Helper()
	b.Run(name, func(b *testing.B) {
		var took []time.Duration
		rows := 0
		for b.Loop() {
			start := time.Now()
			total, err := call(b.Context())
			if err != nil || total == 0 {
				b.Fatalf("got %d rows, %v", total, err)
			}
			took, rows = append(took, time.Since(start)), total
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
		b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		b.ReportMetric(float64(rows), "rows")
		b.ReportMetric(0, "ns/op")
	})
}

// BenchmarkImages10000 reads pages of 10,000 images.
func BenchmarkImages10000(b *testing.B) {
	eachBulk(b, func(b *testing.B, s *Store) {
		b.Helper()
		list := func(name string, query store.ImageQuery) {
			measure(b, name, func(ctx context.Context) (int, error) {
				page, err := s.ListImages(ctx, query)
				return page.Total, err
			})
		}
		list("first", store.ImageQuery{})
		list("worst", store.ImageQuery{Sort: store.SortSeverity})
		middle := store.ImageQuery{Sort: store.SortSeverity, Page: store.Page{Size: store.MaxPageSize}}
		for range 5 {
			page, err := s.ListImages(b.Context(), middle)
			if err != nil {
				b.Fatal(err)
			}
			middle.Token = page.NextToken
		}
		middle.Size = 0
		list("middle", middle)
		list("text", store.ImageQuery{Text: "team-7/"})
		list("severity", store.ImageQuery{MinSeverity: model.SeverityCritical, KEV: true, Sort: store.SortSeverity})
		list("namespace", store.ImageQuery{Where: store.Where{Namespace: "namespace-7"}, Sort: store.SortSeverity})
		list("epss", store.ImageQuery{MinEPSS: 0.99})
	})
}

// BenchmarkSearch looks for vulnerabilities and packages in two million findings of images.
func BenchmarkSearch(b *testing.B) {
	eachBulk(b, func(b *testing.B, s *Store) {
		b.Helper()
		affected := func(name string, query store.AffectedQuery) {
			measure(b, "affected-"+name, func(ctx context.Context) (int, error) {
				page, err := s.Affected(ctx, query)
				return page.Total, err
			})
		}
		affected("now", store.AffectedQuery{ID: bulkID(666)})
		affected("namespace", store.AffectedQuery{ID: bulkID(wideCVE), Where: store.Where{Namespace: "namespace-7"}})
		affected("everywhere", store.AffectedQuery{ID: bulkID(wideCVE)})
		affected("on-a-day", store.AffectedQuery{ID: bulkID(666), On: time.UnixMicro(1)})
		affected("closed", store.AffectedQuery{ID: bulkID(667), Closed: true})
		measure(b, "records", func(ctx context.Context) (int, error) {
			records, err := s.VulnerabilityRecords(ctx, "cve-2026-00666")
			return len(records), err
		})
		vulnerabilities := func(name string, query store.VulnerabilityQuery) {
			measure(b, "vulnerabilities-"+name, func(ctx context.Context) (int, error) {
				page, err := s.ListVulnerabilities(ctx, query)
				return page.Total, err
			})
		}
		vulnerabilities("text", store.VulnerabilityQuery{Text: "2026-0066"})
		vulnerabilities("worst", store.VulnerabilityQuery{})
		vulnerabilities("namespace", store.VulnerabilityQuery{Where: store.Where{Namespace: "namespace-7"}, MinSeverity: model.SeverityHigh})
		packages := func(name string, query store.PackageQuery) {
			measure(b, "packages-"+name, func(ctx context.Context) (int, error) {
				page, err := s.ListPackages(ctx, query)
				return page.Total, err
			})
		}
		older := func(_, version string) bool { return version < "2.5" }
		packages("version", store.PackageQuery{Name: "app-77", Version: older, VersionText: "<2.5"})
		packages("everywhere", store.PackageQuery{Name: "base-77", Version: older, VersionText: "<2.5"})
		packages("text", store.PackageQuery{Text: "APP-77"})
		packages("worst", store.PackageQuery{Sort: store.SortPackageSeverity})
		measure(b, "workloads-worst", func(ctx context.Context) (int, error) {
			page, err := s.ListWorkloads(ctx, store.WorkloadQuery{Sort: store.SortWorkloadSeverity})
			return page.Total, err
		})
	})
}
