package dbserver

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
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

func TestDataDir(t *testing.T) {
	for name, c := range map[string]struct {
		benchmarks bool
		available  uint64
		want       string
	}{
		"enough memory":    {available: minMemory, want: memoryDir},
		"little memory":    {available: minMemory - 1, want: os.TempDir()},
		"of an unknown OS": {want: os.TempDir()},
		"large databases":  {benchmarks: true, available: 10 * minMemory, want: os.TempDir()},
	} {
		if got := dataDirOf(c.benchmarks, c.available); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestTemplate copies tables, rows and views, and no more than once what Prepare does.
func TestTemplate(t *testing.T) {
	drivers := map[string]string{"PostgreSQL": "pgx", "MariaDB": "mysql"}
	prepared := map[string]int{}
	var mu sync.Mutex
	c := &Template{}
	c.Prepare = func(ctx context.Context, dsn string) error {
		mu.Lock()
		defer mu.Unlock()
		driver := "mysql"
		if strings.HasPrefix(dsn, "postgres:") {
			driver = "pgx"
		}
		prepared[driver]++
		db, err := sql.Open(driver, dsn)
		if err != nil {
			return err
		}
		for _, statement := range []string{
			"CREATE TABLE parents (id INTEGER PRIMARY KEY, name VARCHAR(20) UNIQUE)",
			"CREATE TABLE children (parent INTEGER NOT NULL REFERENCES parents (id) ON DELETE CASCADE)",
			"CREATE VIEW names AS SELECT p.name FROM children c JOIN parents p ON p.id = c.parent",
			"INSERT INTO parents VALUES (1, 'a'), (2, 'b')", "INSERT INTO children VALUES (2)",
		} {
			if _, err := db.ExecContext(ctx, statement); err != nil {
				return fmt.Errorf("%s: %w", statement, err)
			}
		}
		return db.Close()
	}
	for name, database := range map[string]func(testing.TB) string{"PostgreSQL": c.PostgreSQL, "MariaDB": c.MariaDB} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				db, err := sql.Open(drivers[name], database(t))
				if err != nil {
					t.Fatal(err)
				}
				var found string
				if err := db.QueryRowContext(t.Context(), "SELECT name FROM names").Scan(&found); err != nil || found != "b" {
					t.Errorf("got %q, %v", found, err)
				}
				if _, err := db.ExecContext(t.Context(), "INSERT INTO parents VALUES (3, 'a')"); err == nil {
					t.Error("the unique column is gone")
				}
				if _, err := db.ExecContext(t.Context(), "DELETE FROM parents"); err != nil {
					t.Error(err)
				}
				if err := db.QueryRowContext(t.Context(), "SELECT name FROM names").Scan(&found); !errors.Is(err, sql.ErrNoRows) {
					t.Errorf("got %v: the foreign key is gone", err)
				}
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			}
			if got := prepared[drivers[name]]; got > 1 {
				t.Errorf("prepared %d times", got)
			}
		})
	}
}
