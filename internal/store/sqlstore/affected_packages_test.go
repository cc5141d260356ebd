package sqlstore

import (
	"cmp"
	"slices"
	"testing"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store/storetest/fleet"
)

// TestFirstImages reads the first of some images by name: of few, of so many that all are read in their order, and of these but for most of those that are read first.
func TestFirstImages(t *testing.T) {
	const limit = 3
	eachDatabase(t, func(t *testing.T, config Config) {
		s := openWith(t, config)
		filled := fleet.Fleet{Images: allUses + 200}
		if err := s.write(t.Context(), "fill", filler{filled}.images); err != nil {
			t.Fatal(err)
		}
		ordered := make([]int64, filled.Images)
		for n := range ordered {
			ordered[n] = int64(n + 1)
		}
		slices.SortFunc(ordered, func(a, b int64) int { return cmp.Compare(fleet.Image(int(a-1)).ImageID, fleet.Image(int(b-1)).ImageID) })
		for name, c := range map[string]struct{ behind, rounds, lookups int }{
			"all": {0, 1, 0}, "few": {allUses, 0, 1}, "most of those that are read first are others": {limit*fewOrdered - 1, 2, 0},
		} {
			var got []int64
			rounds, lookups := 0, 0
			err := s.read(t.Context(), "read", func(tx *gorm.DB) (err error) {
				images := tx.Table("images AS i").Scopes(func(tx *gorm.DB) *gorm.DB {
					if _, limited := tx.Statement.Clauses["LIMIT"]; limited {
						rounds++
					} else {
						lookups++
					}
					return tx
				})
				got, err = firstImages(images, slices.Sorted(slices.Values(ordered[c.behind:])), limit)
				return err
			})
			if want := ordered[c.behind : c.behind+limit]; err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: got %v, %v, want %v", name, got, err, want)
			}
			if rounds != c.rounds || lookups != c.lookups {
				t.Errorf("%s: %d statements in the order of images and %d others, want %d and %d", name, rounds, lookups, c.rounds, c.lookups)
			}
		}
	})
}
