package sqlstore

import (
	"context"
	"maps"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// Most of the images on a base have all of its packages. base_lacks has those that they lack, of bases with newer tags, so that few rows are read of thousands of
// images. An image changes its rows in the transaction that changes its packages or layers. All images on a base are read by CompareNewerTags, since that takes
// longer: until then, and again after a change of the base itself, what they hold is read from image_packages with each list.

// lackPart is the part of the packages that images should hold which they may lack, for it to be worth while to keep these.
const lackPart = 8

// maxLacks bounds what is kept of the images on one base.
const maxLacks = 200_000

// isBuiltOn joins the layers l of images with the highest layers t of the bases that they were built on.
const isBuiltOn = "l.chain_id = t.chain_id AND l.position = t.position AND l.is_top = 0 AND t.is_top = 1"

// noteLacks notes images that hold other packages, or have other layers.
func (t *txn) noteLacks(images ...int64) {
	if t.lackImages == nil {
		t.lackImages = map[int64]bool{}
	}
	for _, id := range images {
		t.lackImages[id] = true
	}
}

// refreshLacks writes what the images that were noted lack, and forgets what others lack of them.
func (t *txn) refreshLacks() error {
	var known int64
	if len(t.lackImages) == 0 {
		return nil
	}
	if err := t.Raw("SELECT COUNT(*) FROM known_bases").Scan(&known).Error; err != nil || known == 0 {
		return err
	}
	return inParts(slices.Sorted(maps.Keys(t.lackImages)), func(part []int64) error {
		for _, statement := range []string{
			"DELETE FROM known_bases WHERE base_pk IN ?",
			"DELETE FROM base_lacks WHERE image_pk IN ?",
			`INSERT INTO base_lacks (base_pk, image_pk, package_pk) SELECT t.image_pk, l.image_pk, b.package_pk
				FROM image_layers l CROSS JOIN image_layers t CROSS JOIN known_bases k CROSS JOIN image_packages b
				WHERE l.image_pk IN ? AND ` + isBuiltOn + ` AND k.base_pk = t.image_pk AND k.complete = 1 AND b.image_pk = t.image_pk AND b.excluded = 0
				AND NOT EXISTS (SELECT 1 FROM image_packages c WHERE c.image_pk = l.image_pk AND c.package_pk = b.package_pk AND c.excluded = 0)`,
		} {
			if err := t.Execute(statement, part); err != nil {
				return err
			}
		}
		return nil
	})
}

// unknownBases selects the images t with newer tags and with images on them which are not among the known bases.
const unknownBases = `FROM tag_fixes x CROSS JOIN image_layers t WHERE t.image_pk = x.image_pk AND t.is_top = 1
	AND NOT EXISTS (SELECT 1 FROM known_bases k WHERE k.base_pk = t.image_pk) AND EXISTS (SELECT 1 FROM image_layers l WHERE ` + isBuiltOn + ")"

// withoutTags selects the known bases without a newer tag, and those that nothing was built on.
const withoutTags = `NOT EXISTS (SELECT 1 FROM tag_fixes x WHERE x.image_pk = known_bases.base_pk)
	OR NOT EXISTS (SELECT 1 FROM image_layers t CROSS JOIN image_layers l WHERE t.image_pk = known_bases.base_pk AND ` + isBuiltOn + ")"

// knowBase reads what the images on one of the bases lack that are not known, and forgets bases that are of no use. more says that there may be others.
func (s *Store) knowBase(ctx context.Context) (more bool, err error) {
	const what = "read which packages of a base image others lack"
	var bases, useless []int64
	err = s.read(ctx, what, func(tx *gorm.DB) error {
		bases, useless = nil, nil
		if err := tx.Raw("SELECT base_pk FROM known_bases WHERE "+withoutTags+" ORDER BY base_pk LIMIT ?", sqldb.MaxIn).Scan(&useless).Error; err != nil {
			return err
		}
		return tx.Raw("SELECT DISTINCT t.image_pk " + unknownBases + " ORDER BY t.image_pk LIMIT 2").Scan(&bases).Error
	})
	if err != nil || len(bases)+len(useless) == 0 {
		return false, err
	}
	return len(bases) > 1, s.write(ctx, what, func(tx *txn) error {
		if len(useless) > 0 {
			if err := tx.Execute("DELETE FROM known_bases WHERE base_pk IN ? AND ("+withoutTags+")", useless); err != nil {
				return err
			}
		}
		var still []int64
		if err := tx.Raw("SELECT t.image_pk "+unknownBases+" AND t.image_pk IN ?", append(bases[:min(len(bases), 1)], 0)).Scan(&still).Error; err != nil || len(still) == 0 {
			return err
		}
		return tx.refreshBase(still[0], s.lackPart)
	})
}

// refreshKnownBases reads again what the images on all known bases lack.
func (s *Store) refreshKnownBases(ctx context.Context) error {
	for after := int64(0); ; {
		var ids []int64
		err := s.write(ctx, "read which packages of base images others lack again", func(tx *txn) error {
			ids = nil
			err := tx.Raw("SELECT base_pk FROM known_bases WHERE base_pk > ? ORDER BY base_pk LIMIT 1", after).Scan(&ids).Error
			if err != nil || len(ids) == 0 {
				return err
			}
			return tx.refreshBase(ids[0], s.lackPart)
		})
		if err != nil || len(ids) == 0 {
			return err
		}
		after = ids[0]
	}
}

// lack is a package of a base that an image lacks.
type lack struct{ ImagePk, PackagePk int64 }

// refreshBase makes a base a known one, and its rows what they should be. It writes what differs. Images may lack a part of what they should hold.
func (t *txn) refreshBase(base int64, lackPart int) error {
	var images, packages []int64
	if err := t.Raw("SELECT l.image_pk FROM image_layers t CROSS JOIN image_layers l WHERE t.image_pk = ? AND "+isBuiltOn+" ORDER BY l.image_pk", base).Scan(&images).Error; err != nil {
		return err
	}
	if err := t.Raw("SELECT package_pk FROM image_packages WHERE image_pk = ? AND excluded = 0 ORDER BY package_pk", base).Scan(&packages).Error; err != nil {
		return err
	}
	most := min(len(images)*len(packages)/lackPart, maxLacks)
	wanted := map[lack]bool{}
	complete := true
	err := eachHeld(t.DB, t.Dialect, fewImages, images, packages, func(id int64, holders []int64) {
		for _, image := range lacking(images, holders) {
			if complete = complete && len(wanted) <= most; !complete {
				return
			}
			wanted[lack{image, id}] = true
		}
	})
	if err != nil {
		return err
	}
	if complete = complete && len(wanted) <= most; !complete {
		clear(wanted)
	}
	var before []int64
	if err := t.Raw("SELECT complete FROM known_bases WHERE base_pk = ?", base).Scan(&before).Error; err != nil {
		return err
	}
	switch {
	case len(before) == 0:
		err = t.Insert("known_bases", []string{"base_pk", "complete"}, []any{base, boolean(complete)}, "")
	case before[0] != boolean(complete):
		err = t.Execute("UPDATE known_bases SET complete = ? WHERE base_pk = ?", boolean(complete), base)
	}
	if err != nil {
		return err
	}
	return t.saveLacks(base, wanted)
}

// saveLacks makes the rows of a base those that are wanted.
func (t *txn) saveLacks(base int64, wanted map[lack]bool) error {
	var rows []lack
	if err := t.Raw("SELECT image_pk, package_pk FROM base_lacks WHERE base_pk = ?", base).Scan(&rows).Error; err != nil {
		return err
	}
	gone := map[int64][]int64{} // By package.
	for _, row := range rows {
		if wanted[row] {
			delete(wanted, row)
		} else {
			gone[row.PackagePk] = append(gone[row.PackagePk], row.ImagePk)
		}
	}
	for id, images := range gone {
		err := inParts(images, func(part []int64) error {
			return t.Execute("DELETE FROM base_lacks WHERE base_pk = ? AND package_pk = ? AND image_pk IN ?", base, id, part)
		})
		if err != nil {
			return err
		}
	}
	var values []any
	for row := range wanted {
		values = append(values, base, row.ImagePk, row.PackagePk)
	}
	return t.Insert("base_lacks", []string{"base_pk", "image_pk", "package_pk"}, values, "")
}

// lacking lists those of some images that are not among the holders of a package.
func lacking(images, holders []int64) []int64 {
	held := make(map[int64]bool, len(holders))
	for _, image := range holders {
		held[image] = true
	}
	var list []int64
	for _, image := range images {
		if !held[image] {
			list = append(list, image)
		}
	}
	return list
}

// eachHeld calls visit for each of some packages, once, with those of some images that hold it, and also with others. Packages are read for all images at once if
// these are more than a few.
func eachHeld(tx *gorm.DB, d sqldb.Dialect, few int, images, packages []int64, visit func(id int64, holders []int64)) error {
	held := func(packages []int64) *gorm.DB {
		return tx.Table("image_packages AS ip").Where("ip.package_pk IN ? AND ip.excluded = 0", packages)
	}
	read := func(query *gorm.DB, visit func(id int64, holders []int64)) error {
		return eachList(query, d, "ip.package_pk", "ip.image_pk", visit)
	}
	visited := make(map[int64]bool, len(packages))
	once := func(id int64, holders []int64) {
		visited[id] = true
		visit(id, holders)
	}
	if len(images) > few {
		if err := inParts(packages, func(part []int64) error { return read(held(part), once) }); err != nil {
			return err
		}
	} else {
		var asked numberSet
		for _, id := range packages {
			asked.add(id)
		}
		lists := map[int64][]int64{}
		err := eachPackageList(tx, d, images, func(image int64, list []int64) {
			for _, id := range list {
				if id%2 == 0 && asked.has(id/2) { // The image does not exclude it.
					lists[id/2] = append(lists[id/2], image)
				}
			}
		})
		if err != nil {
			return err
		}
		for id, holders := range lists {
			once(id, holders)
		}
	}
	for _, id := range packages {
		if !visited[id] {
			visit(id, nil)
		}
	}
	return nil
}
