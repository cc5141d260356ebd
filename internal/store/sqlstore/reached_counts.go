package sqlstore

import (
	"maps"
	"slices"

	"gorm.io/gorm"
)

// reached_counts has, of each reach with places and each matched image of which it has any place, how many findings it suppresses in these places that nothing else
// suppresses in the whole image. If the reach has not all places of the image, they count in it, and the counts of some places are those of the image without them:
// no list reads the findings. The table has no rows without counts, and is written with what it follows from, as the counts of images are.

// reachedCount is a row of reached_counts.
type reachedCount struct {
	Reach, ImagePk int64
	Counts         countsRow `gorm:"embedded"`
}

var reachedCountColumns = append([]string{"reach", "image_pk"}, countColumns...)

// reachedDeltas are what is added to reached_counts.
type reachedDeltas map[imageReach]countsDelta

// reachedPlaces has the images of which reaches with places have some place.
type reachedPlaces map[int64]map[int64]bool

// readReachedPlaces reads the places of the reaches of sets, which is nothing while no decision has places.
func readReachedPlaces(tx *gorm.DB, sets []reachSet) (reachedPlaces, error) {
	if placed, err := somePlaced(tx); err != nil || !placed {
		return nil, err
	}
	c, err := newCovers(seen{}, sets)
	if err != nil {
		return nil, err
	}
	err = inParts(slices.Sorted(maps.Keys(c.reached)), func(part []int64) error {
		return c.note(tx.Table("reached_namespaces AS x").Where("x.reach IN ?", part))
	})
	return c.reached, err
}

// add notes what becomes of the counts of findings with a set in an image.
func (d reachedDeltas) add(places reachedPlaces, suppressed *covers, set reachSet, image int64, delta *countsDelta) {
	for _, reach := range suppressed.sets[set] {
		if places[reach][image] && !suppressed.hasBut(set, reach, image) {
			at := imageReach{reach, image}
			sum := d[at]
			sum.plus(delta)
			d[at] = sum
		}
	}
}

// addToReached adds to the counts of matched images.
func (t *txn) addToReached(deltas reachedDeltas) error {
	byImage := map[int64][]imageReach{}
	for at, delta := range deltas {
		if delta != (countsDelta{}) {
			byImage[at.ImagePk] = append(byImage[at.ImagePk], at)
		}
	}
	return inParts(slices.Sorted(maps.Keys(byImage)), func(part []int64) error {
		var matched []int64
		if err := t.Raw("SELECT id FROM images WHERE matched_at > 0 AND id IN ? ORDER BY id", part).Scan(&matched).Error; err != nil || len(matched) == 0 {
			return err
		}
		before, err := readReachedCounts(t.Table("reached_counts AS c").Where("c.image_pk IN ?", matched))
		if err != nil {
			return err
		}
		after := maps.Clone(before)
		for _, image := range matched {
			for _, at := range byImage[image] {
				counts := after[at]
				counts.add(deltas[at])
				after[at] = counts
			}
		}
		return t.replaceReached(before, after)
	})
}

func readReachedCounts(query *gorm.DB) (map[imageReach]countsRow, error) {
	var rows []reachedCount
	err := query.Select("c.reach, c.image_pk, " + perCount("c.%[1]s")).Scan(&rows).Error
	counts := make(map[imageReach]countsRow, len(rows))
	for _, row := range rows {
		counts[imageReach{row.Reach, row.ImagePk}] = row.Counts
	}
	return counts, err
}

// replaceReached writes the rows that differ.
func (t *txn) replaceReached(before, after map[imageReach]countsRow) error {
	var gone []imageReach
	var values []any
	for at, was := range before {
		if after[at] != was {
			gone = append(gone, at)
		}
	}
	for _, at := range slices.SortedFunc(maps.Keys(after), imageReach.compare) {
		if is := after[at]; is != (countsRow{}) && is != before[at] {
			values = append(values, at.Reach, at.ImagePk)
			for _, count := range is.columns() {
				values = append(values, *count)
			}
		}
	}
	err := eachOfReached(gone, func(condition string, one int64, others []int64) error {
		return t.Execute("DELETE FROM reached_counts WHERE "+condition, one, others)
	})
	if err != nil {
		return err
	}
	return t.Insert("reached_counts", reachedCountColumns, values, "")
}

// eachOfReached calls visit with conditions and their values that select these rows together: with one reach and many images, or with one image and many reaches.
func eachOfReached(rows []imageReach, visit func(condition string, one int64, others []int64) error) error {
	byReach, byImage := map[int64][]int64{}, map[int64][]int64{}
	for _, row := range rows {
		byReach[row.Reach] = append(byReach[row.Reach], row.ImagePk)
		byImage[row.ImagePk] = append(byImage[row.ImagePk], row.Reach)
	}
	groups, condition := byReach, "reach = ? AND image_pk IN ?"
	if len(byImage) < len(byReach) {
		groups, condition = byImage, "image_pk = ? AND reach IN ?"
	}
	for _, one := range slices.Sorted(maps.Keys(groups)) {
		if err := inParts(inOrder(groups[one]), func(part []int64) error { return visit(condition, one, part) }); err != nil {
			return err
		}
	}
	return nil
}

// recountReached counts again what reaches suppress in images.
func (t *txn) recountReached(rows []imageReach) error {
	rows, err := suppressing(t.DB, rows, func(row imageReach) int64 { return row.Reach })
	if err != nil || len(rows) == 0 {
		return err
	}
	return eachOfReached(rows, func(condition string, one int64, others []int64) error {
		return t.recountReachedWhere(condition, one, others)
	})
}

// recountReachedOf counts again what all reaches suppress in images.
func (t *txn) recountReachedOf(images []int64) error {
	if placed, err := somePlaced(t.DB); err != nil || !placed {
		return err
	}
	return inParts(images, func(part []int64) error { return t.recountReachedWhere("image_pk IN ?", part) })
}

// recountReachedWhere makes rows what they should be. The condition is about the columns reach and image_pk.
func (t *txn) recountReachedWhere(condition string, values ...any) error {
	current, err := currentNumber(t.DB)
	if err != nil {
		return err
	}
	before, err := readReachedCounts(t.Table("(?) AS c", t.Table("reached_counts").Where(condition, values...)))
	if err != nil {
		return err
	}
	places := t.Table("(?) AS y", t.Table("reached_namespaces").Distinct("reach, image_pk").Where(condition, values...))
	counted := foundFor(places.Joins("CROSS JOIN finding_suppressions hs").Where("hs.reach = y.reach AND ip.image_pk = y.image_pk")).
		Where(shown, current, current).Where(`NOT EXISTS (SELECT 1 FROM finding_suppressions fs WHERE fs.finding_id = f.id AND fs.reach <> y.reach
			AND (fs.reach = 0 OR EXISTS (SELECT 1 FROM reached x WHERE x.reach = fs.reach AND x.image_pk = y.image_pk)))`).
		Select("y.reach, y.image_pk, " + severitySums()).Group("y.reach, y.image_pk")
	after, err := readReachedCounts(t.Table("(?) AS c", counted))
	if err != nil {
		return err
	}
	return t.replaceReached(before, after)
}

// hidden are the counts that findings of matched images have elsewhere only, by columns of closed: a table y of reaches and images.
func hidden(closed *gorm.DB, columns string) *gorm.DB {
	return sumsOfReached(closed.Joins("JOIN reached_counts c ON c.reach = y.reach AND c.image_pk = y.image_pk").
		Where("NOT EXISTS (SELECT 1 FROM reached ca WHERE ca.reach = c.reach AND ca.image_pk = c.image_pk)"), columns)
}

// sumsOfReached sums up rows c of reached_counts by columns.
func sumsOfReached(rows *gorm.DB, columns string) *gorm.DB {
	return rows.Select(columns + ", " + perCount("SUM(c.%[1]s) AS %[1]s")).Group(columns)
}
