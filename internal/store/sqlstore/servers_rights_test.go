package sqlstore

import (
	"strings"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest/dbserver"
)

// TestLeastRights opens databases as users with the rights that the documentation names.
func TestLeastRights(t *testing.T) {
	for name, c := range map[string]struct {
		database func(testing.TB) string
		root     string
		grants   []string
	}{
		sqldb.TypeMySQL: {dbserver.MariaDB, "root@", []string{
			"CREATE USER 'limited' IDENTIFIED BY 'x'",
			"GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, INDEX, REFERENCES, CREATE VIEW ON DATABASE_NAME.* TO 'limited'",
		}},
		sqldb.TypePostgres: {dbserver.PostgreSQL, "postgres@", []string{
			"CREATE ROLE limited LOGIN PASSWORD 'x'",
			"ALTER DATABASE DATABASE_NAME OWNER TO limited",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := Config{Type: name, DSN: c.database(t)}
			database, _, _ := strings.Cut(root.DSN[strings.LastIndex(root.DSN, "/")+1:], "?")
			db := openServer(t, root)
			for _, statement := range c.grants {
				if _, err := db.ExecContext(t.Context(), strings.ReplaceAll(statement, "DATABASE_NAME", database)); err != nil {
					t.Fatal(err)
				}
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			limited := strings.Replace(root.DSN, c.root, "limited:x@", 1)
			if limited == root.DSN {
				t.Fatalf("%s has no user %s", root.DSN, c.root)
			}
			s := openWith(t, Config{Type: name, DSN: limited})
			if err := crashSetUp(t.Context(), s); err != nil {
				t.Error(err)
			}
			if err := crashStep(t.Context(), s, false, func(string) {}); err != nil {
				t.Error(err)
			}
			for _, view := range []string{"image_history", "vulnerability_ids", "open_findings", "exposures", "daily_trend"} {
				var rows int64
				if err := s.db.Reader().Raw("SELECT COUNT(*) FROM " + view).Scan(&rows).Error; err != nil {
					t.Error(err)
				}
			}
		})
	}
}
