package sqlstore

import (
	"path/filepath"
	"testing"

	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest/dbserver"
)

// servers are the databases that several processes can share. database makes an empty one for a test.
var servers = map[string]struct {
	database func(testing.TB) string
	own      func(testing.TB) *dbserver.Server
}{
	TypePostgres: {dbserver.PostgreSQL, dbserver.OwnPostgreSQL},
	TypeMySQL:    {dbserver.MariaDB, dbserver.OwnMariaDB},
}

// eachServer runs a test with an empty database of each server.
func eachServer(t *testing.T, test func(t *testing.T, config Config)) {
	t.Helper()
	for name, server := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, Config{Type: name, DSN: server.database(t)})
		})
	}
}

// eachDatabase is eachServer and sqlite.
func eachDatabase(t *testing.T, test func(t *testing.T, config Config)) {
	t.Helper()
	t.Run(TypeSQLite, func(t *testing.T) {
		t.Parallel()
		test(t, Config{Type: TypeSQLite, DSN: filepath.Join(t.TempDir(), "test.db")})
	})
	eachServer(t, test)
}

func suite(t *testing.T, name string) {
	t.Helper()
	storetest.Run(t, func(t *testing.T, clk clock.PassiveClock) store.Store {
		return openWith(t, Config{Type: name, DSN: servers[name].database(t), Clock: clk, MaxOpenConns: 8})
	})
}

func TestPostgres(t *testing.T) { suite(t, TypePostgres) }

func TestMySQL(t *testing.T) { suite(t, TypeMySQL) }

func TestTwoStores(t *testing.T) {
	for name, server := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.RunShared(t, func(t *testing.T) [2]store.Store {
				config := Config{Type: name, DSN: server.database(t), MaxOpenConns: 8}
				return [2]store.Store{openWith(t, config), openWith(t, config)}
			})
		})
	}
}
