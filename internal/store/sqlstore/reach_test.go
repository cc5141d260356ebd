package sqlstore

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// TestReachOfMany expects that lists of more images than are looked up by ID have the same result as short ones.
func TestReachOfMany(t *testing.T) {
	eachDatabase(t, func(t *testing.T, config Config) {
		t.Helper()
		s := openWith(t, config)
		var keys []model.ImageKey
		var uses []store.Use
		for n := range 12 {
			key := model.ImageKey{ImageID: fmt.Sprintf("example/%02d@sha256:%064x", n*7%12, n), Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
			keys = append(keys, key)
			uses = append(uses, store.Use{Image: key, Workload: store.Workload{Namespace: "n", Kind: "Deployment", Name: fmt.Sprint("w", n/2)}, Container: "c"})
		}
		if _, err := s.WantImages(t.Context(), keys); err != nil {
			t.Fatal(err)
		}
		if err := s.RecordUses(t.Context(), "scope", uses); err != nil {
			t.Fatal(err)
		}
		err := s.read(t.Context(), "test", func(tx *gorm.DB) error {
			var ids []int64
			if err := tx.Raw("SELECT id FROM images ORDER BY id").Scan(&ids).Error; err != nil {
				return err
			}
			few := slices.Clone(ids[:9])
			many := slices.Clone(few)
			for n := range int64(allUses) {
				many = append(many, 1e6+n) // There are no such images.
			}
			for _, limit := range []int{1, 5, 20} {
				var results [2][]int64
				for i, list := range [][]int64{few, many} {
					first, err := firstImages(tx.Table("images AS i").Where("i.image_id > ?", "example/02"), list, limit)
					if err != nil {
						return err
					}
					results[i] = first
				}
				if difference := cmp.Diff(results[0], results[1]); difference != "" || len(results[0]) != min(limit, 7) {
					t.Errorf("limit %d: %d images, and of many others (-few +many):\n%s", limit, len(results[0]), difference)
				}
			}
			for name, groups := range map[string][][]int64{"few": {few[:2], few}, "many": {few[:2], many}} {
				workloads, err := countWorkloads(tx.Table("image_uses AS u"), groups)
				if err != nil || !slices.Equal(workloads, []int{1, 5}) {
					t.Errorf("%s: %v workloads, %v; want 1 and 5", name, workloads, err)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// cutting is a database that returns only one number of a list.
type cutting struct{ sqldb.Dialect }

func (cutting) List(column string) string { return "MIN(" + column + ")" }

// A list that the database cuts is an error.
func TestListsAreWhole(t *testing.T) {
	s := openAt(t, migrated(t))
	err := s.read(t.Context(), "test", func(tx *gorm.DB) error {
		numbers := tx.Table("(SELECT 1 AS id, 5 AS n UNION ALL SELECT 1, 7 UNION ALL SELECT 2, 9) AS q")
		got := map[int64][]int64{}
		if err := eachList(numbers, s.db.Dialect(), "q.id", "q.n", func(id int64, list []int64) { got[id] = list }); err != nil {
			return err
		}
		if difference := cmp.Diff(map[int64][]int64{1: {5, 7}, 2: {9}}, got); difference != "" {
			t.Errorf("(-want +got):\n%s", difference)
		}
		err := eachList(numbers, cutting{s.db.Dialect()}, "q.id", "q.n", func(int64, []int64) {})
		if err == nil || !strings.Contains(err.Error(), "returned 1 of 2 numbers") {
			t.Errorf("got %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
