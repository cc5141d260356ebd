package sqlstore

import (
	"maps"
	"slices"

	"gorm.io/gorm"
)

// overdueReader makes the entries of images that are not live, of the overdue findings that its counter counts.
type overdueReader struct {
	*fixReader
	counter *dueCounter
	// rows are the updates that have a row of their own in image_fixes.
	rows map[fixPlace]bool
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
	targets, err := r.dueTargets(due, images)
	if err != nil {
		return nil, 0, err
	}
	if r.among != nil {
		targets = maps.Clone(targets)
		maps.DeleteFunc(targets, func(id int64, _ []*dueTarget) bool { return !r.among[id] })
	}
	if len(targets) == 0 {
		return nil, 0, nil
	}
	due.until, due.fixes = r.s.now(), map[int64]*packageFix{}
	held, err := due.holdings(images)
	if err != nil {
		return nil, 0, err
	}
	o := &overdueReader{fixReader: r, own: make(map[fixPlace]int, 2*len(targets))}
	if o.counter, err = due.dueCounter(held, images, targets); err != nil {
		return nil, 0, err
	}
	if err := o.readRows(images, due.fixes); err != nil {
		return nil, 0, err
	}
	o.prune(held.findings, due.fixes)
	if err := o.counter.each(o.add); err != nil {
		return nil, 0, err
	}
	if entries, err = o.overdueUpdates(); err != nil {
		return nil, 0, err
	}
	own, err := o.ownEntries(images)
	return r.first(append(entries, own...)), o.total, err
}

// dueTargets are the targets of images; nil stands for all images, whose targets are read once.
func (r *fixReader) dueTargets(due *dueReader, images []int64) (map[int64][]*dueTarget, error) {
	if images != nil {
		return due.targets(images, r.narrowed)
	}
	if r.targets == nil {
		var err error
		if r.targets, err = due.targets(nil, r.narrowed); err != nil {
			return nil, err
		}
	}
	return r.targets, nil
}

// readRows reads which updates in images have a row of their own; nil stands for all images. Only packages with divided findings have any.
func (o *overdueReader) readRows(images []int64, fixes map[int64]*packageFix) error {
	o.rows = map[fixPlace]bool{}
	divided := false
	for _, fix := range fixes {
		divided = divided || fix.Divided != 0
	}
	if !divided {
		return nil
	}
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
func (o *overdueReader) prune(found map[int64][]*dueFinding, fixes map[int64]*packageFix) {
	maps.DeleteFunc(found, func(packageID int64, list []*dueFinding) bool {
		pkg := fixes[packageID]
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

// add adds what is overdue in an image.
func (o *overdueReader) add(image int64, places []int, counts []dueCount) {
	var rest, rebuilt int
	for i, place := range places {
		rest += int(counts[i].rest)
		fixed := int(counts[i].fixed)
		if fixed == 0 {
			continue
		}
		switch p := &o.counter.packages[place]; {
		case p.fix.Distro != 0:
			rebuilt += fixed
		case o.hasRow(image, p.fix):
			o.own[fixPlace{image, fixUpdate, p.id}] = fixed
		case p.fix.Sums.FixFindings > 0 && o.keeps(fixUpdate, p.fix.Sums.FixKev):
			p.number++
			o.total++
		}
	}
	if rest > 0 {
		o.own[fixPlace{image, fixWait, 0}] = rest
	}
	if rebuilt > 0 {
		o.own[fixPlace{image, fixRebuild, 0}] = rebuilt
	}
}

// hasRow reports whether the update of a package has a row of its own in an image.
func (o *overdueReader) hasRow(image int64, fix *packageFix) bool {
	return fix.Divided != 0 && o.rows[fixPlace{image, fixUpdate, fix.PackagePk}]
}

// overdueUpdates reads the entries of a page that are updates without rows of their own: it is read again which images hold the first packages.
func (o *overdueReader) overdueUpdates() ([]fixEntry, error) {
	var groups []fixGroup
	for i := range o.counter.packages {
		if p := &o.counter.packages[i]; p.number > 0 {
			groups = append(groups, fixGroup{fix: p.fix.update(), number: p.number})
		}
	}
	slices.SortFunc(groups, func(a, b fixGroup) int { return a.compare(&b) })
	room := o.query.Limit() + 1
	groups = o.firstGroups(o.groupsBehind(groups), room)
	packages := make([]int64, len(groups))
	for i := range groups {
		packages[i] = groups[i].fix.PackagePk
	}
	holders, err := o.holders(packages)
	if err != nil {
		return nil, err
	}
	var counted []fixGroup
	for i := range groups {
		fix := groups[i].fix
		place := o.counter.place(fix.PackagePk)
		byCount := map[int][]int64{} // Nearly always the same in all images.
		for _, image := range holders[fix.PackagePk] {
			if count := int(o.counter.count(place, image).fixed); count > 0 && !o.hasRow(image, o.counter.packages[place].fix) {
				byCount[count] = append(byCount[count], image)
			}
		}
		for count, images := range byCount {
			counted = append(counted, fixGroup{fix: fix, images: images, overdue: count})
		}
	}
	return o.entriesOf(counted, room)
}

// holders reads which of the images that are counted hold packages.
func (o *overdueReader) holders(packages []int64) (map[int64][]int64, error) {
	holders := make(map[int64][]int64, len(packages))
	slices.Sort(packages)
	for image, list := range o.counter.held.packages {
		for _, id := range list {
			if _, wanted := slices.BinarySearch(packages, id); wanted {
				holders[id] = append(holders[id], image)
			}
		}
	}
	if o.counter.held.packages != nil {
		return holders, nil
	}
	return holders, inParts(packages, func(part []int64) error {
		query := o.tx.Table("image_packages AS ip").Where("ip.package_pk IN ? AND ip.excluded = 0", part)
		return eachList(query, o.s.db.Dialect(), "ip.package_pk", "ip.image_pk", func(id int64, list []int64) { holders[id] = list })
	})
}

// ownEntries reads the entries that have a row in image_fixes and overdue findings, and counts those of all pages; nil stands for all images.
func (o *overdueReader) ownEntries(images []int64) ([]fixEntry, error) {
	actions := o.ownActions()
	if len(actions) > 0 && o.query.KEV {
		if err := o.keepKEV(images, actions); err != nil {
			return nil, err
		}
		actions = o.ownActions()
	}
	if len(actions) == 0 {
		return nil, nil
	}
	o.total += len(o.own)
	var entries []fixEntry
	err := eachPart(images, func(part []int64) error {
		rows := of(o.tx.Table("image_fixes AS x").Where("x.action IN ?", actions), "x.image_pk", part)
		if slices.Equal(actions, []int64{fixWait}) {
			rows = rows.Where("x.waits = 1") // An index of these begins with it.
		}
		if o.query.KEV {
			rows = rows.Where("x.kev > 0")
		}
		found, err := o.ownEntriesOf(rows.Session(&gorm.Session{}))
		entries = append(entries, found...)
		return err
	})
	return entries, err
}

// ownActions leaves what the query keeps of what has a row in image_fixes, and lists the actions of these.
func (o *overdueReader) ownActions() []int64 {
	var actions []int64
	for place := range o.own {
		switch {
		case !o.keeps(place.action, 1):
			delete(o.own, place)
		case !slices.Contains(actions, place.action):
			actions = append(actions, place.action)
		}
	}
	return actions
}

// keepKEV leaves what closes findings in KEV of what has a row in image_fixes; nil stands for all images.
func (o *overdueReader) keepKEV(images, actions []int64) error {
	own := o.own
	o.own = map[fixPlace]int{}
	return eachPart(images, func(part []int64) error {
		rows := of(o.tx.Table("image_fixes AS x").Where("x.action IN ? AND x.kev > 0", actions), "x.image_pk", part).Select("x.image_pk, x.action, x.package_pk")
		return eachRow(rows, func(scan func(...any) error) error {
			var place fixPlace
			err := scan(&place.image, &place.action, &place.packageID)
			if count := own[place]; count > 0 {
				o.own[place] = count
			}
			return err
		})
	})
}

// firstOwn is how many times as many rows as there is room for are read first.
const firstOwn = 4

// ownEntriesOf reads the entries of a page, and the one after it, of rows x of image_fixes. Nearly all of these rows have overdue findings if many of the findings
// have, so that few are read before there are enough.
func (o *overdueReader) ownEntriesOf(rows *gorm.DB) ([]fixEntry, error) {
	if o.after != nil { // The order goes on with the names of images.
		f := &o.after.Fix
		rows = rows.Where("(x.waits > ? OR x.waits = ? AND (x.risk_micros < ? OR x.risk_micros = ? AND x.fingerprint >= ?))",
			f.Waits, f.Waits, f.RiskMicros, f.RiskMicros, f.Fingerprint).Session(&gorm.Session{})
	}
	room := o.query.Limit() + 1
	few := max(1, o.s.firstOwn*room)
	// Without this, databases sort all rows.
	var last []imageFix
	err := rows.Select("x.waits, x.risk_micros, x.fingerprint").Order("x.waits, x.risk_micros DESC, x.fingerprint").Offset(few - 1).Limit(1).Scan(&last).Error
	if err != nil {
		return nil, err
	}
	if len(last) > 0 {
		f := &last[0]
		first := rows.Where("(x.waits < ? OR x.waits = ? AND (x.risk_micros > ? OR x.risk_micros = ? AND x.fingerprint <= ?))",
			f.Waits, f.Waits, f.RiskMicros, f.RiskMicros, f.Fingerprint)
		entries, err := o.readOwn(first, few, room)
		if err != nil || len(entries) >= room {
			return entries, err
		}
	}
	return o.readOwn(rows, few, room)
}

// overdueFix is an action that has the same overdue findings in some images.
type overdueFix struct {
	fix     imageFix
	overdue int
}

// readOwn reads entries of rows x of image_fixes behind the page's token: as many as there is room for at least, if there are. Thousands of images on a base can
// have the same, so that they are named once it is known which ones the page can show. If there are more than a few groups of these, the first ones are kept.
func (o *overdueReader) readOwn(rows *gorm.DB, few, room int) ([]fixEntry, error) {
	same, most := map[overdueFix][]int64{}, few
	err := eachRow(rows.Select("x.image_pk, x.action, x.package_pk, x.fingerprint, x.waits, x.risk_micros, x.kev, x.findings"), func(scan func(...any) error) error {
		var f imageFix
		if err := scan(&f.ImagePk, &f.Action, &f.PackagePk, &f.Fingerprint, &f.Waits, &f.RiskMicros, &f.Kev, &f.Findings); err != nil {
			return err
		}
		image, overdue := f.ImagePk, o.own[fixPlace{f.ImagePk, f.Action, f.PackagePk}]
		if overdue == 0 {
			return nil
		}
		f.ImagePk = 0
		same[overdueFix{f, overdue}] = append(same[overdueFix{f, overdue}], image)
		if len(same) > most {
			first := o.firstGroups(groupsOf(same), room)
			clear(same)
			for i := range first {
				same[overdueFix{first[i].fix, first[i].overdue}] = first[i].images
			}
			most = max(few, 2*len(same))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return o.entriesOf(groupsOf(same), room)
}

// groupsOf are the groups of actions that are the same in some images, in order.
func groupsOf(same map[overdueFix][]int64) []fixGroup {
	groups := make([]fixGroup, 0, len(same))
	for one, images := range same {
		groups = append(groups, fixGroup{fix: one.fix, images: images, overdue: one.overdue})
	}
	slices.SortFunc(groups, func(a, b fixGroup) int { return a.compare(&b) })
	return groups
}
