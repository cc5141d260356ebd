package sqlstore

import (
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/store/storetest/dbserver"
)

// TestOtherStoresAreTold has two stores on one database.
func TestOtherStoresAreTold(t *testing.T) {
	config := Config{Type: TypePostgres, DSN: dbserver.PostgreSQL(t)}
	writer, reader := openWith(t, config), openWith(t, config)
	told := func(n int) {
		t.Helper()
		timeout := time.After(enough)
		for {
			changed := reader.Changed()
			events, err := reader.EventsSince(t.Context(), int64(n-1), 10)
			if err != nil {
				t.Fatal(err)
			}
			if len(events) > 0 {
				return
			}
			select {
			case <-changed:
			case <-timeout:
				t.Fatalf("nobody told of event %d", n)
			}
		}
	}
	for n := 1; n <= 3; n++ {
		if err := wantOne(t.Context(), writer, n); err != nil {
			t.Fatal(err)
		}
		told(n)
	}
	// The reader listens again after it lost its connection, and is told of what it missed meanwhile.
	if err := writer.writes.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'").Error; err != nil {
		t.Fatal(err)
	}
	for n := 4; n <= 6; n++ {
		if err := wantOne(t.Context(), writer, n); err != nil {
			t.Fatal(err)
		}
		told(n)
	}
}
