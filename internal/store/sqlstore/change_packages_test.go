package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// checkChangePackages expects that change_packages has the changes of each result set that is or was current, unless these are too many.
func checkChangePackages(t *testing.T, s *Store) {
	t.Helper()
	tx := s.db.Reader().WithContext(context.Background())
	type row struct {
		Generation, Severity, Kev, Kind, NewlyKev, Partly, Changes int64
		Packages                                                   string
	}
	want, got := map[row][]int64{}, map[row][]int64{}
	for statement, lists := range map[string]map[row][]int64{
		"SELECT c.generation, c.severity, c.kev, c.kind, " + newlyKEV + " AS newly_kev, CASE WHEN cv.change_id IS NULL THEN 0 ELSE 1 END AS partly, 1 AS changes, c.package_pk AS packages " +
			"FROM finding_changes c JOIN generations g ON g.number = c.generation LEFT JOIN change_variants cv ON cv.change_id = c.id WHERE g.current_since > 0": want,
		"SELECT generation, severity, kev, kind, newly_kev, partly, changes, packages FROM change_packages": got,
	} {
		var rows []row
		if err := tx.Raw(statement).Scan(&rows).Error; err != nil {
			t.Error(err)
		}
		for _, one := range rows {
			numbers, err := numbersOf(one.Packages)
			if one.Partly == 1 {
				numbers, err = make([]int64, one.Changes), nil // Their packages are not listed.
			}
			if err != nil || len(numbers) != int(one.Changes) {
				t.Errorf("%+v: %d numbers (%v)", one, len(numbers), err)
			}
			one.Changes, one.Packages = 0, ""
			lists[one] = append(lists[one], numbers...)
		}
	}
	number := map[int64]int{}
	for one, list := range want {
		number[one.Generation] += len(list)
	}
	maps.DeleteFunc(want, func(one row, _ []int64) bool { return number[one.Generation] > s.listedChanges })
	for _, lists := range []map[row][]int64{want, got} {
		for _, list := range lists {
			slices.Sort(list)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("change_packages (-want +got):\n%s", diff)
	}
}

// fillChangePackages fills change_packages with the statement of the migration.
func fillChangePackages(tx *txn, database string) error {
	name := map[string]string{
		sqldb.TypeSQLite: "sqlite/00062_change_packages.sql", sqldb.TypePostgres: "postgres/00062_change_packages.sql", sqldb.TypeMySQL: "mysql/00165_change_packages_rows.sql",
	}[database]
	content, err := migrationFiles.ReadFile("migrations/" + name)
	if err != nil {
		return err
	}
	_, statement, _ := strings.Cut(string(content), "INSERT INTO")
	statement, _, _ = strings.Cut(statement, ";")
	return tx.Execute("INSERT INTO" + statement)
}

// TestListedChanges compares what result sets changed in some namespaces, and on which days, as it follows from change_packages with what follows from finding_changes.
func TestListedChanges(t *testing.T) {
	eachDatabase(t, func(t *testing.T, config Config) {
		s := withFixes(t, config)
		type answer struct {
			Sets map[int64]store.ChangeCounts
			Days map[time.Time]store.TrendDay
		}
		read := func(in store.Namespaces) answer {
			sets, err := s.ListResultSets(t.Context(), in, store.MaxKeys)
			if err != nil {
				t.Fatal(err)
			}
			days, err := s.Trend(t.Context(), in, store.TrendQuery{From: time.Unix(0, 0), To: time.Unix(0, 0).AddDate(0, 0, 1)})
			if err != nil {
				t.Fatal(err)
			}
			one := answer{Sets: map[int64]store.ChangeCounts{}, Days: map[time.Time]store.TrendDay{}}
			for _, set := range sets {
				one.Sets[set.Number] = set.Changes
			}
			for _, day := range days {
				one.Days[day.Day] = day
			}
			return one
		}
		run := func(change func(tx *txn) error) {
			t.Helper()
			if err := s.write(t.Context(), "change", change); err != nil {
				t.Fatal(err)
			}
		}
		var exploited, critical, opened int
		for seed := range uint64(15) {
			random := rand.New(rand.NewPCG(seed, 5))
			partly := seed%3 == 0
			run(func(tx *txn) error {
				for _, statement := range []string{"DELETE FROM change_packages", "DELETE FROM daily_sums"} {
					if err := tx.Execute(statement); err != nil {
						return err
					}
				}
				if err := randomChanges(tx, random); err != nil {
					return err
				}
				var days []any
				for _, namespace := range []string{"", "one", "two"} {
					days = append(days, "1970-01-01", "", namespace, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0)
				}
				if err := tx.Insert("daily_sums", sumColumns, days, ""); err != nil {
					return err
				}
				if err := tx.Execute("UPDATE generations SET opened = 1"); err != nil || partly {
					return err
				}
				return tx.Execute("DELETE FROM change_variants")
			})
			seers := []store.Namespaces{store.AllNamespaces(), store.OnlyNamespaces("one"), store.OnlyNamespaces("two"), store.OnlyNamespaces("one", "two"), store.OnlyNamespaces("none")}
			var want []answer
			for _, in := range seers {
				want = append(want, read(in))
			}
			changes := []func(tx *txn) error{
				func(tx *txn) error { return fillChangePackages(tx, config.Type) },
				// As a process of a previous version leaves it.
				func(tx *txn) error {
					return tx.Execute("DELETE FROM change_packages WHERE generation IN (SELECT x.number FROM (SELECT MAX(number) AS number FROM generations) x)")
				},
			}
			if !partly {
				changes = append(changes, func(tx *txn) error { // What change_packages has is enough, if there are any changes.
					if err := errors.Join(tx.Execute("DELETE FROM change_packages"), fillChangePackages(tx, config.Type)); err != nil {
						return err
					}
					return tx.Execute("DELETE FROM finding_changes WHERE id NOT IN (SELECT x.id FROM (SELECT MIN(id) AS id FROM finding_changes GROUP BY generation) x)")
				})
			}
			for n, change := range changes {
				run(change)
				for i, in := range seers {
					got := read(in)
					if diff := cmp.Diff(want[i], got); diff != "" {
						t.Errorf("seed %d, change %d, %v (-want +got):\n%s", seed, n, in, diff)
					}
					for _, set := range got.Sets {
						exploited += set.NewKEV
						critical += set.OpenedCritical
					}
					for _, day := range got.Days {
						opened += day.Opened.Critical
					}
				}
			}
			// A process of a previous version deletes changes alone.
			run(func(tx *txn) error { return tx.Execute("DELETE FROM finding_changes") })
			for _, set := range read(store.OnlyNamespaces("one", "two")).Sets {
				if set != (store.ChangeCounts{}) {
					t.Errorf("seed %d: %+v without changes", seed, set)
				}
			}
		}
		if exploited == 0 || critical == 0 || opened == 0 {
			t.Errorf("newly exploited %d, critical %d, opened on days %d", exploited, critical, opened)
		}
	})
}

// TestSumsOfNamespaces compares trends with the sums of the rows that they are to be made of.
func TestSumsOfNamespaces(t *testing.T) {
	const days = 20
	names := []string{"", "one", "two", "three", "four"}
	images := func(day, n int) int { return (day*n + 1) * ((day + n) % 4) } // None: there is no row.
	eachDatabase(t, func(t *testing.T, config Config) {
		s := openWith(t, config)
		var values []any
		for day := range days {
			for n, name := range names {
				if images(day, n) > 0 {
					values = append(values, fmt.Sprintf("2026-01-%02d", day+1), fmt.Sprint("cluster-", n%2), name, images(day, n), n, 1, 2, 3, 4, 5, 6, 7, day*n)
				}
			}
		}
		err := s.write(t.Context(), "fill", func(tx *txn) error { return tx.Insert("daily_sums", sumColumns, values, "") })
		if err != nil {
			t.Fatal(err)
		}
		query := store.TrendQuery{From: time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC), To: time.Date(2026, 1, 18, 0, 0, 0, 0, time.UTC)}
		for _, in := range []store.Namespaces{{}, store.AllNamespaces(), store.OnlyNamespaces("one"), store.OnlyNamespaces("one", "three", "gone")} {
			for _, query.Namespace = range []string{"", "one", "four"} {
				trend, err := s.Trend(t.Context(), in, query)
				if err != nil {
					t.Fatal(err)
				}
				visible, withSums := in.In(query.Namespace), 0
				for day := range days {
					at := time.Date(2026, 1, day+1, 0, 0, 0, 0, time.UTC)
					var want, got [3]int // Images, those that are scanned, and findings with a fix.
					for n, name := range names {
						if rows := images(day, n); rows > 0 && !at.Before(query.From) && !at.After(query.To) && (visible.All() && name == "" || slices.Contains(visible.Names(), name)) {
							want = [3]int{want[0] + rows, want[1] + n, want[2] + day*n}
						}
					}
					for i := range trend {
						if trend[i].Day.Equal(at) {
							got = [3]int{got[0] + trend[i].Images, got[1] + trend[i].Scanned, got[2] + trend[i].Counts.Fixable}
						}
					}
					if want != [3]int{} {
						withSums++
					}
					if got != want {
						t.Errorf("%v, %q, day %d: %v, want %v", in, query.Namespace, day+1, got, want)
					}
				}
				if len(trend) != withSums {
					t.Errorf("%v, %q: %d days, want %d", in, query.Namespace, len(trend), withSums)
				}
			}
		}
	})
}

// TestSumsAreLookedUp expects that MySQL reads the sums of some days and namespaces only, and those of one day by looking up each namespace.
func TestSumsAreLookedUp(t *testing.T) {
	s := openWith(t, Config{Type: sqldb.TypeMySQL, DSN: servers[sqldb.TypeMySQL].migrated(t)})
	err := s.write(t.Context(), "fill", func(tx *txn) error {
		var values []any
		for n := range 50 {
			for day := range 200 {
				values = append(values, dayOf(time.Unix(0, 0).AddDate(0, 0, day)), "cluster", fmt.Sprint("namespace-", n), 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
			}
		}
		return tx.Insert("daily_sums", sumColumns, values, "")
	})
	if err == nil {
		err = analyze(t.Context(), s)
	}
	if err != nil {
		t.Fatal(err)
	}
	tx := s.db.Reader().WithContext(t.Context())
	for name, sums := range map[string]func(tx *gorm.DB) *gorm.DB{
		"of some days": func(tx *gorm.DB) *gorm.DB {
			return s.sumsOf(tx, store.OnlyNamespaces("namespace-1", "namespace-7"), "", "1970-02-01", "1970-03-01")
		},
		"of one day": func(tx *gorm.DB) *gorm.DB { return s.sumsOfDay(tx, "1970-02-01") },
	} {
		var rows []map[string]any
		statement := tx.ToSQL(func(tx *gorm.DB) *gorm.DB { return sums(tx).Find(&rows) })
		if err := tx.Raw("EXPLAIN " + statement).Scan(&rows).Error; err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(rows, func(row map[string]any) bool { return fmt.Sprint(row["table"]) == "s" }) {
			t.Errorf("sums %s: the plan reads no sums: %v", name, rows)
		}
		for _, row := range rows {
			if strings.HasPrefix(fmt.Sprint(row["table"]), "<derived") {
				continue
			}
			examined, err := strconv.Atoi(fmt.Sprint(row["rows"]))
			if err != nil || examined > 200 || fmt.Sprint(row["key"]) != "PRIMARY" {
				t.Errorf("sums %s: %v, want at most 200 rows by the primary key", name, row)
			}
		}
	}
}
