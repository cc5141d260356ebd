package vulndb_test

import (
	"database/sql"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/glebarez/sqlite"

	"github.com/scanner-operator/scanner-operator/internal/vulndb"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/dbtest"
)

// BenchmarkCompare compares a database with one that differs in a hundredth of its packages. SCANNER_BENCH_DATABASE names an
// archive or a folder of a database to take instead of the shared one, SCANNER_BENCH_COPIES how many times its records are put
// into it under other names: with 20 the shared one has the size of the official one, a gigabyte.
func BenchmarkCompare(b *testing.B) {
	from := benchDatabase(b)
	to := dbtest.Mutate(b, from, 1, dbtest.Fraction(0.01)...)
	info, err := os.Stat(databaseFile(from))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(2 * info.Size())
	b.ResetTimer()
	var difference *vulndb.Difference
	peak := watchHeap(func() {
		for b.Loop() {
			if difference, err = vulndb.Compare(b.Context(), from, to); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.ReportMetric(float64(peak)/1e6, "peak-MB")
	b.ReportMetric(float64(info.Size())/1e6, "file-MB")
	b.Logf("%+v", difference.Summary())
}

// watchHeap is the most that was on the heap while something ran, in bytes, beyond what was there before.
func watchHeap(run func()) uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	before, peak := m.HeapAlloc, uint64(0)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapAlloc)
			select {
			case <-done:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	run()
	close(done)
	<-ended
	return peak - min(peak, before)
}

func benchDatabase(b *testing.B) vulndb.Installed {
	b.Helper()
	copies, _ := strconv.Atoi(os.Getenv("SCANNER_BENCH_COPIES"))
	given := os.Getenv("SCANNER_BENCH_DATABASE")
	if given == "" {
		return inflate(b, dbtest.Shared(b), copies)
	}
	library, err := vulndb.New(vulndb.Config{Dir: b.TempDir(), UpdateURL: vulndb.UpdateURLNone})
	if err != nil {
		b.Fatal(err)
	}
	installed, err := library.Import(b.Context(), given)
	if err != nil {
		b.Fatal(err)
	}
	return inflate(b, installed, copies)
}

// inflate adds copies of all records to a copy of a database, each under names of its own. Indexes are left out.
func inflate(b *testing.B, installed vulndb.Installed, copies int) vulndb.Installed {
	b.Helper()
	if copies < 1 {
		return installed
	}
	out := dbtest.Mutate(b, installed, 1)
	db, err := sql.Open(sqlite.DriverName, databaseFile(out)+"?_pragma=journal_mode(OFF)&_pragma=synchronous(OFF)")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	rows, err := db.QueryContext(b.Context(), "SELECT 'DROP INDEX ' || name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var statements []string
	for rows.Next() {
		var statement string
		if err := rows.Scan(&statement); err != nil {
			b.Fatal(err)
		}
		statements = append(statements, statement)
	}
	if err := rows.Err(); err != nil {
		b.Fatal(err)
	}
	_ = rows.Close()
	for _, table := range []string{"blobs", "vulnerability_handles", "packages", "cpes", "affected_package_handles", "affected_cpe_handles", "epss_handles"} {
		statements = append(statements, fmt.Sprintf("CREATE TEMP TABLE copy_%s AS SELECT * FROM %s", table, table))
	}
	for n := 1; n <= copies; n++ {
		by := func(table string) string { return fmt.Sprintf("%d * (SELECT MAX(id) FROM copy_%s)", n, table) }
		blob, vulnerability := by("blobs"), by("vulnerability_handles")
		statements = append(statements,
			"INSERT INTO blobs SELECT id + "+blob+", value || ' ' FROM copy_blobs",
			fmt.Sprintf("INSERT INTO vulnerability_handles SELECT id + %s, name || '-%d', status, published_date, modified_date, "+
				"withdrawn_date, provider_id, blob_id + %s FROM copy_vulnerability_handles", vulnerability, n, blob),
			fmt.Sprintf("INSERT INTO packages SELECT id + %s, ecosystem, name || '-%d' FROM copy_packages", by("packages"), n),
			fmt.Sprintf("INSERT INTO cpes SELECT id + %s, part, vendor, product || '-%d', edition, language, software_edition, "+
				"target_hardware, target_software, other FROM copy_cpes", by("cpes"), n),
			fmt.Sprintf("INSERT INTO affected_package_handles SELECT id + %s, vulnerability_id + %s, operating_system_id, "+
				"package_id + %s, blob_id + %s FROM copy_affected_package_handles", by("affected_package_handles"), vulnerability, by("packages"), blob),
			fmt.Sprintf("INSERT INTO affected_cpe_handles SELECT id + %s, vulnerability_id + %s, cpe_id + %s, blob_id + %s FROM "+
				"copy_affected_cpe_handles", by("affected_cpe_handles"), vulnerability, by("cpes"), blob),
			fmt.Sprintf("INSERT INTO epss_handles SELECT id + %s, cve || '-%d', epss, percentile FROM copy_epss_handles", by("epss_handles"), n),
		)
	}
	for _, statement := range statements {
		if _, err := db.ExecContext(b.Context(), statement); err != nil {
			b.Fatalf("%s: %v", statement, err)
		}
	}
	return out
}
