package sqlstore

import (
	"cmp"
	"fmt"
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
	return shared, own, eachHolding(others, distinctIDs(packages), func(images, packages []int64) error {
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
		err := inParts(distinctIDs(images[action]), func(part []int64) error {
			query := r.tx.Table("image_packages AS ip").Joins("CROSS JOIN package_fixes pf").
				Where("ip.image_pk IN ? AND ip.excluded = 0 AND pf.package_pk = ip.package_pk", part).Where(with)
			return eachList(query, r.s.db.Dialect(), "ip.package_pk", "ip.image_pk", func(id int64, list []int64) {
				list = slices.DeleteFunc(list, func(image int64) bool { return own[packageInImage{image, id}] })
				if len(list) > 0 {
					holders[action][id] = append(holders[action][id], list...)
				}
			})
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

// fixedIn is a list of fixed versions, a vulnerability, or what the image says, of a package in an image.
type fixedIn struct {
	ImagePk, PackagePk                int64
	FixVersions, VulnerabilityID, Own string
}

// hasVersions reports whether packages of an action are named with fixed versions.
func hasVersions(action int64) bool { return action == fixUpdate || action == fixRebuild }

// name adds to fixes the packages that they name.
func (r *fixReader) name(entries []fixEntry, all []store.Fix, named map[fixPlace][]fixPair) error {
	var packages, images, updated, fixed, fixing []int64
	for place, pairs := range named {
		for i := range pairs {
			packages = append(packages, pairs[i].PackagePk)
			if place.action == fixUpdate {
				updated = append(updated, pairs[i].PackagePk)
			}
			if hasVersions(place.action) {
				fixed, fixing = append(fixed, pairs[i].PackagePk), append(fixing, place.image)
			}
		}
		images = append(images, place.image)
	}
	packages, images, updated = distinctIDs(packages), distinctIDs(images), distinctIDs(updated)
	held := map[int64]packageRow{}
	err := inParts(packages, func(part []int64) error {
		var rows []storedPackageRow
		err := r.tx.Raw("SELECT p.id, "+distinctColumns+" FROM packages p WHERE p.id IN ?", part).Scan(&rows).Error
		for _, row := range rows {
			held[row.ID] = row.Package
		}
		return err
	})
	if err != nil {
		return err
	}
	own := map[[2]int64]string{}
	err = eachHolding(images, packages, func(images, packages []int64) error {
		var rows []fixedIn
		err := r.tx.Raw("SELECT image_pk, package_pk, own FROM image_packages WHERE image_pk IN ? AND package_pk IN ? AND own <> ''", images, packages).Scan(&rows).Error
		for _, row := range rows {
			own[[2]int64{row.ImagePk, row.PackagePk}] = row.Own
		}
		return err
	})
	if err != nil {
		return err
	}
	versions, err := r.versions(distinctIDs(fixing), distinctIDs(fixed))
	if err != nil {
		return err
	}
	vulnerabilities, err := r.worst(distinctIDs(fixing), updated)
	if err != nil {
		return err
	}
	for i := range entries {
		e := &entries[i].Fix
		for _, pair := range named[fixPlace{e.ImagePk, e.Action, e.PackagePk}] {
			row, key := held[pair.PackagePk], [2]int64{e.ImagePk, pair.PackagePk}
			row.Own = own[key]
			p, err := row.held()
			if err != nil {
				return err
			}
			one := store.FixPackage{Package: p.Package, Counts: pair.Counts.counts(), Risk: float64(pair.RiskMicros) / 1e6}
			if hasVersions(e.Action) {
				one.Versions = versions[key]
			}
			if e.Action == fixUpdate {
				one.Vulnerabilities = vulnerabilities[key]
			}
			all[i].Packages = append(all[i].Packages, one)
		}
	}
	return nil
}

// eachHolding calls read for parts of images and of packages.
func eachHolding(images, packages []int64, read func(images, packages []int64) error) error {
	for part := range slices.Chunk(packages, sqldb.MaxIn) {
		if err := inParts(images, func(some []int64) error { return read(some, part) }); err != nil {
			return err
		}
	}
	return nil
}

// fixable selects the fixable findings f of packages in images.
func (r *fixReader) fixable(images, packages []int64) *gorm.DB {
	return r.openFindings(images).Where("ip.package_pk IN ? AND f.fixable = 1", packages)
}

// versions reads the lists of fixed versions of packages in images, each list once and in an order.
func (r *fixReader) versions(images, packages []int64) (map[[2]int64][][]string, error) {
	versions := map[[2]int64][][]string{}
	err := eachHolding(images, packages, func(images, packages []int64) error {
		var rows []fixedIn
		err := r.fixable(images, packages).Distinct("ip.image_pk, ip.package_pk, f.fix_versions").Scan(&rows).Error
		slices.SortFunc(rows, func(a, b fixedIn) int { return cmp.Compare(a.FixVersions, b.FixVersions) })
		for _, row := range rows {
			var list []string
			if err := fromJSON(row.FixVersions, &list); err != nil {
				return fmt.Errorf("fixed versions of package %d in the database: %w", row.PackagePk, err)
			}
			key := [2]int64{row.ImagePk, row.PackagePk}
			versions[key] = append(versions[key], list)
		}
		return err
	})
	return versions, err
}

// worst reads the worst vulnerabilities of packages in images that have a fix, each once.
func (r *fixReader) worst(images, packages []int64) (map[[2]int64][]string, error) {
	worst := map[[2]int64][]string{}
	err := eachHolding(images, packages, func(images, packages []int64) error {
		found := r.fixable(images, packages).Group("ip.image_pk, ip.package_pk, v.vulnerability_id").
			Select("ip.image_pk, ip.package_pk, v.vulnerability_id, MAX(v.severity) AS severity, MAX(v.kev) AS kev, MAX(v.risk_micros) AS risk")
		numbered := r.tx.Table("(?) AS g", found).Select("g.*, ROW_NUMBER() OVER (PARTITION BY g.image_pk, g.package_pk " +
			"ORDER BY g.severity DESC, g.kev DESC, g.risk DESC, g.vulnerability_id) AS place")
		var rows []fixedIn
		err := r.tx.Table("(?) AS n", numbered).Select("n.image_pk, n.package_pk, n.vulnerability_id").Where("n.place <= ?", store.MaxFixVulnerabilities).
			Order("n.place").Scan(&rows).Error
		for _, row := range rows {
			key := [2]int64{row.ImagePk, row.PackagePk}
			worst[key] = append(worst[key], row.VulnerabilityID)
		}
		return err
	})
	return worst, err
}
