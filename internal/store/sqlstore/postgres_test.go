package sqlstore

import (
	"context"
	"strings"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// TestOtherStoresAreNotified has two stores on one database.
func TestOtherStoresAreNotified(t *testing.T) {
	config := Config{Type: sqldb.TypePostgres, DSN: servers[sqldb.TypePostgres].migrated(t)}
	writer, reader := openWith(t, config), openWith(t, config)
	const listeners = "FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'"
	ctx, cancel := context.WithTimeout(t.Context(), enough)
	defer cancel()
	for listening := 0; listening < 2; {
		if err := writer.db.Reader().WithContext(ctx).Raw("SELECT COUNT(*) " + listeners).Scan(&listening).Error; err != nil {
			t.Fatal(err)
		}
	}
	// notified writes and waits until the reader hears of it.
	notified := func(n int) {
		t.Helper()
		changed := reader.Changed()
		if err := wantOne(t.Context(), writer, n); err != nil {
			t.Fatal(err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("no notification of event %d", n)
		}
	}
	for n := range 5 {
		notified(n)
	}
	// The reader listens again after it lost its connection, and then tells once of what it may have missed.
	if err := writer.db.Writer().Exec("SELECT pg_terminate_backend(pid) " + listeners).Error; err != nil {
		t.Fatal(err)
	}
	for n := range 5 {
		notified(10 + n)
	}
}

// TestDurableCommits opens stores whose DSN asks for commits that wait for less than the disk, and for more.
func TestDurableCommits(t *testing.T) {
	dsn := servers[sqldb.TypePostgres].migrated(t)
	separator := "?"
	if strings.Contains(dsn, "?") {
		separator = "&"
	}
	for asked, want := range map[string]string{"off": "on", "local": "on", "remote_write": "on", "on": "on", "remote_apply": "remote_apply"} {
		s := openWith(t, Config{Type: sqldb.TypePostgres, DSN: dsn + separator + "synchronous_commit=" + asked})
		for _, pool := range pools(t, s) {
			var got string
			err := pool.QueryRowContext(t.Context(), "SELECT current_setting('synchronous_commit')").Scan(&got)
			if err != nil || got != want {
				t.Errorf("synchronous_commit=%s: got %q, %v, want %q", asked, got, err, want)
			}
		}
	}
}

// TestReadersPlanEachQuery expects plans for the values of each query on connections for reading, unless the DSN says otherwise.
func TestReadersPlanEachQuery(t *testing.T) {
	dsn := servers[sqldb.TypePostgres].migrated(t)
	for asked, want := range map[string]map[string]string{
		"":                   {"writer": "auto", "reader": "force_custom_plan"},
		"force_generic_plan": {"writer": "force_generic_plan", "reader": "force_generic_plan"},
	} {
		config := Config{Type: sqldb.TypePostgres, DSN: dsn}
		if asked != "" {
			config.DSN += "&plan_cache_mode=" + asked
		}
		for name, pool := range pools(t, openWith(t, config)) {
			var got string
			err := pool.QueryRowContext(t.Context(), "SELECT current_setting('plan_cache_mode')").Scan(&got)
			if err != nil || got != want[name] {
				t.Errorf("%q, %s: got %q, %v, want %q", asked, name, got, err, want[name])
			}
		}
	}
}
