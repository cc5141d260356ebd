package sqlstore

import (
	"maps"
	"slices"

	"gorm.io/gorm"
)

// overdueClosed counts the overdue findings that newer tags close, of images and of their bases. An image has all that a newer tag of itself closes, and what a
// newer tag of its base closes but for packages that it lacks.
func (r *fixReader) overdueClosed(entries []fixEntry) (map[fixPlace]int, error) {
	counts := map[fixPlace]int{}
	due, err := r.dueReader()
	if err != nil || len(due.policies) == 0 || len(entries) == 0 {
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
	images := slices.Sorted(maps.Keys(closing.places))
	if len(images) > r.s.fewImages { // To read all of them once is faster than to look up many.
		images = nil
	}
	targets, err := due.targets(images, r.narrowed)
	if err != nil {
		return nil, err
	}
	due.until = r.s.now()
	found, err := due.findings(packages)
	if err != nil {
		return nil, err
	}
	counter, err := due.dueCounter(&dueHoldings{findings: found}, images, targets)
	if err != nil {
		return nil, err
	}
	closed := closing.due(found)
	for i := range entries {
		place := entries[i].place()
		for _, f := range closed[place.packageID] {
			_, lacks := slices.BinarySearch(r.lacked[place.image], f.packageID)
			if (place.action == fixTag || !lacks) && counter.isDue(f, place.image) {
				counts[place]++
			}
		}
	}
	return counts, nil
}

// due lists the findings that each newer tag closes, of some by package.
func (c *tagsClosing) due(found map[int64][]*dueFinding) map[int64][]*dueFinding {
	dated := map[int64]*dueFinding{}
	for _, list := range found {
		for _, f := range list {
			dated[f.id] = f
		}
	}
	closed := make(map[int64][]*dueFinding, len(c.findings))
	for fix, findings := range c.findings {
		for id := range findings {
			if f := dated[id]; f != nil {
				closed[fix] = append(closed[fix], f)
			}
		}
	}
	return closed
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
	// packages are the rows of package_fixes.
	packages map[int64]packageFix
	// rows are the updates that have a row of their own in image_fixes.
	rows map[fixPlace]bool
	// groups are the other updates, and held is how many images these have together. There may be a million.
	groups []fixGroup
	held   int
	// own counts the findings of what has a row in image_fixes.
	own   map[fixPlace]int
	total int
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
	counter, err := due.dueCounter(held, images, targets)
	if err != nil {
		return nil, 0, err
	}
	o := &overdueReader{fixReader: r, packages: map[int64]packageFix{}, own: map[fixPlace]int{}}
	if err := o.readPackages(slices.Sorted(maps.Keys(held.findings))); err != nil {
		return nil, 0, err
	}
	if err := o.readRows(images); err != nil {
		return nil, 0, err
	}
	o.prune(held.findings)
	if err := counter.each(images, o.add); err != nil {
		return nil, 0, err
	}
	o.cut()
	if entries, err = r.entriesOf(o.groups, r.query.Limit()+1); err != nil {
		return nil, 0, err
	}
	own, err := o.ownEntries(images)
	return r.first(append(entries, own...)), o.total, err
}

// readPackages reads what package_fixes says of packages.
func (o *overdueReader) readPackages(ids []int64) error {
	return inParts(ids, func(part []int64) error {
		rows := o.tx.Table("package_fixes AS pf").Where("pf.package_pk IN ?", part).Select("pf.package_pk, pf.fingerprint, pf.distro, pf.divided, pf.fix_risk, pf.fix_kev, pf.fix_findings")
		return eachRow(rows, func(scan func(...any) error) error {
			var p packageFix
			err := scan(&p.PackagePk, &p.Fingerprint, &p.Distro, &p.Divided, &p.Sums.FixRisk, &p.Sums.FixKev, &p.Sums.FixFindings)
			o.packages[p.PackagePk] = p
			return err
		})
	})
}

// readRows reads which updates in images have a row of their own; nil stands for all images. Only packages with divided findings have any.
func (o *overdueReader) readRows(images []int64) error {
	o.rows = map[fixPlace]bool{}
	return eachPart(images, func(part []int64) error {
		rows := of(o.tx.Table("image_fixes AS x").Where("x.action = ?", fixUpdate), "x.image_pk", part).Select("x.image_pk, x.package_pk")
		return eachRow(rows, func(scan func(...any) error) error {
			place := fixPlace{action: fixUpdate}
			err := scan(&place.image, &place.packageID)
			o.rows[place] = true
			return err
		})
	})
}

// prune leaves out the findings that only actions close which the query does not keep, so that it is not read which images hold them.
func (o *overdueReader) prune(found map[int64][]*dueFinding) {
	maps.DeleteFunc(found, func(packageID int64, list []*dueFinding) bool {
		pkg := o.packages[packageID]
		list = slices.DeleteFunc(list, func(f *dueFinding) bool {
			switch {
			case !f.fixable:
				return !o.keeps(fixWait, 1)
			case pkg.Distro != 0:
				return !o.keeps(fixRebuild, 1)
			case pkg.Divided != 0:
				return !o.keeps(fixUpdate, 1)
			default:
				return !o.keeps(fixUpdate, pkg.Sums.FixKev)
			}
		})
		found[packageID] = list
		return len(list) == 0
	})
}

// add adds what is overdue of a package in images.
func (o *overdueReader) add(packageID int64, images []int64, counts []dueCount) {
	pkg := o.packages[packageID]
	updates := map[int][]int64{} // By how many findings are overdue: nearly always the same in all images.
	for i, image := range images {
		if counts[i].rest > 0 {
			o.own[fixPlace{image, fixWait, 0}] += counts[i].rest
		}
		switch fixed := counts[i].fixed; {
		case fixed == 0:
		case pkg.Distro != 0:
			o.own[fixPlace{image, fixRebuild, 0}] += fixed
		case o.rows[fixPlace{image, fixUpdate, packageID}]:
			o.own[fixPlace{image, fixUpdate, packageID}] += fixed
		default:
			updates[fixed] = append(updates[fixed], image)
		}
	}
	fix := pkg.update()
	if len(updates) == 0 || fix.Findings == 0 || !o.keeps(fixUpdate, fix.Kev) {
		return
	}
	for count, list := range updates {
		o.total += len(list)
		o.held += len(list)
		o.groups = append(o.groups, fixGroup{fix, list, count})
	}
	if o.held > mostOverdue {
		o.cut()
	}
}

// mostOverdue is how many images of groups are kept beside those of a page.
const mostOverdue = 1 << 16

// cut leaves the groups that a page may show, in order.
func (o *overdueReader) cut() {
	slices.SortFunc(o.groups, func(a, b fixGroup) int { return a.compare(&b) })
	o.groups = o.firstGroups(o.groupsBehind(o.groups), o.query.Limit()+1)
	o.held = 0
}

// ownEntries reads the entries that have a row in image_fixes and overdue findings, and counts those of all pages; nil stands for all images.
func (o *overdueReader) ownEntries(images []int64) ([]fixEntry, error) {
	var actions []int64
	number := 0
	for place := range o.own {
		if o.keeps(place.action, 1) {
			number++
			if !slices.Contains(actions, place.action) {
				actions = append(actions, place.action)
			}
		}
	}
	if number == 0 {
		return nil, nil
	}
	if !o.query.KEV {
		o.total += number
	}
	var entries []fixEntry
	return entries, eachPart(images, func(part []int64) error {
		rows := of(o.tx.Table("image_fixes AS x").Joins("JOIN images i ON i.id = x.image_pk").Where("x.action IN ?", actions), "x.image_pk", part)
		if o.query.KEV {
			rows = rows.Where("x.kev > 0")
		}
		found, err := o.ownEntriesOf(rows)
		entries = append(entries, found...)
		return err
	})
}

// ownEntriesOf reads the entries of a page, and the one after it, of rows x of image_fixes with their images i.
func (o *overdueReader) ownEntriesOf(rows *gorm.DB) ([]fixEntry, error) {
	ordered := rows.Select("x.image_pk, x.action, x.package_pk, x.fingerprint, x.waits, x.risk_micros, x.kev, x.findings, i.image_id, i.platform").
		Order("x.waits, x.risk_micros DESC, x.fingerprint, i.image_id, i.platform")
	var entries []fixEntry
	return entries, eachRow(ordered, func(scan func(...any) error) error {
		var e fixEntry
		f := &e.Fix
		if err := scan(&f.ImagePk, &f.Action, &f.PackagePk, &f.Fingerprint, &f.Waits, &f.RiskMicros, &f.Kev, &f.Findings, &e.ImageID, &e.Platform); err != nil {
			return err
		}
		if e.Overdue = o.own[e.place()]; e.Overdue == 0 {
			return nil
		}
		if o.query.KEV {
			o.total++
		}
		if o.after != nil && e.compare(o.after) <= 0 {
			return nil
		}
		if len(entries) <= o.query.Limit() {
			entries = append(entries, e)
		} else if !o.query.KEV { // Otherwise the others are counted.
			return errEnough
		}
		return nil
	})
}
