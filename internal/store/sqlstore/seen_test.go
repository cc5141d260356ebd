package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// errEnd ends a transaction that tests write in.
var errEnd = errors.New("the test ends")

// checkSeen expects that who sees one or two namespaces sees no findings where reaches have all visible places of an image, and that these findings are counted, whether or not the
// visible images are known, and also if reached_elsewhere has rows too many. Every test of the store's suite ends with it.
func checkSeen(t *testing.T, s *Store) {
	t.Helper()
	err := s.write(context.Background(), "check what is seen", func(tx *txn) error {
		var names []string
		if err := tx.Raw("SELECT DISTINCT m.namespace FROM image_namespaces m ORDER BY m.namespace LIMIT 2").Scan(&names).Error; err != nil {
			return err
		}
		check := func() error {
			for _, some := range slices.CompactFunc([][]string{names, names[:min(len(names), 1)], names[min(len(names), 1):]}, slices.Equal) {
				if err := checkSeenIn(t, tx.DB, store.OnlyNamespaces(some...)); err != nil {
					return err
				}
			}
			return nil
		}
		if err := check(); err != nil {
			return err
		}
		added, err := tx.Change(`INSERT INTO reached_elsewhere (namespace, image_pk, reach) SELECT y.namespace, y.image_pk, y.reach FROM reached_namespaces y
			WHERE NOT EXISTS (SELECT 1 FROM reached_elsewhere e WHERE e.namespace = y.namespace AND e.image_pk = y.image_pk AND e.reach = y.reach)`)
		if err == nil && added > 0 {
			err = check()
		}
		return cmp.Or(err, errEnd)
	})
	if !errors.Is(err, errEnd) {
		t.Error(err)
	}
}

func checkSeenIn(t *testing.T, tx *gorm.DB, in store.Namespaces) error {
	t.Helper()
	images, err := readImages(tx, tx.Table("(?) AS c", visibleImages(tx, in)))
	if err != nil {
		return err
	}
	var all []imageReach
	var whole []namespaceReach
	if err := visibleOnly(tx, tx.Table("reached AS x"), "x.image_pk", in).Scan(&all).Error; err != nil {
		return err
	}
	if err := tx.Table("reached_namespaces AS y").Where(isWithin("y.namespace", in) + " AND y.partly = 0").Scan(&whole).Error; err != nil {
		return err
	}
	closed, places := map[imageReach]bool{}, map[imageReach]int{}
	for _, row := range all {
		closed[row] = true
	}
	var placed []int64
	if err := tx.Raw("SELECT q.reach FROM placed_reaches q").Scan(&placed).Error; err != nil {
		return err
	}
	unplaced := slices.ContainsFunc(all, func(row imageReach) bool { return !slices.Contains(placed, row.Reach) })
	for _, row := range whole {
		places[imageReach{row.Reach, row.ImagePk}]++
	}
	for row, count := range places {
		closed[row] = closed[row] || count == images.rows[row.ImagePk]
	}
	maps.DeleteFunc(closed, func(_ imageReach, is bool) bool { return !is })
	want := slices.SortedFunc(maps.Keys(closed), imageReach.compare)
	counts, err := readReachedCounts(tx.Table("reached_counts AS c"))
	if err != nil {
		return err
	}
	findings := 0
	for _, row := range want {
		c := counts[row]
		findings += c.counts().Total()
	}
	for what, known := range map[string]map[int64]int{"known": images.places(place{in: in}), "unknown": nil} {
		view, err := seenOf(tx, in, "", known)
		if err != nil {
			return err
		}
		var got []imageReach
		if err := visibleOnly(tx, tx.Table(view.reached()+" AS x"), "x.image_pk", in).Distinct("x.reach, x.image_pk").Scan(&got).Error; err != nil {
			return err
		}
		slices.SortFunc(got, imageReach.compare)
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("who sees %v, with places %s (-want +got):\n%s", in.Names(), what, diff)
		}
		for how, known := range map[string]*someImages{"known": images, "unknown": nil} {
			others, got, err := view.countThere(tx, known)
			if err != nil || got != findings {
				t.Errorf("who sees %v, with images %s: %d suppressed findings, %v, want %d", in.Names(), how, got, err, findings)
			}
			if known != nil && others != unplaced || unplaced && !others {
				t.Errorf("who sees %v, with images %s: decisions without places %t, want %t", in.Names(), how, others, unplaced)
			}
		}
	}
	return nil
}
