package sqlstore

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest/fleet"
)

// TestDividedFindingsAreLookedUp expects that servers look up by the finding what suppresses it, while their statistics do not know what a transaction has inserted or deleted:
// PostgreSQL read all that is suppressed for each list of packages, and MariaDB all that the transaction had deleted for each finding.
func TestDividedFindingsAreLookedUp(t *testing.T) {
	eachServer(t, func(t *testing.T, config Config) {
		s := openWith(t, config)
		f := filler{fleet.Fleet{Images: 100}}
		for _, fill := range []func(*txn) error{f.images, f.packages, f.vulnerabilities, f.findings} {
			if err := s.write(t.Context(), "fill", fill); err != nil {
				t.Fatal(err)
			}
		}
		if err := analyze(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		for _, change := range []string{"INSERT INTO finding_suppressions (finding_id, reach) SELECT f.id, 1 FROM findings f", "DELETE FROM finding_suppressions"} {
			err := s.write(t.Context(), "change", func(tx *txn) error {
				if err := tx.Execute(change); err != nil {
					return err
				}
				for _, asked := range []string{
					"SELECT DISTINCT f.package_pk FROM findings f WHERE f.package_pk IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10) AND " + isDivided,
					"SELECT f.package_pk, MAX(CASE WHEN " + isDivided + " THEN 1 ELSE 0 END) FROM findings f WHERE f.package_pk IN (1, 2, 3) GROUP BY f.package_pk",
				} {
					var rows []map[string]any
					if err := tx.Raw("EXPLAIN " + asked).Scan(&rows).Error; err != nil {
						return err
					}
					if !looksUp(config.Type, rows) {
						t.Errorf("after %s, the plan of %s:\n%s", change, asked, strings.ReplaceAll(fmt.Sprint(rows), "map[", "\n"))
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}

// looksUp reports whether a plan finds the suppressions fd of a finding by its ID.
func looksUp(database string, plan []map[string]any) bool {
	return slices.ContainsFunc(plan, func(row map[string]any) bool {
		if database == sqldb.TypePostgres {
			return strings.Contains(fmt.Sprint(row), "Index Only Scan Backward using finding_suppressions_pkey on finding_suppressions fd")
		}
		return fmt.Sprint(row["table"]) == "fd" && fmt.Sprint(row["key"]) == "PRIMARY" && fmt.Sprint(row["ref"]) != "<nil>"
	})
}
