package sqlstore

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// randomChanges replaces the result sets and changes of a store with three images by random ones, of which many have the same time.
func randomChanges(tx *txn, random *rand.Rand) error {
	for _, table := range []string{"change_images", "change_variants", "finding_changes"} {
		if err := tx.Execute("DELETE FROM " + table); err != nil {
			return err
		}
	}
	if err := tx.Execute("UPDATE generations SET current_since = 3"); err != nil {
		return err
	}
	for image := range 3 {
		if err := tx.Execute("UPDATE image_packages SET excluded = CASE WHEN package_pk % 5 = ? THEN 1 ELSE 0 END WHERE image_pk = ?", random.IntN(5), image+1); err != nil {
			return err
		}
		if err := tx.Execute("UPDATE images SET matched_at = ? WHERE id = ?", random.IntN(5), image+1); err != nil {
			return err
		}
		if err := tx.Execute("UPDATE image_namespaces SET since = ? WHERE image_pk = ?", random.IntN(6), image+1); err != nil {
			return err
		}
	}
	if err := relistPackages(tx); err != nil {
		return err
	}
	for range 4 {
		_, err := insertResultSet(tx, &resultSetRow{BuildID: "later", State: string(store.ResultSetPast), CurrentSince: int64(random.IntN(6))})
		if err != nil {
			return err
		}
	}
	var generations, packages []int64
	if err := tx.Raw("SELECT number FROM generations ORDER BY number").Scan(&generations).Error; err != nil {
		return err
	}
	if err := tx.Raw("SELECT id FROM packages ORDER BY id").Scan(&packages).Error; err != nil {
		return err
	}
	var changes, variants, images []any
	reasons := []string{"", string(store.ReasonSeverity), string(store.ReasonKEV), string(store.ReasonSeverity) + "," + string(store.ReasonKEV)}
	for n := range 60 {
		changes = append(changes, n+1, generations[random.IntN(len(generations))], packages[random.IntN(len(packages))], fmt.Sprint("CVE-", 99-n), "n",
			random.IntN(int(model.SeverityCritical)+1), random.IntN(2), random.IntN(3), reasons[random.IntN(len(reasons))], "", "")
		if random.IntN(3) == 0 {
			variants = append(variants, n+1, "variant")
			for image := range 3 {
				if random.IntN(2) == 0 {
					images = append(images, n+1, image+1)
				}
			}
		}
	}
	err := tx.Insert("finding_changes", []string{
		"id", "generation", "package_pk", "vulnerability_id", "namespace", "severity", "kev", "kind", "reasons", "before_side", "after_side",
	}, changes, "")
	if err != nil {
		return err
	}
	if err := tx.Insert("change_variants", []string{"change_id", "variant"}, variants, ""); err != nil {
		return err
	}
	return tx.Insert("change_images", []string{"change_id", "image_pk"}, images, "")
}

// relistPackages lists what images hold again, but for one.
func relistPackages(tx *txn) error {
	if err := tx.Execute("DELETE FROM image_package_sets"); err != nil {
		return err
	}
	return tx.savePackageSets([]int64{1, 2})
}

// TestVisibleChanges compares which changes are visible, and in how many images, as it follows from what the visible images hold, with what statements say that ask about
// each change.
func TestVisibleChanges(t *testing.T) {
	eachDatabase(t, func(t *testing.T, config Config) {
		s := withFixes(t, config)
		some, differed := 0, false
		for seed := range uint64(25) {
			random := rand.New(rand.NewPCG(seed, 1))
			if err := s.write(t.Context(), "change", func(tx *txn) error { return randomChanges(tx, random) }); err != nil {
				t.Fatal(err)
			}
			for _, in := range []store.Namespaces{store.OnlyNamespaces("one"), store.OnlyNamespaces("two"), store.OnlyNamespaces("one", "two"), store.OnlyNamespaces()} {
				type answer struct {
					Changes []int64
					Images  map[int64]int
					Holding map[int64][]int64
				}
				packages := []int64{1, 2, 3, 4, 5, 6, 7, 8}
				var answers []answer
				tx := s.db.Reader().WithContext(t.Context())
				views := []*changeView{{in: in, dialect: s.db.Dialect()}} // Statements ask.
				for _, bounds := range []struct{ keptNumbers, maxSteps int }{{0, maxSteps}, {keptNumbers, maxSteps}, {keptNumbers, 1}, {keptNumbers, 0}} {
					s.keptNumbers, s.maxSteps = bounds.keptNumbers, bounds.maxSteps
					view, err := s.changesIn(tx, in)
					if err != nil {
						t.Fatal(err)
					}
					differed = differed || len(view.steps) > 1
					views = append(views, view)
				}
				for _, view := range views {
					changes := tx.Table("finding_changes AS c").Session(&gorm.Session{})
					one := answer{Changes: []int64{}}
					if err := view.keep(changes).Order("c.id").Pluck("c.id", &one.Changes).Error; err != nil {
						t.Fatal(err)
					}
					var err error
					if one.Images, err = view.images(changes, nil); err != nil {
						t.Fatal(err)
					}
					if one.Holding, err = view.holding(tx, packages); err != nil {
						t.Fatal(err)
					}
					maps.DeleteFunc(one.Images, func(_ int64, images int) bool { return images == 0 })
					answers = append(answers, one)
					some += len(one.Changes)
				}
				for i, one := range answers[1:] {
					if diff := cmp.Diff(answers[0], one); diff != "" {
						t.Errorf("seed %d, %v, way %d (-want +got):\n%s", seed, in, i+1, diff)
					}
				}
			}
		}
		if some == 0 || !differed {
			t.Errorf("%d changes were visible; more than one step: %t", some, differed)
		}
	})
}

// TestVisibleChangesInOrder reads pages of changes that some namespaces see, of which many have the same place in the index.
func TestVisibleChangesInOrder(t *testing.T) {
	eachDatabase(t, func(t *testing.T, config Config) {
		s := withFixes(t, config)
		random := rand.New(rand.NewPCG(1, 1))
		err := s.write(t.Context(), "change", func(tx *txn) error {
			if err := randomChanges(tx, random); err != nil {
				return err
			}
			if err := tx.Execute("UPDATE images SET matched_at = 1"); err != nil {
				return err
			}
			return tx.Execute("UPDATE image_namespaces SET since = 1")
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, query := range []store.ChangeQuery{{}, {Build: "1"}, {Build: "later"}, {Build: "none"}} {
			var whole, parts []int64
			for _, size := range []int{store.MaxPageSize, 3} {
				query.Page = store.Page{Size: size}
				for {
					page, err := s.Changes(t.Context(), store.OnlyNamespaces("one", "two"), query)
					if err != nil {
						t.Fatal(err)
					}
					for _, c := range page.Changes {
						if size == 3 {
							parts = append(parts, c.ID)
						} else {
							whole = append(whole, c.ID)
						}
					}
					if query.Token = page.NextToken; page.NextToken == "" {
						if got := len(whole); page.Total != got {
							t.Errorf("%+v: %d changes, total %d", query, got, page.Total)
						}
						break
					}
				}
			}
			if !slices.Equal(whole, parts) || (len(whole) == 0) != (query.Build == "none") {
				t.Errorf("%+v: pages of three %v, want %v", query, parts, whole)
			}
		}
	})
}

// TestVisibleResultSets compares what result sets changed in visible images with the changes of each that a statement finds.
func TestVisibleResultSets(t *testing.T) {
	eachDatabase(t, func(t *testing.T, config Config) {
		s := withFixes(t, config)
		var sum store.ChangeCounts
		for seed := range uint64(25) {
			random := rand.New(rand.NewPCG(seed, 3))
			if err := s.write(t.Context(), "change", func(tx *txn) error { return randomChanges(tx, random) }); err != nil {
				t.Fatal(err)
			}
			if err := s.write(t.Context(), "count", func(tx *txn) error {
				return tx.Execute("UPDATE generations SET opened = ?", 1+seed%2*maxListedChanges) // They are listed every second time.
			}); err != nil {
				t.Fatal(err)
			}
			for _, in := range []store.Namespaces{store.OnlyNamespaces("one"), store.OnlyNamespaces("two"), store.OnlyNamespaces("one", "two")} {
				tx := s.db.Reader().WithContext(t.Context())
				view := &changeView{in: in, dialect: s.db.Dialect()} // Statements ask.
				all := tx.Table("finding_changes AS c").Session(&gorm.Session{})
				var rows []changeRow
				if err := view.keep(all).Select("c.*").Scan(&rows).Error; err != nil {
					t.Fatal(err)
				}
				want := map[int64]store.ChangeCounts{}
				for i := range rows {
					counts := want[rows[i].ResultSet]
					exploited := rows[i].Kev == 1 && (rows[i].Kind == kindOpened || rows[i].Kind == kindChanged && strings.HasSuffix(rows[i].Reasons, string(store.ReasonKEV)))
					for number, counted := range map[*int]bool{
						&counts.Opened: rows[i].Kind == kindOpened, &counts.Closed: rows[i].Kind == kindClosed, &counts.Changed: rows[i].Kind == kindChanged,
						&counts.OpenedCritical: rows[i].Kind == kindOpened && rows[i].Severity == int64(model.SeverityCritical), &counts.NewKEV: exploited,
					} {
						if counted {
							*number++
						}
					}
					want[rows[i].ResultSet] = counts
				}
				images, err := view.images(all, nil)
				if err != nil {
					t.Fatal(err)
				}
				for number, count := range images {
					counts := want[number]
					counts.Images = count
					want[number] = counts
				}
				sets, err := s.ListResultSets(t.Context(), in, store.MaxKeys)
				if err != nil {
					t.Fatal(err)
				}
				got := map[int64]store.ChangeCounts{}
				for _, set := range sets {
					if set.Changes != (store.ChangeCounts{}) {
						got[set.Number] = set.Changes
					}
					sum.OpenedCritical += set.Changes.OpenedCritical
					sum.NewKEV += set.Changes.NewKEV
					sum.Images += set.Changes.Images
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("seed %d, %v (-want +got):\n%s", seed, in, diff)
				}
			}
		}
		if sum.OpenedCritical == 0 || sum.NewKEV == 0 || sum.Images == 0 {
			t.Errorf("visible result sets: %+v", sum)
		}
	})
}

// TestVisibleRecords compares which records of a vulnerability are visible as it follows from what the visible images hold with what a statement says that asks about
// each finding.
func TestVisibleRecords(t *testing.T) {
	eachDatabase(t, func(t *testing.T, config Config) {
		s := withFixes(t, config)
		found, missing := 0, 0
		for seed := range uint64(40) {
			random := rand.New(rand.NewPCG(seed, 2))
			if err := s.write(t.Context(), "change", func(tx *txn) error { return randomEnds(tx, random) }); err != nil {
				t.Fatal(err)
			}
			var ids []string
			if err := s.db.Reader().WithContext(t.Context()).Table("vulnerabilities").Distinct("vulnerability_id").Pluck("vulnerability_id", &ids).Error; err != nil {
				t.Fatal(err)
			}
			for _, in := range []store.Namespaces{store.OnlyNamespaces("one"), store.OnlyNamespaces("two"), store.OnlyNamespaces()} {
				for _, id := range ids {
					s.maxSteps = -1 // No condition is short enough.
					want, err := s.VulnerabilityRecords(t.Context(), in, id)
					if err != nil && !errors.Is(err, store.ErrNotFound) {
						t.Fatal(err)
					}
					s.maxSteps = maxSteps
					got, err := s.VulnerabilityRecords(t.Context(), in, id)
					if err != nil && !errors.Is(err, store.ErrNotFound) {
						t.Fatal(err)
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("seed %d, %s in %v (-want +got):\n%s", seed, id, in, diff)
					}
					if len(got) > 0 {
						found++
					} else {
						missing++
					}
				}
			}
		}
		if found == 0 || missing == 0 {
			t.Errorf("%d records were visible, %d were not", found, missing)
		}
	})
}

// randomEnds makes random result sets, of which the last but one is current, and lets some findings end with one of them.
func randomEnds(tx *txn, random *rand.Rand) error {
	if err := randomChanges(tx, random); err != nil {
		return err
	}
	var numbers, findings []int64
	if err := tx.Raw("SELECT number FROM generations ORDER BY number").Scan(&numbers).Error; err != nil {
		return err
	}
	if err := tx.Raw("SELECT id FROM findings ORDER BY id").Scan(&findings).Error; err != nil {
		return err
	}
	err := tx.Execute("UPDATE generations SET state = CASE WHEN number = ? THEN ? ELSE ? END", numbers[len(numbers)-2], string(store.ResultSetCurrent), string(store.ResultSetPast))
	if err != nil {
		return err
	}
	for _, id := range findings {
		end := int64(stillOpen)
		if random.IntN(4) > 0 {
			end = numbers[random.IntN(len(numbers))]
		}
		if err := tx.Execute("UPDATE findings SET until_gen = ? WHERE id = ?", end, id); err != nil {
			return err
		}
	}
	return nil
}
