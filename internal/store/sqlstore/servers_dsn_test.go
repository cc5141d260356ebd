package sqlstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// TestDSNForms opens databases by all forms, with parameters that must not matter.
func TestDSNForms(t *testing.T) {
	for name, forms := range map[string]func(dsn, address, database string) []string{
		sqldb.TypePostgres: func(_, address, database string) []string {
			host, port, _ := strings.Cut(address, ":")
			return []string{
				fmt.Sprintf("postgres://postgres:any%%2F%%40@%s/%s", address, database),
				fmt.Sprintf("postgresql://postgres@%s/%s?sslmode=prefer&timezone=Asia/Tokyo&lock_timeout=1&statement_timeout=0&synchronous_commit=off", address, database),
				fmt.Sprintf("host=%s port=%s user=postgres password='any' dbname=%s sslmode=disable TimeZone=Asia/Tokyo", host, port, database),
				fmt.Sprintf("host=%s port=%s user=postgres dbname=%s default_transaction_isolation=serializable default_query_exec_mode=simple_protocol "+
					"client_encoding=LATIN1 connect_timeout=0", host, port, database),
			}
		},
		sqldb.TypeMySQL: func(_, address, database string) []string {
			return []string{
				fmt.Sprintf("root@tcp(%s)/%s", address, database),
				fmt.Sprintf("root:@tcp(%s)/%s?charset=utf8mb4&parseTime=True&loc=Local", address, database),
				fmt.Sprintf("root@tcp(%s)/%s?charset=latin1&collation=latin1_swedish_ci&clientFoundRows=false&multiStatements=true&readTimeout=1ms&"+
					"interpolateParams=false&time_zone=%%27%%2B09%%3A00%%27&sql_mode=%%27ANSI_QUOTES,NO_BACKSLASH_ESCAPES%%27&maxAllowedPacket=1024",
					address, database),
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := servers[name].empty(t)
			_, address, _ := strings.Cut(dsn, "127.0.0.1:")
			end := strings.IndexAny(address, ")/")
			database, _, _ := strings.Cut(strings.TrimLeft(address[end:], ")/"), "?")
			for n, form := range forms(dsn, "127.0.0.1:"+address[:end], database) {
				s := openWith(t, Config{Type: name, DSN: form})
				key := lostKey(n)
				if err := wantOne(t.Context(), s, n); err != nil {
					t.Fatalf("%s: %v", form, err)
				}
				// A quotation mark, a backslash and letters beyond Latin-1, and the same row again.
				for range 2 {
					name := `it's \ "Ω🦀` + strings.Repeat("x", 3000)
					catalog := model.Catalog{Packages: []model.HeldPackage{{Package: model.Package{Fingerprint: fmt.Sprint(n), Name: name}}}}
					if err := s.SaveSBOM(t.Context(), key, store.SBOM{SHA256: "1", Content: []byte("'\\\x00\xff")}, catalog); err != nil {
						t.Fatalf("%s: %v", form, err)
					}
					err := s.Packages(t.Context(), store.AllNamespaces(), key, func(held model.HeldPackage) error {
						if held.Package.Name != sqldb.Truncate(name, maxName) {
							t.Errorf("%s: got %q", form, held.Package.Name)
						}
						return nil
					})
					if err != nil {
						t.Errorf("%s: %v", form, err)
					}
				}
				checkSession(t, s, form)
			}
		})
	}
}

// checkSession looks at settings of connections that the store relies on.
func checkSession(t *testing.T, s *Store, form string) {
	t.Helper()
	settings := map[string]string{
		"SELECT current_setting('TimeZone')": "UTC", "SELECT current_setting('client_encoding')": "UTF8", "SELECT current_setting('lock_timeout')": "30s",
		"SELECT current_setting('synchronous_commit')": "on",
	}
	if s.db.Dialect().Type() == sqldb.TypeMySQL {
		settings = map[string]string{
			"SELECT @@time_zone": "+00:00", "SELECT @@character_set_client": "utf8mb4", "SELECT @@collation_connection": "utf8mb4_bin",
			"SELECT @@innodb_lock_wait_timeout": "30", "SELECT @@sql_mode": "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION",
		}
	}
	for _, pool := range pools(t, s) {
		for query, want := range settings {
			var got string
			if err := pool.QueryRowContext(t.Context(), query).Scan(&got); err != nil || got != want {
				t.Errorf("%s: %s: got %q, %v, want %q", form, query, got, err, want)
			}
		}
	}
}

// TestWriterWaits holds the lock of writers as another process does.
func TestWriterWaits(t *testing.T) {
	eachServer(t, func(t *testing.T, config Config) {
		other := openWith(t, config)
		config, p := throughProxy(t, config)
		s := openWith(t, config)
		holds, release := make(chan struct{}), make(chan struct{})
		held := make(chan error)
		go func() {
			held <- other.write(t.Context(), "hold", func(*txn) error {
				close(holds)
				<-release
				return nil
			})
		}()
		<-holds
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if err := wantOne(ctx, s, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the deadline", err)
		}
		if _, err := s.ListImages(t.Context(), store.AllNamespaces(), store.ImageQuery{}); err != nil {
			t.Errorf("readers must not wait: %v", err)
		}
		// Too long a wait for the database is one of those that are tried again.
		shorten := map[string]string{sqldb.TypePostgres: "SET lock_timeout = 50", sqldb.TypeMySQL: "SET innodb_lock_wait_timeout = 1"}[config.Type]
		if err := s.db.Writer().Exec(shorten).Error; err != nil {
			t.Fatal(err)
		}
		tries, again := 0, make(chan struct{})
		p.decide(func(request []byte) action {
			if bytes.Contains(request, []byte("pg_advisory_xact_lock")) || bytes.Contains(request, []byte("FOR UPDATE")) {
				if tries++; tries == 2 {
					close(again)
				}
			}
			return pass
		})
		written := make(chan error)
		go func() { written <- wantOne(t.Context(), s, 1) }()
		select {
		case <-again:
		case <-time.After(enough):
			t.Error("a lock that is waited for too long is not tried again")
		}
		close(release)
		if err := errors.Join(<-held, <-written); err != nil {
			t.Error(err)
		}
	})
}
