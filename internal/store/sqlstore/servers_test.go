package sqlstore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest/dbserver"
)

// migratedServers have the newest schema: migrations take longer than most tests.
var migratedServers = dbserver.Template{Prepare: func(ctx context.Context, dsn string) error {
	config := Config{Type: sqldb.TypeMySQL, DSN: dsn}
	if strings.HasPrefix(dsn, "postgres:") {
		config.Type = sqldb.TypePostgres
	}
	s, err := Open(ctx, config)
	if err != nil {
		return err
	}
	return s.Close()
}}

// servers are the databases that several processes can share. empty and migrated make one for a test, without and with the schema.
var servers = map[string]struct {
	empty, migrated func(testing.TB) string
	own             func(testing.TB) *dbserver.Server
}{
	sqldb.TypePostgres: {dbserver.PostgreSQL, migratedServers.PostgreSQL, dbserver.OwnPostgreSQL},
	sqldb.TypeMySQL:    {dbserver.MariaDB, migratedServers.MariaDB, dbserver.OwnMariaDB},
}

// migratedFile is the content of an sqlite database with the newest schema.
var migratedFile = sync.OnceValues(func() (content []byte, err error) {
	dir, err := os.MkdirTemp("", "migrated")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "test.db")
	s, err := Open(context.Background(), Config{DSN: path})
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// migrated returns the path of a new sqlite database with the newest schema.
func migrated(t *testing.T) string {
	t.Helper()
	content, err := migratedFile()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "test.db")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// eachServer runs a test with a migrated database of each server.
func eachServer(t *testing.T, test func(t *testing.T, config Config)) {
	t.Helper()
	for name, server := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, Config{Type: name, DSN: server.migrated(t)})
		})
	}
}

// eachEmptyServer runs a test with a database of each server that has no schema yet.
func eachEmptyServer(t *testing.T, test func(t *testing.T, config Config)) {
	t.Helper()
	for name, server := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, Config{Type: name, DSN: server.empty(t)})
		})
	}
}

// eachDatabase runs a test with a migrated database of each kind. Servers plan statements as they usually do.
func eachDatabase(t *testing.T, test func(t *testing.T, config Config)) {
	t.Helper()
	for _, name := range []string{sqldb.TypeSQLite, sqldb.TypePostgres, sqldb.TypeMySQL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, near(t, name))
		})
	}
}

// fewPlans are settings with which PostgreSQL plans a statement once for each connection, and joins tables in the order of the statement. To look
// for better plans took most of the suite's time, and its tables have few rows.
const fewPlans = "plan_cache_mode=force_generic_plan&join_collapse_limit=1&from_collapse_limit=1"

// cheap is the configuration of a migrated database. PostgreSQL has fewPlans, except with the race detector, which tests what is concurrent.
func cheap(t *testing.T, name string) Config {
	t.Helper()
	config := near(t, name)
	if name == sqldb.TypePostgres && !storetest.UnderRace {
		config.DSN += "&" + fewPlans
	}
	return config
}

// near is the configuration of a migrated database whose server is reached by its Unix socket, except with the race detector: statements take less processor
// time than over TCP.
func near(t *testing.T, name string) Config {
	t.Helper()
	if name == sqldb.TypeSQLite {
		return Config{Type: name, DSN: migrated(t)}
	}
	config := Config{Type: name, DSN: servers[name].migrated(t)}
	if storetest.UnderRace {
		return config
	}
	dsn, err := dbserver.OverSocket(config.DSN)
	if err != nil {
		t.Fatal(err)
	}
	config.DSN = dsn
	return config
}

// extentOn is how much of random tests runs with a database.
func extentOn(name string) storetest.Extent {
	switch {
	case os.Getenv(fullEnv) != "" || name == sqldb.TypeSQLite:
		return storetest.Extent{}
	case name == sqldb.TypePostgres:
		return storetest.Extent{SomeReads: true, Shares: 2, Share: 0}
	default:
		return storetest.Extent{SomeReads: true, Shares: 2, Share: 1}
	}
}

// suite runs the whole suite, or, under the race detector, what is concurrent. "make test-plain" runs the whole one, and "make test-race" that.
func suite(t *testing.T, extent storetest.Extent, config func(t *testing.T) Config) {
	t.Helper()
	t.Parallel()
	open := func(t *testing.T, clk clock.PassiveClock) store.Store {
		config := config(t)
		config.Clock, config.BaseImages = clk, storetest.BaseImages()
		s := openWith(t, config)
		s.fewImages, s.fewUpdates, s.manyPackages, s.fewChosen = 1, 1, 2, 1 // So that lists of some images are read in both ways.
		s.lackPart, s.holdersPerImage, s.maxClasses = 2, 1, 1
		t.Cleanup(func() { checkHeld(t, s) })
		return s
	}
	if storetest.UnderRace {
		storetest.RunConcurrent(t, open)
	} else {
		storetest.Run(t, extent, open)
	}
}

func TestSQLite(t *testing.T) {
	suite(t, extentOn(sqldb.TypeSQLite), func(t *testing.T) Config { return Config{DSN: migrated(t)} })
}

func TestPostgres(t *testing.T) { serverSuite(t, sqldb.TypePostgres) }

func TestMySQL(t *testing.T) { serverSuite(t, sqldb.TypeMySQL) }

// serverSuite has the random tests read less than on SQLite after each step, and run half of their seeds. What is asked is the same, and so are most statements.
// "make test-full" runs all seeds, and reads everything.
func serverSuite(t *testing.T, name string) {
	t.Helper()
	suite(t, extentOn(name), func(t *testing.T) Config {
		t.Helper()
		config := cheap(t, name)
		config.MaxOpenConns = 8
		return config
	})
}

func TestTwoStores(t *testing.T) {
	for name, server := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.RunShared(t, func(t *testing.T) [2]store.Store {
				config := Config{Type: name, DSN: server.migrated(t), MaxOpenConns: 8}
				return [2]store.Store{openWith(t, config), openWith(t, config)}
			})
		})
	}
}
