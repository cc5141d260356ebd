package sqlstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// PlacedChanges implements store.Notifications.
func (s *Store) PlacedChanges(ctx context.Context, build string, at time.Time, page store.Page) (store.PlacedChangePage, error) {
	token := changeToken{List: "placed", Build: build, ResultSet: micros(at)}
	var placed store.PlacedChangePage
	err := s.read(ctx, "read changes and what they are about", func(tx *gorm.DB) error {
		placed = store.PlacedChangePage{}
		changes := tx.Table("finding_changes AS c").
			Where("c.generation IN (SELECT number FROM generations WHERE build_id = ? AND current_since = ?)", build, micros(at)).Session(&gorm.Session{})
		behind, err := fromToken(changes, page.Token, token, changeOrder)
		if err != nil {
			return err
		}
		var rows []changeRow
		err = behind.Joins("JOIN generations g ON g.number = c.generation").Joins("JOIN packages p ON p.id = c.package_pk").
			Select(changeColumns).Order(sqldb.OrderBy(changeOrder)).Limit(page.Limit() + 1).Scan(&rows).Error
		if err != nil {
			return err
		}
		if rows, placed.NextToken, err = cutPage(rows, page.Limit(), token, changeOrder, (*changeRow).value); err != nil || len(rows) == 0 {
			return err
		}
		placed.Changes, err = s.placeChanges(tx, rows, micros(at))
		return err
	})
	return placed, err
}

// placeChanges adds to changes of a result set that became current at a time what runs the images that they are about.
func (s *Store) placeChanges(tx *gorm.DB, rows []changeRow, at int64) ([]store.PlacedChange, error) {
	about, err := s.imagesAbout(tx, rows)
	if err != nil {
		return nil, err
	}
	var all []int64
	for _, images := range about {
		all = append(all, images...)
	}
	running, err := runningBefore(tx, all, at)
	if err != nil {
		return nil, err
	}
	hidden, err := s.suppressedChanges(tx, rows, about)
	if err != nil {
		return nil, err
	}
	changes := make([]store.PlacedChange, len(rows))
	for i := range rows {
		change, err := rows[i].change()
		if err != nil {
			return nil, err
		}
		changes[i].Change = change
		for _, image := range about[rows[i].ID] {
			if one := hidden.without(rows[i].ID, image, running[image]); one != nil && len(one.Workloads) > 0 {
				changes[i].Running = append(changes[i].Running, one)
			}
		}
	}
	return changes, nil
}

// imagesAbout returns the images that changes are about, by change.
func (s *Store) imagesAbout(tx *gorm.DB, rows []changeRow) (map[int64][]int64, error) {
	ids := make([]int64, len(rows))
	for i := range rows {
		ids[i] = rows[i].PackagePk
	}
	slices.Sort(ids)
	holding := make(map[int64][]int64, len(ids))
	err := inParts(slices.Compact(ids), func(part []int64) error {
		holders := tx.Table("image_packages AS ip").Where("ip.package_pk IN ? AND ip.excluded = 0", part)
		return eachList(holders, s.db.Dialect(), "ip.package_pk", "ip.image_pk", func(id int64, images []int64) {
			slices.Sort(images)
			holding[id] = images
		})
	})
	if err != nil {
		return nil, err
	}
	return imagesOfChanges(tx, rows, holding)
}

// runningBefore returns images that were matched before a time, with the workloads that run them in namespaces that knew them before.
func runningBefore(tx *gorm.DB, ids []int64, before int64) (map[int64]*store.RunningImage, error) {
	slices.Sort(ids)
	ids = slices.Compact(ids)
	running := make(map[int64]*store.RunningImage, len(ids))
	err := inParts(ids, func(part []int64) error {
		var rows []imageRow
		err := tx.Raw("SELECT id, image_id, platform FROM images WHERE matched_at > 0 AND matched_at < ? AND id IN ?", before, part).Scan(&rows).Error
		for i := range rows {
			key, keyErr := keyOf(rows[i].ImageID, rows[i].Platform)
			if keyErr != nil {
				return keyErr
			}
			running[rows[i].ID] = &store.RunningImage{ImageKey: key}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	used := tx.Table("image_uses AS u").Where(
		"EXISTS (SELECT 1 FROM image_namespaces m WHERE m.image_pk = u.image_pk AND m.namespace = u.namespace AND m.since < ?)", before)
	return running, addWorkloads(tx, used, running)
}

// addWorkloads adds the workloads of uses u to the images.
func addWorkloads(tx, used *gorm.DB, running map[int64]*store.RunningImage) error {
	ids := make([]int64, 0, len(running))
	for id := range running {
		ids = append(ids, id)
	}
	err := eachUse(used, ids, func(image int64, w store.Workload) {
		if one := running[image]; one != nil {
			one.Workloads = append(one.Workloads, w)
		}
	})
	if err != nil {
		return err
	}
	var workloads []*store.Workload
	for _, one := range running {
		slices.SortFunc(one.Workloads, func(a, b store.Workload) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
		})
		one.Workloads = slices.Compact(one.Workloads)
		workloads = append(workloads, pointersTo(one.Workloads)...)
	}
	return setOwners(tx, workloads)
}

// RunningImage implements store.Notifications.
func (s *Store) RunningImage(ctx context.Context, in store.Namespaces, key model.ImageKey) (*store.RunningImage, error) {
	var image *store.RunningImage
	err := s.read(ctx, "read what runs an image", func(tx *gorm.DB) error {
		image = nil
		var ids []int64
		err := tx.Raw("SELECT id FROM images WHERE image_id = ? AND platform = ?", key.ImageID, key.Platform.String()).Scan(&ids).Error
		if err != nil || len(ids) == 0 {
			return err
		}
		image = &store.RunningImage{ImageKey: key}
		return addWorkloads(tx, visibleUses(tx, in), map[int64]*store.RunningImage{ids[0]: image})
	})
	return image, err
}
