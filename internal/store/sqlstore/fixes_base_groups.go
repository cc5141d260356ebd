package sqlstore

import (
	"maps"
	"slices"
)

// A newer tag of a base closes the same in most of the thousands of images on it. So they are counted in groups: images that lack packages of the base, or in
// which decisions suppress findings that others have, are told apart from what the others have in common.

// baseEntries reads the entries of a page that are newer tags of bases, at most one for each image, and counts those of all pages.
func (r *fixReader) baseEntries() (entries []fixEntry, total int, err error) {
	if !r.keeps(fixBase, 1) {
		return nil, 0, nil
	}
	groups, err := r.baseGroups()
	if err != nil || len(groups) == 0 {
		return nil, 0, err
	}
	if r.query.Overdue {
		if groups, err = r.overdueGroups(groups); err != nil {
			return nil, 0, err
		}
	}
	for i := range groups {
		total += len(groups[i].images)
	}
	entries, err = r.entriesOf(r.groupsBehind(groups), r.query.Limit()+1)
	return entries, total, err
}

// overdueGroups counts the overdue findings of groups in each image, and tells those with other numbers apart. It leaves out images without.
func (r *fixReader) overdueGroups(groups []fixGroup) ([]fixGroup, error) {
	var fixes, images []int64
	for i := range groups {
		fixes, images = append(fixes, groups[i].fix.PackagePk), append(images, groups[i].images...)
	}
	counter, err := r.closedCounter(distinctIDs(fixes), distinctIDs(images))
	if err != nil || counter == nil {
		return nil, err
	}
	var counted []fixGroup
	for i := range groups {
		fix := groups[i].fix
		byCount := map[int][]int64{}
		for _, image := range groups[i].images {
			if count := counter.count(fixBase, fix.PackagePk, image); count > 0 {
				byCount[count] = append(byCount[count], image)
			}
		}
		for count, images := range byCount {
			counted = append(counted, fixGroup{fix: fix, images: images, overdue: count})
		}
	}
	slices.SortFunc(counted, func(a, b fixGroup) int { return a.compare(&b) })
	return counted, nil
}

// baseGroups reads what newer tags of bases do, in the order of their risk.
func (r *fixReader) baseGroups() ([]fixGroup, error) {
	bases, err := r.baseTags()
	if err != nil || len(bases) == 0 {
		return nil, err
	}
	tops := map[layer][]*baseTag{}
	for i := range bases {
		tops[bases[i].Top] = append(tops[bases[i].Top], &bases[i])
	}
	built, err := r.baseChildren(tops)
	if err != nil {
		return nil, err
	}
	groups := map[imageFix][]int64{}
	r.lacked = map[int64][]int64{}
	var parts []*builtOn
	number := 0
	for top, images := range built {
		if len(images) > 0 {
			parts = append(parts, &builtOn{tags: tops[top], images: images})
			number += len(tops[top])
		}
		if number >= closedTags {
			if err := r.groupBuilt(parts, groups); err != nil {
				return nil, err
			}
			parts, number = nil, 0
		}
	}
	if err := r.groupBuilt(parts, groups); err != nil {
		return nil, err
	}
	list := make([]fixGroup, 0, len(groups))
	for fix, images := range groups {
		list = append(list, fixGroup{fix: fix, images: images})
	}
	slices.SortFunc(list, func(a, b fixGroup) int { return a.compare(&b) })
	return list, nil
}

// builtOn is images that were built on bases with the same layers, and the newer tags of these bases.
type builtOn struct {
	tags   []*baseTag
	images []int64
	// closed is what each tag closes in an image that has all packages of the base, by package.
	closed []map[int64]*tagClosed
	// lacked lists the packages of those that images lack, of images that do.
	lacked map[int64][]int64
}

// groupBuilt adds images to groups by what is best for each, without a number of the image.
func (r *fixReader) groupBuilt(parts []*builtOn, groups map[imageFix][]int64) error {
	if len(parts) == 0 {
		return nil
	}
	var fixes, images []int64
	for _, b := range parts {
		images = append(images, b.images...)
		for _, tag := range b.tags {
			fixes = append(fixes, tag.Tag.Sums.ID)
		}
	}
	found, err := readClosings(r.tx, r.s.db.Dialect(), r.current, distinctIDs(fixes))
	if err != nil {
		return err
	}
	for _, b := range parts {
		for _, tag := range b.tags {
			b.closed = append(b.closed, found.sums(tag.Tag.Sums.ID, nil))
		}
	}
	if err := r.readLacked(parts); err != nil {
		return err
	}
	hidden, err := r.hiddenIn(images, &found)
	if err != nil {
		return err
	}
	without := map[int64][]*closedFinding{}
	for key, list := range hidden {
		without[key[0]] = append(without[key[0]], list...)
	}
	if r.query.Overdue {
		for _, b := range parts {
			maps.Copy(r.lacked, b.lacked)
		}
	}
	for _, b := range parts {
		b.group(without, found.lists, func(fix *imageFix, image int64) {
			if r.keeps(fixBase, fix.Kev) {
				groups[*fix] = append(groups[*fix], image)
			}
		})
	}
	return nil
}

// readLacked reads which packages images lack in which newer tags of their bases close findings.
func (r *fixReader) readLacked(parts []*builtOn) error {
	var bases, images []int64
	on := map[int64]*builtOn{}
	for _, b := range parts {
		b.lacked = map[int64][]int64{}
		for _, tag := range b.tags {
			bases = append(bases, tag.Tag.ImagePk)
		}
		for _, image := range b.images {
			on[image] = b
		}
	}
	known := map[int64]bool{}
	err := inParts(distinctIDs(bases), func(part []int64) error {
		var complete []int64
		if err := r.tx.Raw("SELECT base_pk FROM known_bases WHERE base_pk IN ? AND complete = 1", part).Scan(&complete).Error; err != nil || len(complete) == 0 {
			return err
		}
		for _, id := range complete {
			known[id] = true
		}
		lacks := r.tx.Table("base_lacks AS x").Where("x.base_pk IN ?", complete)
		return eachList(lacks, r.s.db.Dialect(), "x.package_pk", "x.image_pk", func(id int64, list []int64) {
			for _, image := range list {
				if b := on[image]; b != nil {
					b.lacked[image] = append(b.lacked[image], id)
				}
			}
		})
	})
	if err != nil {
		return err
	}
	unknown := map[int64][]*builtOn{} // Those in which packages are closed.
	for _, b := range parts {
		closing := map[int64]bool{}
		for i, tag := range b.tags {
			if known[tag.Tag.ImagePk] {
				continue
			}
			for id := range b.closed[i] {
				closing[id] = true
			}
		}
		for id := range closing {
			unknown[id] = append(unknown[id], b)
		}
		if len(closing) > 0 {
			images = append(images, b.images...)
		}
	}
	err = eachHeld(r.tx, r.s.db.Dialect(), r.s.fewImages, images, slices.Sorted(maps.Keys(unknown)), func(id int64, holders []int64) {
		for _, b := range unknown[id] {
			for _, image := range lacking(b.images, holders) {
				b.lacked[image] = append(b.lacked[image], id)
			}
		}
	})
	for _, b := range parts { // Copies of a base have the same packages.
		for image, list := range b.lacked {
			b.lacked[image] = distinctIDs(list)
		}
	}
	return err
}

// group calls visit for each image with what is best for it. hidden are the findings that do not count in images, and lists those that tags close.
func (b *builtOn) group(hidden map[int64][]*closedFinding, lists map[int64][]int64, visit func(fix *imageFix, image int64)) {
	whole := make([]tagSums, len(b.tags))
	closes := make([]map[int64]bool, len(b.tags))
	for i, tag := range b.tags {
		whole[i].ID = tag.Tag.Sums.ID
		for _, closed := range b.closed[i] {
			whole[i].add(closed)
		}
		if len(hidden) > 0 {
			closes[i] = make(map[int64]bool, len(lists[whole[i].ID]))
			for _, id := range lists[whole[i].ID] {
				closes[i][id] = true
			}
		}
	}
	common := b.best(whole)
	sums := make([]tagSums, len(whole))
	for _, image := range b.images {
		lacked, without, best := b.lacked[image], hidden[image], common
		if len(lacked)+len(without) > 0 {
			copy(sums, whole)
			for i := range sums {
				for _, id := range lacked {
					if closed := b.closed[i][id]; closed != nil {
						sums[i].subtract(closed.risk, closed.kev, closed.findings)
					}
				}
				for _, f := range without {
					if closes[i][f.ID] {
						sums[i].subtract(f.RiskMicros, f.Kev, 1)
					}
				}
			}
			best = b.best(sums)
		}
		if best != nil {
			visit(best, image)
		}
	}
}

// best is the fix of the best tag by what each closes, nil if it does not pay.
func (b *builtOn) best(sums []tagSums) *imageFix {
	var best *baseTag
	for i, tag := range b.tags {
		one := *tag
		one.Tag.Sums = sums[i]
		if best == nil || one.better(best) {
			best = &one
		}
	}
	if !best.Tag.pays() {
		return nil
	}
	s := &best.Tag.Sums
	return &imageFix{Action: fixBase, PackagePk: s.ID, Fingerprint: best.Tag.Lookup, RiskMicros: s.RiskMicros, Kev: s.Kev, Findings: s.Findings}
}
