package sqlstore

import (
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// TestPreparedStatementsEnd has the server forget a statement, and change what one returns, as another replica's migration may.
func TestPreparedStatementsEnd(t *testing.T) {
	s := openWith(t, Config{Type: sqldb.TypePostgres, DSN: servers[sqldb.TypePostgres].migrated(t), MaxOpenConns: 2})
	if err := wantOne(t.Context(), s, 1); err != nil {
		t.Fatal(err)
	}
	read := func() error {
		return s.read(t.Context(), "read", func(tx *gorm.DB) error {
			var rows []map[string]any
			return tx.Raw("SELECT * FROM changing WHERE n <> ?", 1).Scan(&rows).Error
		})
	}
	for _, statement := range []string{"CREATE TABLE changing (n BIGINT)", "ALTER TABLE changing ADD COLUMN m TEXT", "DEALLOCATE ALL"} {
		pool := pools(t, s)["writer"]
		if statement == "DEALLOCATE ALL" {
			pool = pools(t, s)["reader"]
		}
		if _, err := pool.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
		if err := read(); err != nil {
			t.Errorf("after %s: %v", statement, err)
		}
	}
}

// TestDecisionsAreLookedUpByID expects that what suppresses findings is looked up by the ID of the decisions, also while the statistics know none that applies, as
// after all have ended: all decisions that begin would be read for each finding.
func TestDecisionsAreLookedUpByID(t *testing.T) {
	t.Parallel()
	s := openWith(t, Config{Type: sqldb.TypePostgres, DSN: servers[sqldb.TypePostgres].migrated(t), MaxOpenConns: 2})
	pool := pools(t, s)["writer"]
	for _, statement := range []string{
		`INSERT INTO decisions (source, kind, namespace, name, digest, reach, status, suppresses, unfixed, spec, justification, comment, author, expires_at, since, until_time, ended_by)
			SELECT 'test', 'kind', '', n, n, 0, 'Fixed', 1, 0, '{}', '', '', '', 0, 1, 2, 'deleted' FROM generate_series(1, 5000) AS n`,
		"ANALYZE",
	} {
		if _, err := pool.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	var plan []string
	err := s.read(t.Context(), "explain", func(tx *gorm.DB) error {
		return tx.Raw("EXPLAIN "+suppressingDecisions, int64(stillOpen), []int64{1, 2, 3}).Scan(&plan).Error
	})
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(plan, "\n"); !strings.Contains(text, "decisions_pkey") || strings.Contains(text, "decisions_applied") {
		t.Errorf("decisions are not looked up by their ID only:\n%s", text)
	}
}
