package sqlstore

import (
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
