package sqlstore

import (
	"maps"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// recounting counts again, in the images and their packages, what is suppressed in reaches that change. What can be done about the packages changes in
// these images only.
func (t *txn) recounting(rows []imageReach, change func() error) error {
	rows, err := suppressing(t.DB, rows, func(row imageReach) int64 { return row.Reach })
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return change()
	}
	reachSet, imageSet := map[int64]bool{}, map[int64]bool{}
	for _, row := range rows {
		reachSet[row.Reach], imageSet[row.ImagePk] = true, true
	}
	reaches, images := slices.Sorted(maps.Keys(reachSet)), slices.Sorted(maps.Keys(imageSet))
	t.noteFixes(nil, images...)
	current, err := currentNumber(t.DB)
	if err != nil {
		return err
	}
	before, err := openIn(t.DB, reaches, images, current)
	if err != nil {
		return err
	}
	if err := change(); err != nil {
		return err
	}
	deltas, err := openIn(t.DB, reaches, images, current)
	if err != nil {
		return err
	}
	for image, counts := range before {
		deltas[image] = deltas[image].minus(counts)
	}
	err = inParts(slices.Sorted(maps.Keys(deltas)), func(part []int64) error { return t.addCounts(part, deltas) })
	if err != nil {
		return err
	}
	packages := map[int64]bool{}
	err = inParts(reaches, func(part []int64) error {
		var ids []int64
		err := t.Raw("SELECT DISTINCT f.package_pk FROM finding_suppressions fs JOIN findings f ON f.id = fs.finding_id WHERE fs.reach IN ?", part).Scan(&ids).Error
		for _, id := range ids {
			packages[id] = true
		}
		return err
	})
	if err != nil {
		return err
	}
	_, err = t.recount(slices.Sorted(maps.Keys(packages)), nil)
	return err
}

// openIn counts, by image, the open findings of matched images that are suppressed in one of some reaches elsewhere. A finding has at most one of them.
func openIn(tx *gorm.DB, reaches, images []int64, current int64) (map[int64]countsDelta, error) {
	counts := map[int64]countsDelta{}
	for some := range slices.Chunk(reaches, sqldb.MaxIn) {
		for part := range slices.Chunk(images, sqldb.MaxIn) {
			var rows []struct {
				ImagePk int64
				Counts  countsRow `gorm:"embedded"`
			}
			err := suppressedFor(tx.Table("finding_suppressions AS hs"), current).
				Where("hs.reach IN ? AND ip.image_pk IN ?", some, part).
				Select("ip.image_pk, " + severitySums()).Group("ip.image_pk").Scan(&rows).Error
			if err != nil {
				return nil, err
			}
			for i := range rows {
				sum := counts[rows[i].ImagePk]
				delta := rows[i].Counts.since(&countsRow{})
				sum.plus(&delta)
				counts[rows[i].ImagePk] = sum
			}
		}
	}
	return counts, nil
}

// suppressing returns the rows of reaches in which findings are suppressed: what follows from others, such as those of new decisions, is nothing.
func suppressing[T any](tx *gorm.DB, rows []T, reachOf func(T) int64) ([]T, error) {
	reaches := make([]int64, len(rows))
	for i, row := range rows {
		reaches[i] = reachOf(row)
	}
	some := map[int64]bool{}
	err := inParts(inOrder(reaches), func(part []int64) error {
		var found []int64
		err := tx.Raw("SELECT r.id FROM reaches r WHERE r.id IN ? AND EXISTS (SELECT 1 FROM finding_suppressions fs WHERE fs.reach = r.id)", part).Scan(&found).Error
		for _, id := range found {
			some[id] = true
		}
		return err
	})
	return slices.DeleteFunc(slices.Clone(rows), func(row T) bool { return !some[reachOf(row)] }), err
}

// suppressedFor joins rows hs of finding_suppressions with the findings f, the images' packages ip that have them and the vulnerabilities v, as far as they are
// open in the matched image.
func suppressedFor(rows *gorm.DB, current int64) *gorm.DB {
	return foundFor(rows).Where(open, current, current)
}

// foundFor is suppressedFor whether they are open or not. The finding comes before the packages: an image has hundreds, and one of them has the finding.
func foundFor(rows *gorm.DB) *gorm.DB {
	return rows.Joins("CROSS JOIN findings f").Joins("CROSS JOIN image_packages ip").Joins("CROSS JOIN vulnerabilities v").Joins("CROSS JOIN images k").
		Where("f.id = hs.finding_id AND ip.package_pk = f.package_pk AND ip.excluded = 0 AND v.id = f.vulnerability_pk AND k.id = ip.image_pk AND k.matched_at > 0")
}
