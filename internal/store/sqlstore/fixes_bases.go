package sqlstore

import (
	"cmp"
	"maps"
	"slices"

	"gorm.io/gorm"
)

// What newer tags of base images close in the images that were built on them. An image was built on another one if its lowest layers are all those of the other
// one. It has the packages of its base but for those that it replaced or removed, so that the newer tag closes there what it closes in the base, as far as the
// image still has the package.

// layer is a layer with all below it: a diff ID that an image states can be the chain ID of a higher layer of another one.
type layer struct {
	ChainID  string
	Position int64
}

// baseTag is a newer tag of an image, with the highest layer of that image.
type baseTag struct {
	Tag tagRow `gorm:"embedded"`
	Top layer  `gorm:"embedded"`
}

// better compares newer tags by the risk that remains removed after what they open, then by findings.
func (b *baseTag) better(o *baseTag) bool {
	risk, findings := b.Tag.Sums.RiskMicros-b.Tag.OpenedRisk, b.Tag.Sums.Findings-b.Tag.OpenedFindings
	return cmp.Or(cmp.Compare(risk, o.Tag.Sums.RiskMicros-o.Tag.OpenedRisk), cmp.Compare(findings, o.Tag.Sums.Findings-o.Tag.OpenedFindings),
		cmp.Compare(o.Tag.Lookup, b.Tag.Lookup)) > 0
}

// baseTags reads the newer tags of the images that run where the lookup is visible, wherever the query chooses workloads: a base need not run beside what was
// built on it.
func (r *fixReader) baseTags() ([]baseTag, error) {
	seen := uses(r.tx.Table("image_uses AS u").Joins("CROSS JOIN tag_lookup_places p").Where(usedThere), place{in: r.chosen.in}).Select("1")
	var bases []baseTag
	err := r.allTags().Joins("JOIN image_layers t ON t.image_pk = x.image_pk AND t.is_top = 1").Where("EXISTS (?)", seen).
		Select(tagRowColumns + ", t.chain_id, t.position").Order("x.id").Scan(&bases).Error
	return bases, err
}

// baseChildren reads the matched images that the query chooses and that were built on images with these highest layers, by the highest of these layers. If it is about
// overdue findings in all images, there can be others, which have none.
func (r *fixReader) baseChildren(tops map[layer][]*baseTag) (map[layer][]int64, error) {
	byImage := make(map[int64]layer, len(tops))
	for top, tags := range tops {
		byImage[tags[0].Tag.ImagePk] = top // Copies of a base have the same children.
	}
	built := map[layer][]int64{}
	read := func(children *gorm.DB) error {
		return eachList(children, r.s.db.Dialect(), "t.image_pk", "l.image_pk", func(base int64, list []int64) {
			built[byImage[base]] = append(built[byImage[base]], list...)
		})
	}
	err := inParts(slices.Sorted(maps.Keys(byImage)), func(part []int64) error {
		children := r.tx.Table("image_layers AS t").Joins("CROSS JOIN image_layers l").Where("t.image_pk IN ? AND "+isBuiltOn, part).Session(&gorm.Session{})
		switch {
		case r.among == nil && r.query.Overdue: // It is not read which of them run and are matched: others have no overdue findings.
			return read(children)
		case r.among == nil:
			return read(children.Joins("CROSS JOIN images i").Where("i.id = l.image_pk AND i.matched_at > 0").
				Where("EXISTS (SELECT 1 FROM image_uses u WHERE u.image_pk = l.image_pk)"))
		case len(r.among)+len(r.live) <= r.s.fewImages:
			chosen := distinctIDs(slices.Concat(slices.Collect(maps.Keys(r.among)), r.live))
			return inParts(chosen, func(part []int64) error { return read(children.Where("l.image_pk IN ?", part)) })
		default:
			return read(children)
		}
	})
	if err != nil {
		return nil, err
	}
	taken := map[int64]bool{}
	if r.among != nil {
		chosen := make(map[int64]bool, len(r.live))
		for _, id := range r.live {
			chosen[id] = true
		}
		for top, list := range built {
			built[top] = slices.DeleteFunc(list, func(id int64) bool { return !r.among[id] && !chosen[id] })
		}
	}
	for _, top := range slices.SortedFunc(maps.Keys(built), func(a, b layer) int { return cmp.Compare(b.Position, a.Position) }) {
		built[top] = slices.DeleteFunc(built[top], func(id int64) bool { return taken[id] })
		for _, id := range built[top] {
			taken[id] = true
		}
	}
	return built, nil
}

// eachBaseClosed calls visit for each package of an image in which a newer tag of its base closes a finding that counts, with the sums of these findings, which
// must not be changed. images are those on the image of each row of tag_fixes: a base can have thousands, so that what it closes is read once.
func (r *fixReader) eachBaseClosed(images map[int64][]int64, visit func(fix, image, packageID int64, closed *tagClosed)) error {
	for part := range slices.Chunk(slices.Sorted(maps.Keys(images)), closedTags) {
		found, err := readClosings(r.tx, r.s.db.Dialect(), r.current, part)
		if err != nil {
			return err
		}
		on := map[int64][]int64{}                  // The rows by image.
		closed := map[int64]map[int64]*tagClosed{} // By package and row.
		for _, fix := range part {
			for _, image := range images[fix] {
				on[image] = append(on[image], fix)
			}
			for id, sums := range found.sums(fix, nil) {
				if closed[id] == nil {
					closed[id] = map[int64]*tagClosed{}
				}
				closed[id][fix] = sums
			}
		}
		children, packages := slices.Sorted(maps.Keys(on)), slices.Sorted(maps.Keys(closed))
		hidden, err := r.hiddenIn(children, &found)
		if err != nil {
			return err
		}
		err = eachHeld(r.tx, r.s.db.Dialect(), r.s.fewImages, children, packages, func(id int64, holders []int64) {
			for _, image := range holders {
				for _, fix := range on[image] {
					sums := closed[id][fix]
					if sums != nil && len(hidden) > 0 {
						sums = sums.without(hidden[[2]int64{image, id}], found.lists[fix])
					}
					if sums != nil && sums.findings > 0 {
						visit(fix, image, id, sums)
					}
				}
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// without are the sums without some findings, as far as they are in a list.
func (c *tagClosed) without(hidden []*closedFinding, list []int64) *tagClosed {
	if len(hidden) == 0 {
		return c
	}
	left := *c
	for _, f := range hidden {
		if slices.Contains(list, f.ID) {
			left.add(f, -1)
		}
	}
	return &left
}

// hiddenIn reads which of the divided findings are suppressed in images, by image and package.
func (r *fixReader) hiddenIn(images []int64, found *closings) (map[[2]int64][]*closedFinding, error) {
	hidden := map[[2]int64][]*closedFinding{}
	err := eachPartOfBoth(images, found.divided, func(images, findings []int64) error {
		var rows []struct{ ImagePk, FindingID int64 }
		held := r.tx.Table("findings AS f").Joins("CROSS JOIN image_packages ip").
			Where("f.id IN ? AND ip.package_pk = f.package_pk AND ip.excluded = 0 AND ip.image_pk IN ?", findings, images)
		err := r.hide(held, "f.id").Select("ip.image_pk, f.id AS finding_id").Scan(&rows).Error
		for _, row := range rows {
			f := found.findings[row.FindingID]
			key := [2]int64{row.ImagePk, f.PackagePk}
			hidden[key] = append(hidden[key], f)
		}
		return err
	})
	return hidden, err
}
