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

// baseChild is a matched image that the query chooses, and the highest layer at which one of some images ends that it was built on.
type baseChild struct {
	Entry fixEntry `gorm:"embedded"`
	On    layer    `gorm:"embedded"`
}

// baseChildren reads the images that were built on images with these highest layers.
func (r *fixReader) baseChildren(tops map[layer][]*baseTag) ([]baseChild, error) {
	chosen := make(map[int64]bool, len(r.live))
	for _, id := range r.live {
		chosen[id] = true
	}
	highest := map[int64]baseChild{}
	var chains []string
	for top := range tops {
		chains = append(chains, top.ChainID)
	}
	slices.Sort(chains)
	err := inParts(slices.Compact(chains), func(part []string) error {
		var found []baseChild
		rows := r.tx.Table("image_layers AS l").Joins("JOIN images i ON i.id = l.image_pk AND i.matched_at > 0").Where("l.chain_id IN ? AND l.is_top = 0", part)
		if r.among == nil {
			rows = rows.Where("EXISTS (SELECT 1 FROM image_uses u WHERE u.image_pk = l.image_pk)")
		}
		err := rows.Select("l.image_pk, i.image_id, i.platform, l.chain_id, l.position").Scan(&found).Error
		for _, one := range found {
			id := one.Entry.Fix.ImagePk
			was, known := highest[id]
			if tops[one.On] != nil && (r.among == nil || r.among[id] || chosen[id]) && (!known || was.On.Position < one.On.Position) {
				highest[id] = one
			}
		}
		return err
	})
	children := make([]baseChild, 0, len(highest))
	for _, id := range slices.Sorted(maps.Keys(highest)) {
		children = append(children, highest[id])
	}
	return children, err
}

// baseEntries reads the entries of newer tags of bases, in no order: at most one for each image.
func (r *fixReader) baseEntries() ([]fixEntry, error) {
	if !r.keeps(fixBase, 1) {
		return nil, nil
	}
	bases, err := r.baseTags()
	if err != nil || len(bases) == 0 {
		return nil, err
	}
	tops := map[layer][]*baseTag{}
	for i := range bases {
		tops[bases[i].Top] = append(tops[bases[i].Top], &bases[i])
	}
	children, err := r.baseChildren(tops)
	if err != nil {
		return nil, err
	}
	images := map[int64][]int64{}
	for i := range children {
		for _, base := range tops[children[i].On] {
			images[base.Tag.Sums.ID] = append(images[base.Tag.Sums.ID], children[i].Entry.Fix.ImagePk)
		}
	}
	sums := map[[2]int64]tagSums{}
	err = r.eachBaseClosed(images, func(fix, image, _ int64, closed *tagClosed) {
		sum := sums[[2]int64{fix, image}]
		sum.add(closed)
		sums[[2]int64{fix, image}] = sum
	})
	if err != nil {
		return nil, err
	}
	var entries []fixEntry
	for i := range children {
		entry := &children[i].Entry
		var best *baseTag
		for _, base := range tops[children[i].On] {
			one := *base
			id := one.Tag.Sums.ID
			one.Tag.Sums = sums[[2]int64{id, entry.Fix.ImagePk}]
			one.Tag.Sums.ID = id
			if best == nil || one.better(best) {
				best = &one
			}
		}
		if !best.Tag.pays() || !r.keeps(fixBase, best.Tag.Sums.Kev) {
			continue
		}
		s := &best.Tag.Sums
		entry.Fix = imageFix{
			ImagePk: entry.Fix.ImagePk, Action: fixBase, PackagePk: s.ID, Fingerprint: best.Tag.Lookup, RiskMicros: s.RiskMicros, Kev: s.Kev, Findings: s.Findings,
		}
		entries = append(entries, *entry)
	}
	return r.overdueTags(entries)
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
		err = r.eachHeld(children, packages, func(image, id int64) {
			for _, fix := range on[image] {
				sums := closed[id][fix]
				if sums != nil && len(hidden) > 0 {
					sums = sums.without(hidden[[2]int64{image, id}], found.lists[fix])
				}
				if sums != nil && sums.findings > 0 {
					visit(fix, image, id, sums)
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
	err := eachHolding(images, found.divided, func(images, findings []int64) error {
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

// eachHeld calls visit for each of some packages that one of some images holds, in order. Packages are read for all images at once if these are many.
func (r *fixReader) eachHeld(images, packages []int64, visit func(image, packageID int64)) error {
	chosen := make(map[int64]bool, len(images))
	for _, id := range images {
		chosen[id] = true
	}
	read := func(query *gorm.DB) error {
		return eachList(query.Where("ip.excluded = 0"), r.s.db.Dialect(), "ip.package_pk", "ip.image_pk", func(id int64, list []int64) {
			for _, image := range list {
				if chosen[image] {
					visit(image, id)
				}
			}
		})
	}
	held := func(packages []int64) *gorm.DB {
		return r.tx.Table("image_packages AS ip").Where("ip.package_pk IN ?", packages)
	}
	if len(images) > r.s.fewImages {
		return inParts(packages, func(part []int64) error { return read(held(part)) })
	}
	return eachHolding(images, packages, func(images, packages []int64) error { return read(held(packages).Where("ip.image_pk IN ?", images)) })
}
