package sqlstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// TestMigrateChild opens a database.
func TestMigrateChild(t *testing.T) { openWith(t, crashConfig(t, "TestKilledMigration")) }

// columns describes the tables and views of a database: "table.column" of each.
func columns(t *testing.T, s *Store) []string {
	t.Helper()
	var names []string
	query := `SELECT CONCAT(table_name, '.', column_name) AS c FROM information_schema.columns WHERE table_schema = %s ORDER BY c`
	switch s.db.Dialect().Type() {
	case sqldb.TypeSQLite:
		query = `SELECT m.name || '.' || c.name AS c FROM sqlite_master m JOIN pragma_table_info(m.name) c
			WHERE m.type IN ('table', 'view') AND m.name NOT LIKE 'sqlite_%' ORDER BY c`
	case sqldb.TypePostgres:
		query = strings.Replace(fmt.Sprintf(query, "CURRENT_SCHEMA()"), "ORDER BY c", `ORDER BY CONCAT(table_name, '.', column_name) COLLATE "C"`, 1)
	default:
		query = strings.Replace(fmt.Sprintf(query, "DATABASE()"), "ORDER BY c", "ORDER BY CAST(c AS BINARY)", 1)
	}
	if err := s.db.Reader().Raw(query).Scan(&names).Error; err != nil || len(names) == 0 {
		t.Fatalf("%d columns, %v", len(names), err)
	}
	var ours []string
	for _, name := range names {
		if table, _, _ := strings.Cut(name, "."); table != sqldb.MigrationTable && table != "writer_lock" {
			ours = append(ours, name)
		}
	}
	return ours
}

// TestSchemasAgree compares the tables, the views and their columns with those of sqlite.
func TestSchemasAgree(t *testing.T) {
	want := columns(t, openAt(t, filepath.Join(t.TempDir(), "schema.db")))
	eachEmptyServer(t, func(t *testing.T, config Config) {
		if diff := cmp.Diff(want, columns(t, openWith(t, config))); diff != "" {
			t.Error(diff)
		}
	})
}

// TestOpenAtOnce opens an empty database as several processes do that start together.
func TestOpenAtOnce(t *testing.T) {
	eachEmptyServer(t, func(t *testing.T, config Config) {
		var group sync.WaitGroup
		for range 5 {
			group.Go(func() {
				s, err := Open(t.Context(), config)
				if err != nil {
					t.Error(err)
					return
				}
				if err := errors.Join(s.Ready(t.Context()), s.Close()); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		checkVersions(t, openWith(t, config))
	})
}

// checkVersions expects that each migration was noted once.
func checkVersions(t *testing.T, s *Store) {
	t.Helper()
	var versions []int64
	if err := s.db.Reader().Raw("SELECT version_id FROM " + sqldb.MigrationTable + " ORDER BY version_id").Scan(&versions).Error; err != nil {
		t.Fatal(err)
	}
	want := make([]int64, s.db.Schema()+1)
	for i := range want {
		want[i] = int64(i)
	}
	if diff := cmp.Diff(want, versions); diff != "" {
		t.Error(diff)
	}
}

// TestKilledMigration kills processes that migrate, and expects that the one which is left alone comes to the end.
func TestKilledMigration(t *testing.T) {
	eachEmptyServer(t, func(t *testing.T, config Config) {
		// MySQL has ten times as many migrations, since it cannot roll back a part of one.
		requests, notes := 25, 1
		if config.Type == sqldb.TypeMySQL {
			requests, notes = budget(requests, 150), budget(notes, 8)
		}
		t.Run("anywhere", func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
			left, step := 0, 25 // The first process is killed early: none ends before that.
			killMigrations(t, Config{Type: config.Type, DSN: servers[config.Type].empty(t)}, func() func([]byte) action {
				// Each comes a few requests further than the previous one.
				left += 1 + random.IntN(step)
				step = requests
				seen, how := 0, []action{cutBefore, cutAfter}[random.IntN(2)]
				return func([]byte) action {
					if seen++; seen < left {
						return pass
					}
					return how
				}
			})
		})
		t.Run("before each step is noted", func(t *testing.T) {
			note := map[string]string{sqldb.TypePostgres: "commit\x00", sqldb.TypeMySQL: "INSERT INTO " + sqldb.MigrationTable + " (version_id, is_applied) VALUES"}[config.Type]
			killMigrations(t, config, func() func([]byte) action {
				noted := 0
				return func(request []byte) action {
					if !bytes.Contains(request, []byte(note)) {
						return pass
					}
					// The first is what the previous process was kept from.
					if noted++; noted <= notes {
						return pass
					}
					return cutBefore
				}
			})
		})
	})
}

// killMigrations lets one process after the other migrate, and kills each when its action says so.
func killMigrations(t *testing.T, config Config, next func() func([]byte) action) {
	t.Helper()
	far, p := throughProxy(t, config)
	killed := 0
	for {
		command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMigrateChild$")
		command.Env = append(os.Environ(), crashEnv+"="+far.Type+" "+far.DSN)
		started, decision, wasKilled := make(chan struct{}), next(), false
		p.decide(func(request []byte) action {
			<-started
			v := decision(request)
			if v != pass {
				wasKilled = true
				_ = command.Process.Kill() // It may be dead.
			}
			return v
		})
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		close(started)
		err := command.Wait()
		p.decide(nil)
		if err == nil {
			break
		}
		if !wasKilled {
			t.Fatalf("the child failed by itself: %v", err)
		}
		killed++
	}
	t.Logf("killed %d times", killed)
	if killed == 0 {
		t.Error("no child was killed")
	}
	s := openWith(t, config)
	checkVersions(t, s)
	want := columns(t, openAt(t, filepath.Join(t.TempDir(), "schema.db")))
	if diff := cmp.Diff(want, columns(t, s)); diff != "" {
		t.Error(diff)
	}
	if err := wantOne(t.Context(), s, 1); err != nil {
		t.Error(err)
	}
}

// TestMigrationWaits holds the lock as another process does that migrates. Its name is the same in all versions of the program.
func TestMigrationWaits(t *testing.T) {
	locks := map[string]struct{ hold, release string }{
		sqldb.TypePostgres: {"SELECT pg_advisory_lock(7263510002)", "SELECT pg_advisory_unlock(7263510002)"},
		sqldb.TypeMySQL: {
			"SELECT GET_LOCK(CONCAT('scanner-operator:', LEFT(SHA2(DATABASE(), 256), 40)), 0)",
			"SELECT RELEASE_LOCK(CONCAT('scanner-operator:', LEFT(SHA2(DATABASE(), 256), 40)))",
		},
	}
	eachServer(t, func(t *testing.T, config Config) {
		openWith(t, config)
		holder, err := openServer(t, config).Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = holder.Close() }()
		if _, err := holder.ExecContext(t.Context(), locks[config.Type].hold); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if _, err := Open(ctx, config); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		opened := make(chan error)
		go func() {
			s, err := Open(t.Context(), config)
			if err == nil {
				err = s.Close()
			}
			opened <- err
		}()
		if _, err := holder.ExecContext(t.Context(), locks[config.Type].release); err != nil {
			t.Fatal(err)
		}
		if err := <-opened; err != nil {
			t.Error(err)
		}
	})
}

// TestNewerSchemaOnServer is refused like a newer sqlite file.
func TestNewerSchemaOnServer(t *testing.T) {
	eachServer(t, func(t *testing.T, config Config) {
		s := openWith(t, config)
		if err := s.db.Writer().Exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)").Error; err != nil {
			t.Fatal(err)
		}
		if err := s.Ready(t.Context()); !errors.Is(err, store.ErrSchemaTooNew) {
			t.Errorf("Ready: got %v, want ErrSchemaTooNew", err)
		}
		if _, err := Open(t.Context(), config); !errors.Is(err, store.ErrSchemaTooNew) || !strings.Contains(err.Error(), "99999") {
			t.Errorf("Open: got %v, want ErrSchemaTooNew", err)
		}
	})
}
