package sqlstore

import (
	"cmp"
	"slices"
)

// fixGroup is a fix that is the same in some images.
type fixGroup struct {
	fix    imageFix
	images []int64
	// number is how many images there are, if these have not been read.
	number int
	// overdue is how many findings are overdue in each; it is known early only of lists by it.
	overdue int
}

// compare orders as fixOrder does, before images.
func (g *fixGroup) compare(o *fixGroup) int {
	return cmp.Or(cmp.Compare(g.fix.Waits, o.fix.Waits), cmp.Compare(o.fix.RiskMicros, g.fix.RiskMicros), cmp.Compare(g.fix.Fingerprint, o.fix.Fingerprint))
}

// entry is that of an image without its name.
func (g *fixGroup) entry(image int64) fixEntry {
	entry := fixEntry{Fix: g.fix, Overdue: g.overdue}
	entry.Fix.ImagePk = image
	return entry
}

// manyHolders is from how many images on only the first ones by name are read of those of a group.
const manyHolders = 200

// continued reports whether the page's token is of an entry with the order of a group, so that some of its images may be on earlier pages.
func (r *fixReader) continued(g *fixGroup) bool {
	return r.after != nil && g.compare(&fixGroup{fix: r.after.Fix}) == 0
}

// groupsBehind leaves the groups that may have entries behind the page's token.
func (r *fixReader) groupsBehind(groups []fixGroup) []fixGroup {
	if r.after == nil {
		return groups
	}
	last := fixGroup{fix: r.after.Fix}
	return slices.DeleteFunc(groups, func(g fixGroup) bool { return g.compare(&last) < 0 })
}

// firstGroups leaves those of groups in order that have as many entries behind the page's token as there is room for at least, if there are.
func (r *fixReader) firstGroups(groups []fixGroup, room int) []fixGroup {
	number := 0
	for i := range groups {
		g := &groups[i]
		if number >= room && g.compare(&groups[i-1]) != 0 { // Images of groups with the same order are sorted by their names.
			return groups[:i]
		}
		if !r.continued(g) {
			number += max(g.number, len(g.images))
		}
	}
	return groups
}

// entriesOf makes entries of groups in order, behind the page's token: as many as there is room for at least, if there are.
func (r *fixReader) entriesOf(groups []fixGroup, room int) ([]fixEntry, error) {
	groups = r.firstGroups(groups, room)
	for i := range groups {
		g := &groups[i]
		slices.Sort(g.images)
		if len(g.images) > manyHolders {
			behind := r.tx.Table("images AS i")
			if r.continued(g) {
				behind = behind.Where("i.image_id >= ? AND (i.image_id > ? OR i.platform > ?)", r.after.ImageID, r.after.ImageID, r.after.Platform)
			}
			var err error
			if g.images, err = firstImages(behind, g.images, room); err != nil {
				return nil, err
			}
		}
	}
	var images []int64
	for i := range groups {
		images = append(images, groups[i].images...)
	}
	names := make(map[int64]fixEntry, len(images))
	err := inParts(distinctIDs(images), func(part []int64) error {
		var rows []fixEntry
		err := r.tx.Raw("SELECT id AS image_pk, image_id, platform FROM images WHERE id IN ?", part).Scan(&rows).Error
		for _, row := range rows {
			names[row.Fix.ImagePk] = row
		}
		return err
	})
	var entries []fixEntry
	for i := range groups {
		for _, image := range groups[i].images {
			entry := groups[i].entry(image)
			entry.ImageID, entry.Platform = names[image].ImageID, names[image].Platform
			entries = append(entries, entry)
		}
	}
	return r.behind(entries), err
}
