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
	// told writes and waits until the reader hears of it. The reader also says something whenever it begins to listen, once.
	told := func(n int) {
		t.Helper()
		changed := reader.Changed()
		if err := wantOne(t.Context(), writer, n); err != nil {
			t.Fatal(err)
		}
		select {
		case <-changed:
		case <-time.After(enough):
			t.Fatalf("nobody told of event %d", n)
		}
	}
	for n := range 5 {
		told(n)
	}
	// The reader listens again after it lost its connection, and tells of what it may have missed meanwhile.
	if err := writer.writes.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'").Error; err != nil {
		t.Fatal(err)
	}
	for n := range 5 {
		told(10 + n)
	}
}
