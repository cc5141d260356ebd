package sqlstore

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// A finding that decisions suppress in some images is divided: it counts in some images that hold its package and not in others. The findings of a
// package that are suppressed at the same places are counted together, under their reachSet.

// reachSet has the reaches above 0 in which a finding is suppressed, in order and separated by commas; "" for one that is suppressed nowhere.
type reachSet string

// setDeltas are counts of the findings of a package by where they are suppressed, without those that are suppressed everywhere, or differences of
// such counts.
type setDeltas map[reachSet]countsDelta

// isDivided is the condition that finding f is suppressed somewhere, but not everywhere. The greatest reach is at the end of an index, and databases look it up for each finding:
// with EXISTS, PostgreSQL read all that is suppressed for each list of packages, and MariaDB, as a column, all rows that the transaction had deleted for each finding.
const isDivided = "(SELECT MAX(fd.reach) FROM finding_suppressions fd WHERE fd.finding_id = f.id) > 0"

// someDivided reports whether any finding is suppressed in some images.
func someDivided(tx *gorm.DB) (bool, error) {
	var found []int64
	err := tx.Raw("SELECT fs.finding_id FROM finding_suppressions fs WHERE fs.reach > 0 LIMIT 1").Scan(&found).Error
	return len(found) > 0, err
}

// dividedPackages returns those packages of a list that have divided findings.
func dividedPackages(tx *gorm.DB, packages []int64) ([]int64, error) {
	if some, err := someDivided(tx); err != nil || !some {
		return nil, err
	}
	var divided []int64
	err := inParts(packages, func(part []int64) error {
		var found []int64
		err := tx.Raw("SELECT DISTINCT f.package_pk FROM findings f WHERE f.package_pk IN ? AND "+isDivided, part).Scan(&found).Error
		divided = append(divided, found...)
		return err
	})
	slices.Sort(divided)
	return slices.Compact(divided), err
}

// countsBySet counts the findings of those packages that have divided ones.
func (t *txn) countsBySet(packages []int64) (map[int64]setDeltas, error) {
	divided, err := dividedPackages(t.DB, packages)
	if err != nil || len(divided) == 0 {
		return nil, err
	}
	current, err := currentNumber(t.DB)
	if err != nil {
		return nil, err
	}
	counts := make(map[int64]setDeltas, len(divided))
	err = inParts(divided, func(part []int64) error {
		sets, err := setsOf(t.DB, part)
		if err != nil {
			return err
		}
		var rows []struct{ ID, PackagePk, Severity, Kev, Fixable int64 }
		err = t.Raw(`SELECT f.id, f.package_pk, v.severity, v.kev, f.fixable FROM findings f JOIN vulnerabilities v ON v.id = f.vulnerability_pk
			WHERE f.package_pk IN ? AND `+shown+" AND "+unsuppressed, part, current, current).Scan(&rows).Error
		for _, row := range rows {
			if counts[row.PackagePk] == nil {
				counts[row.PackagePk] = setDeltas{}
			}
			set := sets[row.ID]
			sum := counts[row.PackagePk][set]
			sum.add(row.Severity, row.Kev, row.Fixable, 1)
			counts[row.PackagePk][set] = sum
		}
		for _, id := range part {
			if counts[id] == nil {
				counts[id] = setDeltas{}
			}
		}
		return err
	})
	return counts, err
}

// setsOf reads where the findings of packages are suppressed, apart from those that are not, or everywhere.
func setsOf(tx *gorm.DB, packages []int64) (map[int64]reachSet, error) {
	return dividing{all: true}.setsOf(tx, packages)
}

// setsOf reads in which of these reaches the findings of packages are suppressed.
func (d dividing) setsOf(tx *gorm.DB, packages []int64) (map[int64]reachSet, error) {
	return d.setsBy(tx, "fs.finding_id", packages)
}

// setsOfPackages reads in which reaches any of the findings of packages are suppressed.
func setsOfPackages(tx *gorm.DB, packages []int64) (map[int64]reachSet, error) {
	return dividing{all: true}.setsBy(tx, "f.package_pk", packages)
}

// setsBy reads in which of these reaches the findings of packages are suppressed, by a column.
func (d dividing) setsBy(tx *gorm.DB, column string, packages []int64) (map[int64]reachSet, error) {
	sets := map[int64]reachSet{}
	rows := tx.Table("findings AS f").Joins("JOIN finding_suppressions fs ON fs.finding_id = f.id").Where("f.package_pk IN ? AND "+d.has("fs.reach"), packages).
		Distinct(column + ", fs.reach").Order(column + ", fs.reach")
	err := eachRow(rows, func(scan func(...any) error) error {
		var id, reach int64
		if err := scan(&id, &reach); err != nil {
			return err
		}
		text := strconv.FormatInt(reach, 10)
		if before := sets[id]; before != "" {
			text = string(before) + "," + text
		}
		sets[id] = reachSet(text)
		return nil
	})
	return sets, err
}

// addChanged adds to the counts of images what became of the findings of packages, and notes what can be done about them. before is what countsBySet returned
// before it, deltas what recount returned.
func (t *txn) addChanged(packages []int64, before map[int64]setDeltas, deltas map[int64]countsDelta) error {
	t.noteReachedFixes(packages, nil)
	after, err := t.countsBySet(packages)
	if err != nil {
		return err
	}
	changed := make(map[int64]setDeltas, len(deltas))
	for id, delta := range deltas {
		changed[id] = setDeltas{"": delta}
	}
	var divided []int64
	for _, id := range packages {
		if before[id] != nil || after[id] != nil {
			divided = append(divided, id)
		}
	}
	err = inParts(divided, func(part []int64) error {
		var rows []packageCounts
		err := t.Raw("SELECT package_pk, "+strings.Join(countColumns, ", ")+" FROM held_packages WHERE package_pk IN ?", part).Scan(&rows).Error
		for i := range rows {
			id, now := rows[i].PackagePk, rows[i].Counts.since(&countsRow{})
			// A package without divided findings counts the same in each image.
			was, is := before[id], after[id]
			if is == nil {
				is = setDeltas{"": now}
			}
			if was == nil {
				was = setDeltas{"": now.minus(deltas[id])}
			}
			changed[id] = is.since(was)
		}
		return err
	})
	if err != nil {
		return err
	}
	return t.addToImages(changed)
}

// since is what has to be added to other counts for these, also if it is nothing.
func (s setDeltas) since(before setDeltas) setDeltas {
	all := maps.Clone(s)
	for set, counts := range before {
		all[set] = all[set].minus(counts)
	}
	return all
}

// covers tells in which images findings are suppressed.
type covers struct {
	view    seen
	sets    map[reachSet][]int64
	reached map[int64]map[int64]bool // The images by reach.
}

// readCovers reads the images of sets of reaches, in which findings do not count for who sees some namespaces.
func readCovers(tx *gorm.DB, view seen, sets []reachSet) (*covers, error) {
	c, err := newCovers(view, sets)
	if err != nil {
		return nil, err
	}
	return c, c.read(tx, slices.Sorted(maps.Keys(c.reached)))
}

// newCovers are the covers of sets of reaches, of which no images have been read.
func newCovers(view seen, sets []reachSet) (*covers, error) {
	c := &covers{view: view, sets: map[reachSet][]int64{}, reached: map[int64]map[int64]bool{}}
	for _, set := range sets {
		if set == "" || c.sets[set] != nil {
			continue
		}
		for text := range strings.SplitSeq(string(set), ",") {
			reach, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return nil, err
			}
			c.sets[set] = append(c.sets[set], reach)
			c.reached[reach] = map[int64]bool{}
		}
	}
	return c, nil
}

// read reads the images of reaches.
func (c *covers) read(tx *gorm.DB, reaches []int64) error {
	return inParts(reaches, func(part []int64) error {
		return c.note(tx.Table(c.view.reached()+" AS x").Where("x.reach IN ?", part))
	})
}

// readSome reads which of some images the reaches have, and those of others, for whom the same counts.
func (c *covers) readSome(tx *gorm.DB, images []int64, others ...*covers) error {
	all := slices.DeleteFunc(append(others, c), func(c *covers) bool { return len(c.reached) == 0 })
	if len(all) == 0 {
		return nil
	}
	return inParts(images, func(part []int64) error {
		return noteIn(all, tx.Table(c.view.reached()+" AS x").Where("x.image_pk IN ?", part))
	})
}

// readTouched reads the images, nil for all, of which the reaches with places have a visible place.
func (c *covers) readTouched(tx *gorm.DB, in store.Namespaces, images []int64) error {
	if len(c.reached) == 0 {
		return nil
	}
	return eachPart(images, func(part []int64) error {
		return c.note(within(of(tx.Table("reached_namespaces AS x"), "x.image_pk", part), "x.namespace", in))
	})
}

// note notes rows x of reached, of reaches that are asked for.
func (c *covers) note(rows *gorm.DB) error { return noteIn([]*covers{c}, rows) }

// noteIn notes them in all of these.
func noteIn(all []*covers, rows *gorm.DB) error {
	return eachRow(rows.Select("x.reach, x.image_pk"), func(scan func(...any) error) error {
		var reach, image int64
		err := scan(&reach, &image)
		for _, c := range all {
			if images := c.reached[reach]; images != nil {
				images[image] = true
			}
		}
		return err
	})
}

// has reports whether findings with this set are suppressed in an image.
func (c *covers) has(set reachSet, image int64) bool {
	return slices.ContainsFunc(c.sets[set], func(reach int64) bool { return c.reached[reach][image] })
}

// hasBut is has without one of the reaches.
func (c *covers) hasBut(set reachSet, but, image int64) bool {
	return slices.ContainsFunc(c.sets[set], func(reach int64) bool { return reach != but && c.reached[reach][image] })
}

// packageCovers tells in which images any finding of a package is suppressed.
type packageCovers struct {
	sets   map[int64]reachSet
	covers *covers
}

// readPackageCovers reads of packages in which of some images any finding is suppressed.
func readPackageCovers(tx *gorm.DB, packages, images []int64) (*packageCovers, error) {
	p := &packageCovers{sets: map[int64]reachSet{}}
	err := inParts(packages, func(part []int64) error {
		sets, err := setsOfPackages(tx, part)
		maps.Copy(p.sets, sets)
		return err
	})
	if err != nil {
		return nil, err
	}
	if p.covers, err = newCovers(seen{}, slices.Collect(maps.Values(p.sets))); err != nil {
		return nil, err
	}
	return p, p.covers.readSome(tx, images)
}

// has reports whether any finding of a package is suppressed in an image.
func (p *packageCovers) has(id, image int64) bool { return p.covers.has(p.sets[id], image) }
