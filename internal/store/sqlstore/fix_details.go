package sqlstore

import (
	"cmp"
	"maps"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// fixKinds are the kinds of actions.
var fixKinds = map[int64]store.FixKind{fixUpdate: store.FixUpdate, fixRebuild: store.FixRebuild, fixWait: store.FixWait, fixTag: store.FixNewerTag, fixBase: store.FixNewerBase}

// fixPair is a package of a fix: what its findings in the image sum up to.
type fixPair struct {
	ImagePk, Action, PackagePk int64
	Fingerprint                string
	RiskMicros                 int64
	Counts                     countsRow `gorm:"embedded"`
}

// fixes reads all about the entries of a page.
func (r *fixReader) fixes(entries []fixEntry) ([]store.Fix, error) {
	images := make([]int64, len(entries))
	for i := range entries {
		images[i] = entries[i].Fix.ImagePk
	}
	images = distinctIDs(images)
	if !r.query.Overdue { // Otherwise they are known.
		overdue, err := r.overdue(images, entries)
		if err != nil {
			return nil, err
		}
		for i := range entries {
			entries[i].Overdue = overdue[entries[i].place()]
		}
	}
	pairs, err := r.pairs(entries)
	if err != nil {
		return nil, err
	}
	running := map[int64]running{}
	err = inParts(images, func(part []int64) error {
		found, err := firstWorkloads(r.tx, r.uses(), part)
		maps.Copy(running, found)
		return err
	})
	if err != nil {
		return nil, err
	}
	owners, err := ownersOfImages(r.tx, uses(r.tx.Table("image_uses AS u"), r.chosen), images)
	if err != nil {
		return nil, err
	}
	tags, err := r.tagDetails(entries)
	if err != nil {
		return nil, err
	}
	all := make([]store.Fix, len(entries))
	named := map[fixPlace][]fixPair{}
	for i := range entries {
		e, fix := &entries[i].Fix, &all[i]
		place := entries[i].place()
		if fix.Image, err = keyOf(entries[i].ImageID, entries[i].Platform); err != nil {
			return nil, err
		}
		fix.Kind, fix.Overdue, fix.Risk = fixKinds[e.Action], entries[i].Overdue, float64(e.RiskMicros)/1e6
		fix.Workloads, fix.WorkloadCount, fix.Owners = slices.Clone(running[e.ImagePk].first), running[e.ImagePk].count, owners[e.ImagePk]
		switch tag := tags[e.PackagePk]; e.Action {
		case fixTag:
			fix.NewerTag, fix.Workloads, fix.WorkloadCount, fix.Owners = &tag.fix, tag.running.first, tag.running.count, tag.owners
		case fixBase:
			fix.NewerTag, fix.Base = &tag.fix, tag.image
		}
		sum := countsRow{}
		for j := range pairs[place] {
			sum.add(pairs[place][j].Counts.since(&countsRow{}))
		}
		fix.Counts, fix.PackageCount = sum.counts(), len(pairs[place])
		named[place] = pairs[place][:min(len(pairs[place]), store.MaxFixPackages)]
	}
	if err := r.name(entries, all, named); err != nil {
		return nil, err
	}
	var workloads []*store.Workload
	for i := range all {
		workloads = append(workloads, pointersTo(all[i].Workloads)...)
	}
	return all, setOwners(r.tx, workloads)
}

// pairs reads the packages of fixes, the highest risk first.
func (r *fixReader) pairs(entries []fixEntry) (map[fixPlace][]fixPair, error) {
	pairs := map[fixPlace][]fixPair{}
	if err := r.tagPairs(entries, pairs); err != nil {
		return nil, err
	}
	others := slices.DeleteFunc(slices.Clone(entries), func(e fixEntry) bool { return e.Fix.Action == fixTag || e.Fix.Action == fixBase })
	shared, own, err := r.ownPairs(others, pairs)
	if err != nil {
		return nil, err
	}
	if err := r.sharedPairs(shared, own, pairs); err != nil {
		return nil, err
	}
	for _, list := range pairs {
		slices.SortFunc(list, func(a, b fixPair) int {
			return cmp.Or(cmp.Compare(b.RiskMicros, a.RiskMicros), cmp.Compare(a.Fingerprint, b.Fingerprint))
		})
	}
	return pairs, nil
}

// pairColumns are the columns of fixPair over findings f, behind those that tell pairs apart.
var pairColumns = "SUM(v.risk_micros) AS risk_micros, " + severitySums()

// packageInImage is a package that an image holds.
type packageInImage struct{ image, packageID int64 }

// ownPairs adds the packages whose findings are not those of other images, and returns the entries of which others are missing, and which packages of their
// images are not.
func (r *fixReader) ownPairs(entries []fixEntry, pairs map[fixPlace][]fixPair) (shared []fixEntry, own map[packageInImage]bool, err error) {
	live := map[int64]bool{}
	if r.placed() {
		for _, id := range r.live {
			live[id] = true
		}
	}
	var all, others []int64
	for i := range entries {
		if id := entries[i].Fix.ImagePk; live[id] {
			all = append(all, id)
		} else {
			shared = append(shared, entries[i])
			others = append(others, id)
		}
	}
	read := func(findings *gorm.DB) error {
		var found []fixPair
		err := findings.Group("ip.image_pk, action, ip.package_pk, p.fingerprint").
			Select("ip.image_pk, " + fixActionOf + " AS action, ip.package_pk, p.fingerprint, " + pairColumns).Scan(&found).Error
		for i := range found {
			if pair := &found[i]; live[pair.ImagePk] || own[packageInImage{pair.ImagePk, pair.PackagePk}] {
				pairs[pair.place()] = append(pairs[pair.place()], *pair)
			}
		}
		return err
	}
	err = inParts(distinctIDs(all), func(part []int64) error { return read(r.openFindings(part)) })
	if err != nil {
		return nil, nil, err
	}
	others = distinctIDs(others)
	if own, err = r.ownPackages(others); err != nil {
		return nil, nil, err
	}
	packages := make([]int64, 0, len(own))
	for held := range own {
		packages = append(packages, held.packageID)
	}
	return shared, own, eachPartOfBoth(others, distinctIDs(packages), func(images, packages []int64) error {
		return read(r.openFindings(images).Where("ip.package_pk IN ?", packages))
	})
}

// ownPackages are the packages of images of which findings are suppressed there, and those of which package_fixes has no sums.
func (r *fixReader) ownPackages(images []int64) (map[packageInImage]bool, error) {
	own := map[packageInImage]bool{}
	if divided, err := someDivided(r.tx); err != nil || !divided {
		return own, err
	}
	return own, inParts(images, func(part []int64) error {
		holders := map[int64][]int64{}
		query := r.tx.Table("image_packages AS ip").Joins("CROSS JOIN package_fixes pf").
			Where("ip.image_pk IN ? AND ip.excluded = 0 AND pf.package_pk = ip.package_pk AND pf.divided <> 0", part)
		err := eachList(query, r.s.db.Dialect(), "ip.package_pk", "ip.image_pk", func(id int64, images []int64) { holders[id] = images })
		if err != nil {
			return err
		}
		packages, earlier := slices.Sorted(maps.Keys(holders)), map[int64]bool{}
		err = inParts(packages, func(part []int64) error {
			var ids []int64
			err := r.tx.Raw("SELECT package_pk FROM package_fixes WHERE package_pk IN ? AND divided = ?", part, earlierDivided).Scan(&ids).Error
			for _, id := range ids {
				earlier[id] = true
			}
			return err
		})
		if err != nil {
			return err
		}
		suppressed, err := readPackageCovers(r.tx, packages, part)
		if err != nil {
			return err
		}
		for id, images := range holders {
			for _, image := range images {
				if earlier[id] || suppressed.has(id, image) {
					own[packageInImage{image, id}] = true
				}
			}
		}
		return nil
	})
}

// place is the fix that the pair is for.
func (p *fixPair) place() fixPlace {
	if p.Action == fixUpdate {
		return fixPlace{p.ImagePk, p.Action, p.PackagePk}
	}
	return fixPlace{p.ImagePk, p.Action, 0}
}

// sharedPairs adds the packages that are not the images' own, which are read once for all images that hold them.
func (r *fixReader) sharedPairs(entries []fixEntry, own map[packageInImage]bool, pairs map[fixPlace][]fixPair) error {
	holders := map[int64]map[int64][]int64{fixUpdate: {}, fixRebuild: {}, fixWait: {}} // The images by action and package.
	images := map[int64][]int64{}
	for i := range entries {
		fix := &entries[i].Fix
		if fix.Action == fixUpdate {
			if own[packageInImage{fix.ImagePk, fix.PackagePk}] {
				continue
			}
			holders[fixUpdate][fix.PackagePk] = append(holders[fixUpdate][fix.PackagePk], fix.ImagePk)
		} else {
			images[fix.Action] = append(images[fix.Action], fix.ImagePk)
		}
	}
	for action, with := range map[int64]string{fixRebuild: "pf.distro = 1 AND pf.fix_findings > 0", fixWait: "pf.rest_findings > 0"} {
		err := r.holdersWith(with, distinctIDs(images[action]), func(image, id int64) {
			if !own[packageInImage{image, id}] {
				holders[action][id] = append(holders[action][id], image)
			}
		})
		if err != nil {
			return err
		}
	}
	for action, held := range holders {
		err := inParts(slices.Sorted(maps.Keys(held)), func(part []int64) error {
			var found []fixPair
			err := r.tx.Table("package_fixes AS pf").Joins("CROSS JOIN findings f").Joins("CROSS JOIN vulnerabilities v").
				Where("pf.package_pk IN ? AND f.package_pk = pf.package_pk AND v.id = f.vulnerability_pk", part).
				Where(shown+" AND "+unsuppressed, r.current, r.current).Where("f.fixable = ?", fixableOf(action)).
				Group("pf.package_pk, pf.fingerprint").Select("pf.package_pk, pf.fingerprint, " + pairColumns).Scan(&found).Error
			for _, pair := range found {
				pair.Action = action
				for _, pair.ImagePk = range held[pair.PackagePk] {
					pairs[pair.place()] = append(pairs[pair.place()], pair)
				}
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// holdersWith calls visit for each package of images that they do not exclude and whose row pf of package_fixes meets a condition.
func (r *fixReader) holdersWith(condition string, images []int64, visit func(image, id int64)) error {
	return inParts(images, func(part []int64) error { return r.holdersAmong(condition, part, visit) })
}

// holdersAmong is holdersWith for images whose packages may be in memory together.
func (r *fixReader) holdersAmong(condition string, images []int64, visit func(image, id int64)) error {
	lists := make(map[int64][]int64, len(images))
	var held, chosen numberSet
	err := eachPackageList(r.tx, r.s.db.Dialect(), images, func(image int64, list []int64) {
		lists[image] = included(list)
		for _, id := range lists[image] {
			held.add(id)
		}
	})
	if err != nil || held.number == 0 {
		return err
	}
	rows := r.tx.Table("package_fixes AS pf").Where(condition).Select("pf.package_pk")
	if ids := held.sorted(nil); held.number <= min(sqldb.MaxIn, r.s.manyPackages) { // They are looked up.
		rows = rows.Where("pf.package_pk IN ?", ids)
	} else {
		rows = rows.Where("?", r.s.db.Dialect().Among("pf.package_pk", ids))
	}
	err = eachRow(rows, func(scan func(...any) error) error {
		var id int64
		err := scan(&id)
		chosen.add(id)
		return err
	})
	if err != nil {
		return err
	}
	for image, list := range lists {
		for _, id := range list {
			if chosen.has(id) {
				visit(image, id)
			}
		}
	}
	return nil
}

// fixableOf is 0 for the action of findings without a fix, and otherwise 1.
func fixableOf(action int64) int64 {
	if action == fixWait {
		return 0
	}
	return 1
}

// distinctIDs are the numbers of a list, each once and in order.
func distinctIDs(list []int64) []int64 {
	slices.Sort(list)
	return slices.Compact(list)
}

// overdue counts the findings of images whose date has passed, by the fix that closes them. Of the entries, it takes those of newer tags, of images and of their bases.
func (r *fixReader) overdue(images []int64, entries []fixEntry) (map[fixPlace]int, error) {
	counts := map[fixPlace]int{}
	due, err := r.dueReader()
	if err != nil || len(due.policies) == 0 || len(images) == 0 {
		return counts, err
	}
	targets, err := due.targets(images, r.narrowed)
	if err != nil {
		return nil, err
	}
	due.until = r.s.now()
	held, err := due.holdings(images)
	if err != nil {
		return nil, err
	}
	distro := map[int64]bool{}
	err = inParts(slices.Sorted(maps.Keys(held.findings)), func(part []int64) error {
		var ids []int64
		err := r.tx.Raw("SELECT p.id FROM packages p WHERE p.id IN ? AND "+fromDistribution+" = 1", part).Scan(&ids).Error
		for _, id := range ids {
			distro[id] = true
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	closing, err := r.tagsClosing(entries)
	if err != nil {
		return nil, err
	}
	err = due.eachIn(held, images, targets, once(func(t *dueTarget, f *dueFinding, _ int64, _ int) {
		closing.count(t, f, counts)
		switch {
		case !f.fixable:
			counts[fixPlace{t.image, fixWait, 0}]++
		case distro[f.packageID]:
			counts[fixPlace{t.image, fixRebuild, 0}]++
		default:
			counts[fixPlace{t.image, fixUpdate, f.packageID}]++
		}
	}))
	return counts, err
}

// dueReader reads the dates of findings for the workloads that the query chooses.
func (r *fixReader) dueReader() (*dueReader, error) {
	due, err := r.s.dueReader(r.tx, r.chosen.in)
	if err != nil {
		return nil, err
	}
	due.where = r.chosen.Where
	return due, nil
}

// once tells of each finding in an image once, if the visits for a package in an image follow each other.
func once(visit dueVisit) dueVisit {
	var image, packageID int64
	visited := map[int64]bool{}
	return func(t *dueTarget, f *dueFinding, at int64, by int) {
		if t.image != image || f.packageID != packageID {
			image, packageID = t.image, f.packageID
			clear(visited)
		}
		if !visited[f.id] {
			visited[f.id] = true
			visit(t, f, at, by)
		}
	}
}
