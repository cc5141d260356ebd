package sqlstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// Fixes are ordered by two tables that are written with what they follow from, as those in held.go are. package_fixes has the packages of matched
// images that have findings, with what a fix of the package closes and what remains: that is the same in each image, unless findings are divided.
// image_fixes has, of each matched image, the sums over its packages, and what updates of packages with divided findings close there.

// The actions of image_fixes.
const (
	// fixSummary counts the updates of packages without divided findings, which have no rows of their own; kev counts those that close one in KEV.
	fixSummary int64 = iota
	fixUpdate
	fixRebuild
	fixWait
)

// allFixPackages is from how many changed packages on all images are computed again, without looking up which hold them.
const allFixPackages = 2000

// fixSums are sums over findings: of those that a fix closes, and of the others.
type fixSums struct {
	FixRisk, FixKev, FixFindings    int64
	RestRisk, RestKev, RestFindings int64
}

// fixSumColumns are the columns of fixSums over findings f of vulnerabilities v.
const fixSumColumns = `SUM(CASE WHEN f.fixable = 1 THEN v.risk_micros ELSE 0 END) AS fix_risk, SUM(CASE WHEN f.fixable = 1 THEN v.kev ELSE 0 END) AS fix_kev,
	SUM(f.fixable) AS fix_findings, SUM(CASE WHEN f.fixable = 1 THEN 0 ELSE v.risk_micros END) AS rest_risk,
	SUM(CASE WHEN f.fixable = 1 THEN 0 ELSE v.kev END) AS rest_kev, SUM(1 - f.fixable) AS rest_findings`

// fromDistribution is 1 for packages p of a distribution, and otherwise 0.
var fromDistribution = "CASE WHEN p.type IN ('" + strings.Join(model.DistributionTypes(), "','") + "') THEN 1 ELSE 0 END"

// packageFix is a row of package_fixes. One with divided findings has no sums.
type packageFix struct {
	PackagePk       int64
	Fingerprint     string
	Distro, Divided int64
	Sums            fixSums `gorm:"embedded"`
}

var packageFixColumns = []string{
	"package_pk", "fingerprint", "distro", "divided", "fix_risk", "fix_kev", "fix_findings", "rest_risk", "rest_kev", "rest_findings",
}

func (f *packageFix) values() []any {
	s := &f.Sums
	return []any{f.PackagePk, f.Fingerprint, f.Distro, f.Divided, s.FixRisk, s.FixKev, s.FixFindings, s.RestRisk, s.RestKev, s.RestFindings}
}

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

// noteFixes notes that what can be done about packages or images may have changed. Packages are those whose findings, suppressions or levels changed: all
// images that hold one with divided findings are computed again. What changes in one image only is noted with this image.
func (t *txn) noteFixes(packages []int64, images ...int64) {
	if t.fixPackages == nil {
		t.fixPackages, t.fixImages = map[int64]bool{}, map[int64]bool{}
	}
	for _, id := range packages {
		t.fixPackages[id] = true
	}
	for _, id := range images {
		t.fixImages[id] = true
	}
}

// refreshFixes writes what changed about the packages and images that were noted.
func (t *txn) refreshFixes() error {
	if len(t.fixPackages) == 0 && len(t.fixImages) == 0 && !t.fixAll {
		return nil
	}
	current, err := currentNumber(t.DB)
	if err != nil {
		return err
	}
	var packages []int64 // nil stands for all, so a list without any is not nil.
	if !t.fixAll {
		packages = append([]int64{}, slices.Sorted(maps.Keys(t.fixPackages))...)
	}
	changed, err := t.refreshPackageFixes(packages, current)
	if err != nil {
		return err
	}
	if t.fixAll || len(changed) > allFixPackages {
		return t.refreshImageFixes(nil, current)
	}
	images := maps.Clone(t.fixImages)
	if images == nil {
		images = map[int64]bool{}
	}
	err = inParts(changed, func(part []int64) error {
		var holders []int64
		err := t.Raw("SELECT DISTINCT image_pk FROM image_packages WHERE package_pk IN ? AND excluded = 0", part).Scan(&holders).Error
		for _, id := range holders {
			images[id] = true
		}
		return err
	})
	if err != nil {
		return err
	}
	return t.refreshImageFixes(append([]int64{}, slices.Sorted(maps.Keys(images))...), current)
}

// RefreshFixes implements store.ResultSets.
func (s *Store) RefreshFixes(ctx context.Context) error {
	for _, step := range []struct {
		table   string
		refresh func(tx *txn, ids []int64, current int64) error
	}{
		{"packages", func(tx *txn, ids []int64, current int64) error {
			_, err := tx.refreshPackageFixes(ids, current) // All images follow.
			return err
		}},
		{"images", (*txn).refreshImageFixes},
	} {
		for after := int64(0); ; {
			var ids []int64
			err := s.write(ctx, "compute fixes again", func(tx *txn) error {
				current, err := currentNumber(tx.DB)
				if err != nil {
					return err
				}
				ids = nil
				err = tx.Raw("SELECT t.id FROM "+step.table+" t WHERE t.id > ? ORDER BY t.id LIMIT ?", after, sqldb.MaxIn).Scan(&ids).Error
				if err != nil || len(ids) == 0 {
					return err
				}
				return step.refresh(tx, ids, current)
			})
			if err != nil {
				return err
			}
			if len(ids) == 0 {
				break
			}
			after = ids[len(ids)-1]
		}
	}
	return nil
}

// refreshPackageFixes makes the rows of packages what they should be, and returns the packages whose images may change; nil stands for all packages.
func (t *txn) refreshPackageFixes(packages []int64, current int64) (changed []int64, err error) {
	err = eachPart(packages, func(part []int64) error {
		before, err := readPackageFixes(of(t.Table("package_fixes AS h"), "h.package_pk", part).Select("h.*"))
		if err != nil {
			return err
		}
		after, err := packageFixesOf(t.DB, part, current)
		if err != nil {
			return err
		}
		var gone []int64
		var values []any
		for id := range before {
			if _, stays := after[id]; !stays {
				gone = append(gone, id)
				changed = append(changed, id)
			}
		}
		for _, id := range slices.Sorted(maps.Keys(after)) {
			was, is := before[id], after[id]
			if was != is {
				gone = append(gone, id)
				values = append(values, is.values()...)
			}
			if was != is || is.Divided != 0 {
				changed = append(changed, id)
			}
		}
		err = inParts(gone, func(ids []int64) error { return t.Execute("DELETE FROM package_fixes WHERE package_pk IN ?", ids) })
		if err != nil {
			return err
		}
		return t.Insert("package_fixes", packageFixColumns, values, "")
	})
	slices.Sort(changed)
	return changed, err
}

func readPackageFixes(query *gorm.DB) (map[int64]packageFix, error) {
	var rows []packageFix
	if err := query.Scan(&rows).Error; err != nil {
		return nil, err
	}
	fixes := make(map[int64]packageFix, len(rows))
	for _, row := range rows {
		if row.Divided != 0 {
			row.Sums = fixSums{}
		}
		fixes[row.PackagePk] = row
	}
	return fixes, nil
}

// packageFixesOf computes the rows of packages; nil stands for all.
func packageFixesOf(tx *gorm.DB, packages []int64, current int64) (map[int64]packageFix, error) {
	found := tx.Table("held_packages AS h").Joins("CROSS JOIN packages p").Joins("CROSS JOIN findings f").Joins("CROSS JOIN vulnerabilities v").
		Where("h.level = ? AND p.id = h.package_pk AND f.package_pk = h.package_pk AND v.id = f.vulnerability_pk", heldMatched).
		Where(shown+" AND "+unsuppressed, current, current)
	return readPackageFixes(of(found, "h.package_pk", packages).Group("h.package_pk, h.fingerprint, p.type").
		Select("h.package_pk, h.fingerprint, " + fromDistribution + " AS distro, MAX(CASE WHEN " + isDivided + " THEN 1 ELSE 0 END) AS divided, " + fixSumColumns))
}

// refreshImageFixes makes the rows of images what they should be; nil stands for all images.
func (t *txn) refreshImageFixes(images []int64, current int64) error {
	return eachPart(images, func(part []int64) error {
		after, err := t.imageFixesOf(part, current)
		if err != nil {
			return err
		}
		var rows []imageFix
		err = of(t.Table("image_fixes AS x"), "x.image_pk", part).Select("x.*").Order("x.image_pk, x.action, x.package_pk").Scan(&rows).Error
		if err != nil {
			return err
		}
		before := map[int64][]imageFix{}
		for _, row := range rows {
			before[row.ImagePk] = append(before[row.ImagePk], row)
		}
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
		err = inParts(gone, func(ids []int64) error { return t.Execute("DELETE FROM image_fixes WHERE image_pk IN ?", ids) })
		if err != nil {
			return err
		}
		return t.Insert("image_fixes", imageFixColumns, values, "")
	})
}

// imageFixesOf computes the rows of matched images; nil stands for all.
func (t *txn) imageFixesOf(images []int64, current int64) (map[int64][]imageFix, error) {
	var matched []int64
	if err := of(t.Table("images AS i").Where("i.matched_at > 0"), "i.id", images).Select("i.id").Scan(&matched).Error; err != nil {
		return nil, err
	}
	all := make(map[int64]*[fixWait + 1]imageFix, len(matched))
	for _, id := range matched {
		all[id] = &[fixWait + 1]imageFix{}
		for action := range all[id] {
			all[id][action].ImagePk, all[id][action].Action = id, int64(action)
		}
		all[id][fixWait].Waits = 1
	}
	if err := t.sumImageFixes(images, all); err != nil {
		return nil, err
	}
	divided, err := t.dividedFixes(images, current, all)
	if err != nil {
		return nil, err
	}
	fixes := make(map[int64][]imageFix, len(all))
	for id, rows := range all {
		for i := range rows {
			if rows[i].Findings > 0 {
				fixes[id] = append(fixes[id], rows[i])
			}
		}
		if updates := divided[id]; len(updates) > 0 {
			fixes[id] = append(fixes[id], updates...)
			slices.SortFunc(fixes[id], func(a, b imageFix) int {
				return cmp.Or(cmp.Compare(a.Action, b.Action), cmp.Compare(a.PackagePk, b.PackagePk))
			})
		}
	}
	return fixes, nil
}

// sumImageFixes adds what packages without divided findings contribute.
func (t *txn) sumImageFixes(images []int64, all map[int64]*[fixWait + 1]imageFix) error {
	// All images begin with the packages that have findings, some with what they hold.
	query := t.Table("package_fixes AS pf").Joins("CROSS JOIN image_packages ip")
	if images != nil {
		query = t.Table("image_packages AS ip").Joins("CROSS JOIN package_fixes pf")
	}
	query = of(query.Where("pf.package_pk = ip.package_pk AND ip.excluded = 0 AND pf.divided = 0"), "ip.image_pk", images)
	holders := map[int64][]int64{}
	err := eachList(query, t.Dialect, "ip.package_pk", "ip.image_pk", func(id int64, list []int64) { holders[id] = list })
	if err != nil {
		return err
	}
	return inParts(slices.Sorted(maps.Keys(holders)), func(part []int64) error {
		fixes, err := readPackageFixes(t.Table("package_fixes AS h").Where("h.package_pk IN ?", part).Select("h.*"))
		for id := range fixes {
			fix := fixes[id]
			for _, image := range holders[id] {
				if rows := all[image]; rows != nil {
					addPackageFix(rows, &fix)
				}
			}
		}
		return err
	})
}

// addPackageFix adds the findings of a package to the rows of an image that holds it.
func addPackageFix(rows *[fixWait + 1]imageFix, fix *packageFix) {
	add := func(action, risk, kev, findings int64) {
		rows[action].RiskMicros += risk
		rows[action].Kev += kev
		rows[action].Findings += findings
	}
	s := &fix.Sums
	switch {
	case s.FixFindings == 0:
	case fix.Distro != 0:
		add(fixRebuild, s.FixRisk, s.FixKev, s.FixFindings)
	default:
		add(fixSummary, 0, min(s.FixKev, 1), 1)
	}
	add(fixWait, s.RestRisk, s.RestKev, s.RestFindings)
}

// dividedFixes adds what packages with divided findings contribute, and returns the updates of them by image.
func (t *txn) dividedFixes(images []int64, current int64, all map[int64]*[fixWait + 1]imageFix) (map[int64][]imageFix, error) {
	if some, err := someDivided(t.DB); err != nil || !some {
		return nil, err
	}
	var found []struct {
		ImagePk int64
		Fix     packageFix `gorm:"embedded"`
	}
	query := t.Table("package_fixes AS pf").Joins("CROSS JOIN image_packages ip").Joins("CROSS JOIN findings f").Joins("CROSS JOIN vulnerabilities v").
		Where("pf.divided = 1 AND ip.package_pk = pf.package_pk AND ip.excluded = 0 AND f.package_pk = pf.package_pk AND v.id = f.vulnerability_pk").
		Where(open, current, current)
	err := of(query, "ip.image_pk", images).Group("ip.image_pk, pf.package_pk, pf.fingerprint, pf.distro").
		Select("ip.image_pk, pf.package_pk, pf.fingerprint, pf.distro, " + fixSumColumns).Scan(&found).Error
	if err != nil {
		return nil, err
	}
	updates := map[int64][]imageFix{}
	for i := range found {
		row, fix := &found[i], found[i].Fix
		rows := all[row.ImagePk]
		if rows == nil {
			continue
		}
		if fix.Distro == 0 && fix.Sums.FixFindings > 0 {
			updates[row.ImagePk] = append(updates[row.ImagePk], imageFix{
				ImagePk: row.ImagePk, Action: fixUpdate, PackagePk: fix.PackagePk, Fingerprint: fix.Fingerprint,
				RiskMicros: fix.Sums.FixRisk, Kev: fix.Sums.FixKev, Findings: fix.Sums.FixFindings,
			})
			fix.Sums.FixFindings = 0
		}
		addPackageFix(rows, &fix)
	}
	return updates, nil
}
