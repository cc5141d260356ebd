package sqlstore

import (
	"maps"
	"slices"

	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// overdueClosed counts the overdue findings that newer tags close, of images and of their bases. Of a few images it is read what they hold, and of more which
// of all images hold what the tags close.
func (r *fixReader) overdueClosed(entries []fixEntry) (map[fixPlace]int, error) {
	images := make([]int64, len(entries))
	for i := range entries {
		images[i] = entries[i].Fix.ImagePk
	}
	images = distinctIDs(images)
	if len(images) <= r.s.fewImages {
		return r.overdue(images, entries)
	}
	counts := map[fixPlace]int{}
	due, err := r.dueReader()
	if err != nil || len(due.policies) == 0 {
		return counts, err
	}
	closing, err := r.tagsClosing(entries)
	if err != nil {
		return nil, err
	}
	packages := map[int64]bool{}
	err = inParts(rowsOfTags(entries, fixTag, fixBase), func(part []int64) error {
		var ids []int64
		err := r.tx.Raw("SELECT DISTINCT package_pk FROM tag_closings WHERE fix_pk IN ?", part).Scan(&ids).Error
		for _, id := range ids {
			packages[id] = true
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	targets, err := due.targets(nil, r.narrowed)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(targets, func(id int64, _ []*dueTarget) bool { return closing.places[id] == nil })
	due.until = r.s.now()
	found, err := due.findings(packages)
	if err != nil {
		return nil, err
	}
	return counts, due.eachIn(&dueHoldings{findings: found}, nil, targets, once(func(t *dueTarget, f *dueFinding, _ int64, _ int) { closing.count(t, f, counts) }))
}

// count counts a finding of an image for the newer tags that close it.
func (c *tagsClosing) count(t *dueTarget, f *dueFinding, counts map[fixPlace]int) {
	for _, place := range c.places[t.image] {
		if c.findings[place.packageID][f.id] {
			counts[place]++
		}
	}
}

// overdueReader makes the entries of images that are not live, of what overdue findings it is told of.
type overdueReader struct {
	*fixReader
	// packages and rows are those of package_fixes and image_fixes, and names those of the images.
	packages map[int64]packageFix
	rows     map[fixPlace]imageFix
	names    map[int64]fixEntry
	// image and pkg are what it was told of last, with the numbers of its findings with a fix, and of others.
	image, pkg  int64
	fixed, rest int
	// whole counts the findings of images as a whole.
	whole   map[fixPlace]int
	entries []fixEntry
	total   int
}

// overdueEntries reads the entries of a page that have overdue findings and are not of live images, and the one after it, and counts those of all pages.
// The dates of findings are read for all of the images at once; what else is listed follows from the tables.
func (r *fixReader) overdueEntries() (entries []fixEntry, total int, err error) {
	due, err := r.dueReader()
	if err != nil || len(due.policies) == 0 {
		return nil, 0, err
	}
	var images []int64
	if r.among != nil && len(r.among) <= r.s.fewImages { // To read all of them once is faster than to look up many.
		images = slices.Sorted(maps.Keys(r.among))
	}
	targets, err := due.targets(images, r.narrowed)
	if err != nil {
		return nil, 0, err
	}
	if r.among != nil {
		maps.DeleteFunc(targets, func(id int64, _ []*dueTarget) bool { return !r.among[id] })
	}
	if len(targets) == 0 {
		return nil, 0, nil
	}
	due.until = r.s.now()
	held, err := due.holdings(images)
	if err != nil {
		return nil, 0, err
	}
	o := &overdueReader{fixReader: r, packages: map[int64]packageFix{}, rows: map[fixPlace]imageFix{}, names: map[int64]fixEntry{}, whole: map[fixPlace]int{}}
	if err := o.read(held.findings, images); err != nil {
		return nil, 0, err
	}
	err = due.eachIn(held, images, targets, once(func(t *dueTarget, f *dueFinding, _ int64, _ int) {
		if t.image != o.image || f.packageID != o.pkg { // All visits for a package in an image follow each other.
			o.flush()
			o.image, o.pkg = t.image, f.packageID
		}
		if f.fixable {
			o.fixed++
		} else {
			o.rest++
		}
	}))
	if err != nil {
		return nil, 0, err
	}
	o.flush()
	for place, count := range o.whole {
		o.add(o.rows[place], count)
	}
	return o.first(o.entries), o.total, nil
}

// read reads what the tables say of packages with findings and of images; nil stands for all images.
func (o *overdueReader) read(found map[int64][]*dueFinding, images []int64) error {
	err := inParts(slices.Sorted(maps.Keys(found)), func(part []int64) error {
		var rows []packageFix
		err := o.tx.Table("package_fixes AS pf").Where("pf.package_pk IN ?", part).Scan(&rows).Error
		for i := range rows {
			o.packages[rows[i].PackagePk] = rows[i]
		}
		return err
	})
	if err != nil {
		return err
	}
	return eachPart(images, func(part []int64) error {
		var rows []imageFix
		err := of(o.tx.Table("image_fixes AS x").Where("x.action <> ?", fixSummary), "x.image_pk", part).Scan(&rows).Error
		if err != nil {
			return err
		}
		for i := range rows {
			o.rows[fixPlace{rows[i].ImagePk, rows[i].Action, rows[i].PackagePk}] = rows[i]
		}
		var names []fixEntry
		err = of(o.tx.Table("images AS i"), "i.id", part).Select("i.id AS image_pk, i.image_id, i.platform").Scan(&names).Error
		for i := range names {
			o.names[names[i].Fix.ImagePk] = names[i]
		}
		return err
	})
}

// flush adds what it was told of the last package in an image.
func (o *overdueReader) flush() {
	fixed, rest := o.fixed, o.rest
	o.fixed, o.rest = 0, 0
	if rest > 0 {
		o.whole[fixPlace{o.image, fixWait, 0}] += rest
	}
	if fixed == 0 {
		return
	}
	pkg := o.packages[o.pkg]
	switch {
	case pkg.Distro != 0:
		o.whole[fixPlace{o.image, fixRebuild, 0}] += fixed
	case pkg.Divided != 0:
		o.add(o.rows[fixPlace{o.image, fixUpdate, o.pkg}], fixed)
	default:
		o.add(imageFix{
			ImagePk: o.image, Action: fixUpdate, PackagePk: o.pkg, Fingerprint: pkg.Fingerprint,
			RiskMicros: pkg.Sums.FixRisk, Kev: pkg.Sums.FixKev, Findings: pkg.Sums.FixFindings,
		}, fixed)
	}
}

// add adds an entry with so many overdue findings, if the query keeps it.
func (o *overdueReader) add(fix imageFix, overdue int) {
	if fix.Findings == 0 || !o.keeps(fix.Action, fix.Kev) {
		return
	}
	o.total++
	entry := o.names[fix.ImagePk]
	entry.Fix, entry.Overdue = fix, overdue
	if o.after != nil && entry.compare(o.after) <= 0 {
		return
	}
	if o.entries = append(o.entries, entry); len(o.entries) >= mostOverdueEntries+o.query.Limit() { // There may be a million.
		o.entries = o.first(o.entries)
	}
}

// mostOverdueEntries is how many entries are kept beside those of a page before they are sorted.
const mostOverdueEntries = 4 * sqldb.MaxIn
