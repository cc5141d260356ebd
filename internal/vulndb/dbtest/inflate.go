package dbtest

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"

	v6 "github.com/anchore/grype/grype/db/v6"
	"github.com/glebarez/sqlite"

	"github.com/scanner-operator/scanner-operator/internal/vulndb"
)

// Inflate adds copies of all records to a copy of a database, each under names of its own, and returns it as a build of its
// own. With 15 copies the shared one has the size of the official one, a gigabyte.
func Inflate(tb testing.TB, installed vulndb.Installed, copies int) vulndb.Installed {
	tb.Helper()
	out := Mutate(tb, installed, 1)
	file := filepath.Join(out.SQLiteDir(), v6.VulnerabilityDBFileName)
	db, err := sql.Open(sqlite.DriverName, file+"?_pragma=journal_mode(OFF)&_pragma=synchronous(OFF)&_pragma=cache_size(-200000)")
	if err != nil {
		tb.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	if err := inflate(tb.Context(), db, copies); err != nil {
		tb.Fatal(err)
	}
	if err := db.Close(); err != nil {
		tb.Fatal(err)
	}
	return sealed(tb, out)
}

// inflate takes the indexes away while it writes, which is many times faster.
func inflate(ctx context.Context, db *sql.DB, copies int) error {
	drop, create, err := indexes(ctx, db)
	if err != nil {
		return err
	}
	statements := drop
	for _, table := range []string{
		"blobs", "vulnerability_handles", "packages", "cpes", "affected_package_handles", "affected_cpe_handles", "epss_handles",
	} {
		statements = append(statements, fmt.Sprintf("CREATE TEMP TABLE copy_%s AS SELECT * FROM %s", table, table))
	}
	for n := 1; n <= copies; n++ {
		statements = append(statements, copyOf(n)...)
	}
	// The planner needs the statistics that went away with the indexes.
	statements = append(append(statements, create...), "ANALYZE")
	for _, statement := range statements {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// indexes returns the statements that drop all indexes, and those that make them again.
func indexes(ctx context.Context, db *sql.DB) (drop, create []string, err error) {
	rows, err := db.QueryContext(ctx, "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL")
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var name, statement string
		if err := rows.Scan(&name, &statement); err != nil {
			return nil, nil, err
		}
		drop, create = append(drop, "DROP INDEX "+name), append(create, statement)
	}
	return drop, create, rows.Err()
}

// copyOf adds the n-th copy of all records.
func copyOf(n int) []string {
	by := func(table string) string { return fmt.Sprintf("%d * (SELECT MAX(id) FROM copy_%s)", n, table) }
	blob, vulnerability, pkg, cpe := by("blobs"), by("vulnerability_handles"), by("packages"), by("cpes")
	return []string{
		"INSERT INTO blobs SELECT id + " + blob + ", value || ' ' FROM copy_blobs",
		fmt.Sprintf("INSERT INTO vulnerability_handles SELECT id + %s, name || '-%d', status, published_date, modified_date, "+
			"withdrawn_date, provider_id, blob_id + %s FROM copy_vulnerability_handles", vulnerability, n, blob),
		fmt.Sprintf("INSERT INTO packages SELECT id + %s, ecosystem, name || '~%d' FROM copy_packages", pkg, n),
		fmt.Sprintf("INSERT INTO cpes SELECT id + %s, part, vendor, product || '~%d', edition, language, software_edition, "+
			"target_hardware, target_software, other FROM copy_cpes", cpe, n),
		fmt.Sprintf("INSERT INTO affected_package_handles SELECT id + %s, vulnerability_id + %s, operating_system_id, "+
			"package_id + %s, blob_id + %s FROM copy_affected_package_handles", by("affected_package_handles"), vulnerability, pkg, blob),
		fmt.Sprintf("INSERT INTO affected_cpe_handles SELECT id + %s, vulnerability_id + %s, cpe_id + %s, blob_id + %s FROM "+
			"copy_affected_cpe_handles", by("affected_cpe_handles"), vulnerability, cpe, blob),
		fmt.Sprintf("INSERT INTO epss_handles SELECT id + %s, cve || '-%d', epss, percentile FROM copy_epss_handles",
			by("epss_handles"), n),
	}
}
