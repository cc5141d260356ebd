package sqlstore

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"gorm.io/gorm"
)

// tagsAtATime is how many lookups are compared in one transaction. Those that it leaves out have the result set 0 until CompareNewerTags compares them.
const tagsAtATime = 50

// noteTags notes lookups whose newer tags are others or have other findings, packages whose findings changed, and images that hold others.
func (t *txn) noteTags(lookups []string, packages []int64, images ...int64) {
	if t.tagLookups == nil {
		t.tagLookups, t.tagPackages, t.tagImages = map[string]bool{}, map[int64]bool{}, map[int64]bool{}
	}
	for _, id := range lookups {
		t.tagLookups[id] = true
	}
	for _, id := range packages {
		t.tagPackages[id] = true
	}
	for _, id := range images {
		t.tagImages[id] = true
	}
}

// noteTagsOf notes the lookups of which a newer tag has an image.
func (t *txn) noteTagsOf(image string) error {
	var lookups []string
	err := t.Raw("SELECT DISTINCT lookup FROM newer_tags WHERE image = ?", image).Scan(&lookups).Error
	t.noteTags(lookups, nil)
	return err
}

// refreshTagFixes compares newer tags again, as far as what was noted needs that, and counts what decisions changed. It follows refreshFixes.
func (t *txn) refreshTagFixes() error {
	if len(t.tagLookups)+len(t.tagPackages)+len(t.tagImages)+len(t.fixPackages)+len(t.fixImages) == 0 && !t.fixAll {
		return nil
	}
	current, err := currentNumber(t.DB)
	if err != nil || current == 0 {
		return err
	}
	lookups, before, err := t.tagsToCompare(current)
	if err != nil {
		return err
	}
	later := lookups[min(len(lookups), tagsAtATime):]
	lookups = lookups[:len(lookups)-len(later)]
	if err := t.compareTags(lookups, before, current); err != nil {
		return err
	}
	if err := t.compareLater(later, before); err != nil {
		return err
	}
	counted, err := t.tagsToCount(lookups, current)
	if err != nil {
		return err
	}
	return inParts(counted, func(part []int64) error { return t.countTagFixes(part, current) })
}

// notedTags lists the lookups whose newer tags have to be compared, in order.
func (t *txn) notedTags() ([]string, error) {
	lookups := maps.Clone(t.tagLookups)
	add := func(condition string, ids map[int64]bool) error {
		return inParts(slices.Sorted(maps.Keys(ids)), func(part []int64) error {
			var found []string
			// Those without a newer tag have nothing to compare.
			err := t.Raw("SELECT l.id FROM "+condition+" AND EXISTS (SELECT 1 FROM newer_tags n WHERE n.lookup = l.id)", part).Scan(&found).Error
			for _, id := range found {
				lookups[id] = true
			}
			return err
		})
	}
	const ofImage = "l.image_id = i.image_id AND l.platform = i.platform"
	if err := add("images i CROSS JOIN tag_lookups l WHERE i.id IN ? AND "+ofImage, t.tagImages); err != nil {
		return nil, err
	}
	// Few images have lookups, and many can hold a package.
	err := add("tag_lookups l CROSS JOIN images i WHERE "+ofImage+
		" AND EXISTS (SELECT 1 FROM image_packages ip WHERE ip.image_pk = i.id AND ip.package_pk IN ?)", t.tagPackages)
	return slices.Sorted(maps.Keys(lookups)), err
}

// comparedTags is a lookup that is compared.
type comparedTags struct {
	Lookup  string
	ImagePk int64
	Matched int64 `gorm:"column:matched_at"`
	// Waiting counts the newer tags that are to be matched with the current result set.
	Waiting int64
}

const waitingTags = "FROM newer_tags n JOIN tag_images m ON m.id = n.image WHERE n.problem = '' AND m.result_set <> ?"

// tagsToCompare returns the lookups that are compared, those of an image together, and the rows as they are. It leaves out those that show nothing while some
// of their tags are not matched: the tag that is matched first would be recommended until then.
func (t *txn) tagsToCompare(current int64) ([]comparedTags, map[string]tagFix, error) {
	noted, err := t.notedTags()
	if err != nil {
		return nil, nil, err
	}
	var lookups []comparedTags
	before := make(map[string]tagFix, len(noted))
	err = inParts(noted, func(part []string) error {
		var stored []tagFix
		if err := t.Raw("SELECT "+tagFixColumns+" FROM tag_fixes x WHERE x.lookup IN ?", part).Scan(&stored).Error; err != nil {
			return err
		}
		for _, row := range stored {
			before[row.Lookup] = row
		}
		var rows []comparedTags
		err := t.Raw("SELECT l.id AS lookup, i.id AS image_pk, i.matched_at, (SELECT COUNT(*) "+waitingTags+` AND n.lookup = l.id) AS waiting
			FROM tag_lookups l JOIN images i ON i.image_id = l.image_id AND i.platform = l.platform WHERE l.id IN ?`, current, part).Scan(&rows).Error
		lookups = append(lookups, slices.DeleteFunc(rows, func(row comparedTags) bool { return row.Waiting > 0 && before[row.Lookup].ResultSet != current })...)
		return err
	})
	slices.SortFunc(lookups, func(a, b comparedTags) int {
		return cmp.Or(cmp.Compare(a.ImagePk, b.ImagePk), cmp.Compare(a.Lookup, b.Lookup))
	})
	return lookups, before, err
}

// compareLater leaves lookups to CompareNewerTags. They show nothing until then.
func (t *txn) compareLater(lookups []comparedTags, before map[string]tagFix) error {
	var known []int64
	var values []any
	for i := range lookups {
		row := &lookups[i]
		if was, there := before[row.Lookup]; there {
			known = append(known, was.ID)
			continue
		}
		values = append(values, (&tagFix{Lookup: row.Lookup, ImagePk: row.ImagePk}).values()...)
	}
	err := inParts(known, func(part []int64) error { return t.Execute("UPDATE tag_fixes SET result_set = 0 WHERE id IN ?", part) })
	if err != nil {
		return err
	}
	return t.Insert("tag_fixes", tagFixInserted, values, "")
}

// CompareNewerTags implements store.TagLookups.
func (s *Store) CompareNewerTags(ctx context.Context) (more bool, err error) {
	const what = "compare newer tags"
	var ids []string
	err = s.read(ctx, what, func(tx *gorm.DB) error {
		ids = nil
		current, err := currentNumber(tx)
		if err != nil || current == 0 {
			return err
		}
		return tx.Raw("SELECT x.lookup FROM tag_fixes x WHERE x.result_set = 0 AND NOT EXISTS (SELECT 1 "+waitingTags+" AND n.lookup = x.lookup) ORDER BY x.lookup LIMIT ?",
			current, tagsAtATime).Scan(&ids).Error
	})
	if err != nil {
		return false, err
	}
	if len(ids) > 0 {
		err = s.write(ctx, what, func(tx *txn) error {
			tx.noteTags(ids, nil)
			return nil
		})
	}
	if err != nil || len(ids) == tagsAtATime {
		return err == nil, err
	}
	return s.knowBase(ctx)
}

// refreshAllTagFixes compares the newer tags of all lookups again.
func (s *Store) refreshAllTagFixes(ctx context.Context) error {
	for after := ""; ; {
		var ids []string
		err := s.write(ctx, "compare newer tags again", func(tx *txn) error {
			ids = nil
			err := tx.Raw("SELECT id FROM tag_lookups WHERE id > ? ORDER BY id LIMIT ?", after, tagsAtATime).Scan(&ids).Error
			tx.noteTags(ids, nil)
			return err
		})
		if err != nil || len(ids) == 0 {
			return err
		}
		after = ids[len(ids)-1]
	}
}

// tagsToCount lists the rows of a result set whose sums can have changed, in order.
func (t *txn) tagsToCount(compared []comparedTags, current int64) ([]int64, error) {
	var all []int64
	if err := t.Raw("SELECT id FROM tag_fixes WHERE result_set = ? ORDER BY id", current).Scan(&all).Error; err != nil || len(all) == 0 || t.fixAll {
		return all, err
	}
	var counted []int64
	add := func(condition string, part any) error {
		var ids []int64
		err := t.Table("tag_fixes AS x").Where("x.result_set = ?", current).Where(condition, part).Select("x.id").Scan(&ids).Error
		counted = append(counted, ids...)
		return err
	}
	lookups := make([]string, len(compared))
	for i := range compared {
		lookups[i] = compared[i].Lookup
	}
	err := inParts(lookups, func(part []string) error { return add("x.lookup IN ?", part) })
	if err != nil {
		return nil, err
	}
	err = inParts(slices.Sorted(maps.Keys(t.fixImages)), func(part []int64) error { return add("x.image_pk IN ?", part) })
	if err != nil {
		return nil, err
	}
	err = inParts(slices.Sorted(maps.Keys(t.fixPackages)), func(part []int64) error {
		return add("x.id IN (SELECT c.fix_pk FROM tag_closings c WHERE c.package_pk IN ?)", part)
	})
	return distinctIDs(counted), err
}
