package sqlstore

import (
	"database/sql"
	"flag"
	"io/fs"
	"net/url"
	"os"
	"testing"

	"github.com/glebarez/sqlite"
	"github.com/pressly/goose/v3"
	"go.uber.org/goleak"

	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest/dbserver"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		// So that both ways are taken.
		maxClosedHere, maxDividing, maxSharedLayers, fewSharedLayers, maxNamedFindings, maxFixImages, maxFixPackages, maxExposed = 2, 6, 6, 3, 2, 6, 12, 3
	}
	goleak.VerifyTestMain(dbserver.Main{M: m})
}

// fullEnv has the tests that kill and interrupt do so at every point, and random tests run all seeds on each database, as "make test-full" does.
const fullEnv = "SCANNER_TEST_FULL"

// budget is how often a test repeats something: in full only where fullEnv asks for it.
func budget(full, sample int) int {
	if os.Getenv(fullEnv) == "" {
		return sample
	}
	return full
}

func openAt(t *testing.T, path string) *Store {
	t.Helper()
	return openWith(t, Config{DSN: path})
}

func openWith(t *testing.T, config Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// openFile opens an sqlite database past the store, as a program beside it does.
func openFile(t *testing.T, path string) *sql.DB {
	t.Helper()
	values := url.Values{"_pragma": {"busy_timeout(250)", "journal_mode(WAL)", "foreign_keys(ON)"}, "_txlock": {"immediate"}}
	return openPool(t, sqlite.DriverName, "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+values.Encode())
}

// openServer connects to a database on a server past the store.
func openServer(t *testing.T, config Config) *sql.DB {
	t.Helper()
	return openPool(t, map[string]string{sqldb.TypePostgres: "pgx", sqldb.TypeMySQL: "mysql"}[config.Type], config.DSN)
}

// openPool closes the pool at the end of the test at the latest.
func openPool(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	pool, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	return pool
}

// pools are those of a store.
func pools(t *testing.T, s *Store) map[string]*sql.DB {
	t.Helper()
	writer, err := s.db.Writer().DB()
	if err != nil {
		t.Fatal(err)
	}
	reader, err := s.db.Reader().DB()
	if err != nil {
		t.Fatal(err)
	}
	return map[string]*sql.DB{"writer": writer, "reader": reader}
}

// migrator migrates a database of a type to any version.
func migrator(t *testing.T, pool *sql.DB, databaseType string) *goose.Provider {
	t.Helper()
	dialect := map[string]goose.Dialect{
		sqldb.TypeSQLite: goose.DialectSQLite3, sqldb.TypePostgres: goose.DialectPostgres, sqldb.TypeMySQL: goose.DialectMySQL,
	}[databaseType]
	files, err := fs.Sub(migrationFiles, "migrations/"+databaseType)
	if err != nil {
		t.Fatal(err)
	}
	provider, err := goose.NewProvider(dialect, pool, files, goose.WithDisableGlobalRegistry(true), goose.WithTableName(sqldb.MigrationTable))
	if err != nil {
		t.Fatal(err)
	}
	return provider
}
