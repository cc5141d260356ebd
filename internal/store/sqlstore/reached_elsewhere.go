package sqlstore

import (
	"maps"

	"gorm.io/gorm"
)

// reached_elsewhere has the rows of reached_namespaces by namespace, without those of images of which the reach has all places. They are few where most images run in
// one namespace, and only they can make findings count differently for who sees some namespaces. Reads look up what they name, so a row too many changes nothing.

// elsewhere are the rows of reached_elsewhere that follow from p.
func (p *placements) elsewhere() map[namespaceReach]bool {
	rows := map[namespaceReach]bool{}
	for row := range p.namespaces {
		if !p.images[imageReach{row.Reach, row.ImagePk}] {
			row.Partly = 0
			rows[row] = true
		}
	}
	return rows
}

// replaceElsewhere writes the rows that differ.
func (t *txn) replaceElsewhere(before, after map[namespaceReach]bool) error {
	var pairs []imageReach
	again := maps.Clone(after)
	gone := map[imageReach]bool{}
	for _, row := range without(before, after, namespaceReach.compare) {
		if pair := (imageReach{row.Reach, row.ImagePk}); !gone[pair] {
			gone[pair] = true
			pairs = append(pairs, pair)
		}
	}
	for row := range before {
		if !gone[imageReach{row.Reach, row.ImagePk}] {
			delete(again, row)
		}
	}
	err := eachOfReached(pairs, func(condition string, one int64, others []int64) error {
		return t.Execute("DELETE FROM reached_elsewhere WHERE "+condition, one, others)
	})
	if err != nil {
		return err
	}
	var values []any
	for _, row := range without(again, nil, namespaceReach.compare) {
		values = append(values, row.Namespace, row.ImagePk, row.Reach)
	}
	columns := []string{"namespace", "image_pk", "reach"}
	return t.Insert("reached_elsewhere", columns, values, t.Dialect.IgnoreConflict(columns...))
}

// refreshElsewhere makes the rows of images what they should be.
func (t *txn) refreshElsewhere(images []int64) error {
	read := func(rows *gorm.DB) (map[namespaceReach]bool, error) {
		var found []namespaceReach
		err := rows.Where("y.image_pk IN ?", images).Select("y.reach, y.image_pk, y.namespace").Scan(&found).Error
		all := make(map[namespaceReach]bool, len(found))
		for _, row := range found {
			all[row] = true
		}
		return all, err
	}
	before, err := read(t.Table("reached_elsewhere AS y"))
	if err != nil {
		return err
	}
	after, err := read(t.Table("reached_namespaces AS y").Where("NOT EXISTS (SELECT 1 FROM reached x WHERE x.reach = y.reach AND x.image_pk = y.image_pk)"))
	if err != nil {
		return err
	}
	return t.replaceElsewhere(before, after)
}
