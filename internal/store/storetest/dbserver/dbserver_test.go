package dbserver

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(Main{m}) }

func TestServers(t *testing.T) {
	for name, c := range map[string]struct {
		database func(testing.TB) string
		own      func(testing.TB) *Server
	}{
		"PostgreSQL": {PostgreSQL, OwnPostgreSQL}, "MariaDB": {MariaDB, OwnMariaDB},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if first, second := c.database(t), c.database(t); first == second {
				t.Errorf("two tests share %s", first)
			}
			server := c.own(t)
			server.Stop(t)
			if err := server.ping(t.Context(), server.port); err == nil {
				t.Error("a stopped server answers")
			}
			server.Start(t)
			server.Kill(t)
			server.Start(t)
			// The database has outlived both.
			if _, err := server.createDatabase(t.Context(), server.port, "test"); err == nil {
				t.Error("the database is gone")
			}
		})
	}
}
