package sqldb

import (
	"errors"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"
)

// things is a migration for every type of database.
var things = fstest.MapFS{"sqlite/00001_things.sql": {Data: []byte("-- +goose Up\nCREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT NOT NULL);\n")}}

func openThings(t *testing.T) *DB {
	t.Helper()
	db, err := Open(t.Context(), Config{DSN: filepath.Join(t.TempDir(), "test.db"), Migrations: things})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// TestMigrationLockIsBounded never gets the lock.
func TestMigrationLockIsBounded(t *testing.T) {
	db := openThings(t)
	taken := sessionLock{try: "SELECT 0", release: "SELECT 0", wait: 2 * migrationProbe}
	start := time.Now()
	err := lockOnce(t.Context(), db.session.Load().writer, taken)
	if !errors.Is(err, ErrUnavailable) || !errors.Is(err, errMigrating) || time.Since(start) < taken.wait {
		t.Errorf("got %v after %s", err, time.Since(start))
	}
}
