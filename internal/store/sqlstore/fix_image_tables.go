package sqlstore

import (
	"cmp"
	"maps"
	"slices"

	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// The actions of image_fixes.
const (
	// fixSummary counts the updates that have no rows of their own; kev counts those that close one in KEV. An update has one in images in which it closes
	// less than package_fixes says, also if it closes nothing there.
	fixSummary int64 = iota
	fixUpdate
	fixRebuild
	fixWait
	// fixTag and fixBase have no rows in image_fixes: see tag_fixes. fixBase is for images that were built on the image of such a row.
	fixTag
	fixBase
)

// imageFix is a row of image_fixes.
type imageFix struct {
	ImagePk, Action, PackagePk int64
	Fingerprint                string
	Waits                      int64
	RiskMicros, Kev, Findings  int64
}

var imageFixColumns = []string{"image_pk", "action", "package_pk", "fingerprint", "waits", "risk_micros", "kev", "findings"}

func (f *imageFix) values() []any {
	return []any{f.ImagePk, f.Action, f.PackagePk, f.Fingerprint, f.Waits, f.RiskMicros, f.Kev, f.Findings}
}

// maxFixImages is how many images are computed together, and maxFixPackages how many packages these hold, unless one has more: what is known of the packages is read once
// for all of the images. Tests have fewer.
var maxFixImages, maxFixPackages = 2000, 1_000_000

// refreshImageFixes makes the rows of images what they should be; nil stands for all images.
func (t *txn) refreshImageFixes(images []int64, current int64) error {
	if images == nil {
		return t.computeImageFixes(nil, current)
	}
	held, err := t.packageCounts(images)
	if err != nil {
		return err
	}
	for len(images) > 0 {
		number, packages := 1, held[images[0]]
		for number < min(len(images), maxFixImages) && packages+held[images[number]] <= maxFixPackages {
			packages += held[images[number]]
			number++
		}
		if err := t.computeImageFixes(images[:number], current); err != nil {
			return err
		}
		images = images[number:]
	}
	return nil
}

// packageCounts reads how many packages images hold.
func (t *txn) packageCounts(images []int64) (map[int64]int, error) {
	counts := make(map[int64]int, len(images))
	err := inParts(images, func(part []int64) error {
		return eachRow(t.Table("images AS i").Select("i.id, i.package_count").Where("i.id IN ?", part), func(scan func(...any) error) error {
			var id int64
			var number int
			err := scan(&id, &number)
			counts[id] = number
			return err
		})
	})
	return counts, err
}

// computeImageFixes is refreshImageFixes for images that are computed together.
func (t *txn) computeImageFixes(images []int64, current int64) error {
	after, err := t.imageFixesOf(images, current)
	if err != nil {
		return err
	}
	before, err := t.readImageFixes(images)
	if err != nil {
		return err
	}
	return t.replaceImageFixes(before, after)
}

// readImageFixes reads the rows of images; nil stands for all.
func (t *txn) readImageFixes(images []int64) (map[int64][]imageFix, error) {
	fixes := map[int64][]imageFix{}
	return fixes, eachPart(images, func(part []int64) error {
		var rows []imageFix
		err := of(t.Table("image_fixes AS x"), "x.image_pk", part).Select("x.*").Order("x.image_pk, x.action, x.package_pk").Scan(&rows).Error
		for _, row := range rows {
			fixes[row.ImagePk] = append(fixes[row.ImagePk], row)
		}
		return err
	})
}

// replaceImageFixes replaces the rows of images by others.
func (t *txn) replaceImageFixes(before, after map[int64][]imageFix) error {
	var gone []int64
	var values []any
	for id := range before {
		if !slices.Equal(before[id], after[id]) {
			gone = append(gone, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(after)) {
		if slices.Equal(before[id], after[id]) {
			continue
		}
		for i := range after[id] {
			values = append(values, after[id][i].values()...)
		}
	}
	slices.Sort(gone)
	err := inParts(gone, func(ids []int64) error { return t.Execute("DELETE FROM image_fixes WHERE image_pk IN ?", ids) })
	if err != nil {
		return err
	}
	return t.Insert("image_fixes", imageFixColumns, values, "")
}

// imageFixSums are the rows of an image that belong to no package, by action.
type imageFixSums [fixWait + 1]imageFix

func newImageFixSums(image int64) *imageFixSums {
	sums := &imageFixSums{}
	for action := range sums {
		sums[action].ImagePk, sums[action].Action = image, int64(action)
	}
	sums[fixWait].Waits = 1
	return sums
}

// wrong reports whether the rows cannot be sums over findings.
func (s *imageFixSums) wrong() bool {
	return slices.ContainsFunc(s[:], func(row imageFix) bool {
		return min(row.RiskMicros, row.Kev, row.Findings) < 0 || row.Findings == 0 && row.RiskMicros+row.Kev > 0
	})
}

// list returns the rows that are about any finding.
func (s *imageFixSums) list() []imageFix {
	return slices.DeleteFunc(slices.Clone(s[:]), func(row imageFix) bool { return row.Findings == 0 })
}

// addToImageFixes adds what became of packages to the rows of the matched images that hold them, apart from those that were computed again. Rows that a
// previous version of the program has left behind may become wrong by that: they are computed again.
func (t *txn) addToImageFixes(changed map[int64]packageFixChange, computed map[int64]bool, current int64) error {
	maps.DeleteFunc(changed, func(_ int64, change packageFixChange) bool { return change.before.Sums == change.after.Sums })
	deltas := map[int64]*imageFixSums{}
	err := inParts(slices.Sorted(maps.Keys(changed)), func(part []int64) error {
		return t.eachHolder(part, func(id, image int64) {
			if computed[image] {
				return
			}
			if deltas[image] == nil {
				deltas[image] = &imageFixSums{}
			}
			change := changed[id]
			deltas[image].add(&change.after, 1)
			deltas[image].add(&change.before, -1)
		})
	})
	if err != nil {
		return err
	}
	return inParts(slices.Sorted(maps.Keys(deltas)), func(part []int64) error {
		var matched []int64
		if err := t.Raw("SELECT id FROM images WHERE matched_at > 0 AND id IN ? ORDER BY id", part).Scan(&matched).Error; err != nil {
			return err
		}
		before, err := t.readImageFixes(append([]int64{}, matched...))
		if err != nil {
			return err
		}
		after := make(map[int64][]imageFix, len(matched))
		wrong := []int64{}
		for _, id := range matched {
			sums := newImageFixSums(id)
			var updates []imageFix
			for _, row := range before[id] {
				if row.Action == fixUpdate {
					updates = append(updates, row)
				} else {
					sums[row.Action] = row
				}
			}
			for action := range sums {
				delta := &deltas[id][action]
				sums.count(int64(action), delta.RiskMicros, delta.Kev, delta.Findings)
			}
			if sums.wrong() {
				wrong = append(wrong, id)
				delete(before, id)
				continue
			}
			after[id] = withUpdates(sums, updates)
		}
		if err := t.replaceImageFixes(before, after); err != nil {
			return err
		}
		return t.refreshImageFixes(wrong, current)
	})
}

// eachHolder calls visit with each of some packages and each image that holds it and does not exclude it.
func (t *txn) eachHolder(packages []int64, visit func(id, image int64)) error {
	holders := t.Table("image_packages AS ip").Where("ip.package_pk IN ? AND ip.excluded = 0", packages)
	return eachList(holders, t.Dialect, "ip.package_pk", "ip.image_pk", func(id int64, list []int64) {
		for _, image := range list {
			visit(id, image)
		}
	})
}

// withUpdates returns the rows of an image in their order.
func withUpdates(sums *imageFixSums, updates []imageFix) []imageFix {
	rows := append(sums.list(), updates...)
	slices.SortFunc(rows, func(a, b imageFix) int {
		return cmp.Or(cmp.Compare(a.Action, b.Action), cmp.Compare(a.PackagePk, b.PackagePk))
	})
	return rows
}

// imageFixesOf computes the rows of matched images; nil stands for all.
func (t *txn) imageFixesOf(images []int64, current int64) (map[int64][]imageFix, error) {
	all := map[int64]*imageFixSums{}
	err := eachPart(images, func(part []int64) error {
		var matched []int64
		err := of(t.Table("images AS i").Where("i.matched_at > 0"), "i.id", part).Select("i.id").Scan(&matched).Error
		for _, id := range matched {
			all[id] = newImageFixSums(id)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	updates := map[int64][]imageFix{}
	sum := t.sumImageFixes
	if images == nil {
		sum = t.sumAllImageFixes
	}
	err = sum(images, func(fixes map[int64]packageFix, each holderReader) error {
		divided, err := t.readDividedFixes(fixes, images, current)
		if err != nil {
			return err
		}
		return each(func(id, image int64) {
			sums, fix := all[image], fixes[id]
			if sums == nil {
				return
			}
			if fix.Divided != 0 {
				everywhere := fix.Sums.FixFindings
				fix.Sums = divided.in(id, image)
				if fix.Distro == 0 && fix.Sums.FixFindings != everywhere {
					updates[image] = append(updates[image], imageFix{
						ImagePk: image, Action: fixUpdate, PackagePk: id, Fingerprint: fix.Fingerprint,
						RiskMicros: fix.Sums.FixRisk, Kev: fix.Sums.FixKev, Findings: fix.Sums.FixFindings,
					})
					fix.Sums.FixFindings = 0
				}
			}
			sums.add(&fix, 1)
		})
	})
	if err != nil {
		return nil, err
	}
	rows := make(map[int64][]imageFix, len(all))
	for id, sums := range all {
		rows[id] = withUpdates(sums, updates[id])
	}
	return rows, nil
}

// holderReader calls visit with each of some packages and each image that holds it and does not exclude it.
type holderReader func(visit func(id, image int64)) error

// sumImageFixes calls add with the packages of images that have fixes, and with what reads which of the images hold them.
func (t *txn) sumImageFixes(images []int64, add func(map[int64]packageFix, holderReader) error) error {
	holders, fixes := map[int64][]int64{}, map[int64]packageFix{}
	err := eachPackageList(t.DB, t.Dialect, images, func(image int64, list []int64) {
		for _, one := range list {
			if one%2 == 0 { // The image does not exclude it.
				holders[one/2] = append(holders[one/2], image)
			}
		}
	})
	if err != nil {
		return err
	}
	err = inParts(slices.Sorted(maps.Keys(holders)), func(part []int64) error {
		some, err := readPackageFixes(t.Table("package_fixes AS h").Where("h.package_pk IN ?", part).Select("h.*"))
		maps.Copy(fixes, some)
		return err
	})
	if err != nil {
		return err
	}
	if err := t.undivide(fixes, holders, images); err != nil {
		return err
	}
	return add(fixes, func(visit func(id, image int64)) error {
		for id := range fixes {
			for _, image := range holders[id] {
				visit(id, image)
			}
		}
		return nil
	})
}

// undivide makes fixes without divided findings of those packages that have none in the images that hold them, of some.
func (t *txn) undivide(fixes map[int64]packageFix, holders map[int64][]int64, images []int64) error {
	var divided []int64
	for id := range fixes {
		if fixes[id].Divided == someDivide {
			divided = append(divided, id)
		}
	}
	slices.Sort(divided)
	suppressed, err := readPackageCovers(t.DB, divided, images)
	if err != nil {
		return err
	}
	for _, id := range divided {
		if fix := fixes[id]; !slices.ContainsFunc(holders[id], func(image int64) bool { return suppressed.has(id, image) }) {
			fix.Divided = 0
			fixes[id] = fix
		}
	}
	return nil
}

// sumAllImageFixes is sumImageFixes of all images. It begins with the packages that have findings.
func (t *txn) sumAllImageFixes(_ []int64, add func(map[int64]packageFix, holderReader) error) error {
	for after := int64(0); ; {
		fixes, err := readPackageFixes(t.Table("package_fixes AS h").Where("h.package_pk > ?", after).Order("h.package_pk").Limit(sqldb.MaxIn).Select("h.*"))
		if err != nil || len(fixes) == 0 {
			return err
		}
		packages := slices.Sorted(maps.Keys(fixes))
		after = packages[len(packages)-1]
		err = add(fixes, func(visit func(id, image int64)) error { return t.eachHolder(packages, visit) })
		if err != nil {
			return err
		}
	}
}

// dividedFixes are the sums of packages with divided findings, by where these are suppressed.
type dividedFixes struct {
	sums       map[int64]map[reachSet]*fixSums
	suppressed *covers
}

// readDividedFixes reads the sums of those packages that have divided findings, in images; nil stands for all.
func (t *txn) readDividedFixes(fixes map[int64]packageFix, images []int64, current int64) (*dividedFixes, error) {
	d := &dividedFixes{sums: map[int64]map[reachSet]*fixSums{}}
	for id := range fixes {
		if fixes[id].Divided != 0 {
			d.sums[id] = map[reachSet]*fixSums{}
		}
	}
	var all []reachSet
	err := inParts(slices.Sorted(maps.Keys(d.sums)), func(part []int64) error {
		sets, err := setsOf(t.DB, part)
		if err != nil {
			return err
		}
		var found []struct {
			ID, PackagePk int64
			Sums          fixSums `gorm:"embedded"`
		}
		err = t.Raw("SELECT f.id, f.package_pk, "+fixSumColumns+` FROM findings f CROSS JOIN vulnerabilities v WHERE f.package_pk IN ? AND v.id = f.vulnerability_pk
			AND `+shown+" AND "+unsuppressed+" GROUP BY f.id, f.package_pk", part, current, current).Scan(&found).Error
		for i := range found {
			set := sets[found[i].ID]
			sums := d.sums[found[i].PackagePk][set]
			if sums == nil {
				sums = &fixSums{}
				d.sums[found[i].PackagePk][set] = sums
				all = append(all, set)
			}
			sums.plus(&found[i].Sums)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if images == nil {
		d.suppressed, err = readCovers(t.DB, seen{}, all)
		return d, err
	}
	if d.suppressed, err = newCovers(seen{}, all); err != nil {
		return nil, err
	}
	return d, d.suppressed.readSome(t.DB, images)
}

// in are the sums of a package in an image that holds it.
func (d *dividedFixes) in(id, image int64) (sums fixSums) {
	for set, some := range d.sums[id] {
		if !d.suppressed.has(set, image) {
			sums.plus(some)
		}
	}
	return sums
}

// count adds to the row of an action.
func (s *imageFixSums) count(action, risk, kev, findings int64) {
	s[action].RiskMicros += risk
	s[action].Kev += kev
	s[action].Findings += findings
}

// add adds the findings of a package that the image holds, as often as times says.
func (s *imageFixSums) add(fix *packageFix, times int64) {
	sums := &fix.Sums
	switch {
	case sums.FixFindings == 0:
	case fix.Distro != 0:
		s.count(fixRebuild, times*sums.FixRisk, times*sums.FixKev, times*sums.FixFindings)
	default:
		s.count(fixSummary, 0, times*min(sums.FixKev, 1), times)
	}
	s.count(fixWait, times*sums.RestRisk, times*sums.RestKev, times*sums.RestFindings)
}
