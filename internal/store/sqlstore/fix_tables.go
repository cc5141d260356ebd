package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// Fixes are ordered by two tables that are written with what they follow from, as those in held.go are. package_fixes has the packages of matched
// images that have findings, with what a fix of the package closes and what remains in each image, apart from those in which findings are suppressed.
// image_fixes has, of each matched image, the sums over its packages, and what updates close there that close less than package_fixes says.

// allFixPackages is from how many packages with divided findings on all images are computed again, without looking up which hold them.
const allFixPackages = 2000

// allFixImages is the part of all images from which on all are computed again: what all hold is read by package, and what some hold by image, which takes longer.
const allFixImages = 4

// fixSums are sums over findings: of those that a fix closes, and of the others.
type fixSums struct {
	FixRisk, FixKev, FixFindings    int64
	RestRisk, RestKev, RestFindings int64
}

// plus adds others.
func (s *fixSums) plus(o *fixSums) {
	s.FixRisk += o.FixRisk
	s.FixKev += o.FixKev
	s.FixFindings += o.FixFindings
	s.RestRisk += o.RestRisk
	s.RestKev += o.RestKev
	s.RestFindings += o.RestFindings
}

// fixSumColumns are the columns of fixSums over findings f of vulnerabilities v.
const fixSumColumns = `SUM(CASE WHEN f.fixable = 1 THEN v.risk_micros ELSE 0 END) AS fix_risk, SUM(CASE WHEN f.fixable = 1 THEN v.kev ELSE 0 END) AS fix_kev,
	SUM(f.fixable) AS fix_findings, SUM(CASE WHEN f.fixable = 1 THEN 0 ELSE v.risk_micros END) AS rest_risk,
	SUM(CASE WHEN f.fixable = 1 THEN 0 ELSE v.kev END) AS rest_kev, SUM(1 - f.fixable) AS rest_findings`

// fromDistribution is 1 for packages p of a distribution, and otherwise 0.
var fromDistribution = "CASE WHEN p.type IN ('" + strings.Join(model.DistributionTypes(), "','") + "') THEN 1 ELSE 0 END"

// The values of package_fixes.divided for packages with divided findings.
const (
	// earlierDivided was written up to record 140: the row has no sums, and the update a row of image_fixes in each image in which it closes anything.
	earlierDivided int64 = 1 + iota
	someDivide
)

// packageFix is a row of package_fixes.
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

// update is what an update of a package is in each image that holds it, apart from those that have a row of their own.
func (f *packageFix) update() imageFix {
	return imageFix{
		Action: fixUpdate, PackagePk: f.PackagePk, Fingerprint: f.Fingerprint, RiskMicros: f.Sums.FixRisk, Kev: f.Sums.FixKev, Findings: f.Sums.FixFindings,
	}
}

// noteFixes notes that what can be done about packages or images may have changed. Packages are those whose findings, suppressions or levels changed: all
// images that hold one with divided findings are computed again. What changes in one image only is noted with this image.
func (t *txn) noteFixes(packages []int64, images ...int64) {
	t.noteReachedFixes(nil, images)
	for _, id := range packages {
		t.fixPackages[id] = true
	}
}

// noteReachedFixes is noteFixes for packages that change in the same way in each image, apart from those in which a finding of theirs is or was suppressed:
// these images are noted, too.
func (t *txn) noteReachedFixes(packages, images []int64) {
	if t.fixPackages == nil {
		t.fixPackages, t.fixImages = map[int64]bool{}, map[int64]bool{}
	}
	for _, id := range packages {
		if _, noted := t.fixPackages[id]; !noted {
			t.fixPackages[id] = false
		}
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
	var divided []int64
	for id, change := range changed {
		if change.divided() && (t.fixPackages[id] || change.before.Divided == earlierDivided) {
			divided = append(divided, id)
			delete(changed, id)
		}
	}
	if t.fixAll || len(divided) > allFixPackages {
		return t.refreshImageFixes(nil, current)
	}
	images := map[int64]bool{}
	maps.Copy(images, t.fixImages)
	err = inParts(divided, func(part []int64) error {
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
	if len(images) > sqldb.MaxIn {
		var known int
		if err := t.Raw("SELECT COUNT(*) FROM images").Scan(&known).Error; err != nil {
			return err
		}
		if len(images) > known/allFixImages {
			return t.refreshImageFixes(nil, current)
		}
	}
	if err := t.refreshImageFixes(append([]int64{}, slices.Sorted(maps.Keys(images))...), current); err != nil {
		return err
	}
	return t.addToImageFixes(changed, images, current)
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
		{"images", func(tx *txn, ids []int64, current int64) error {
			if err := errors.Join(tx.savePackageSets(ids), tx.refreshElsewhere(ids), tx.recountReachedOf(ids)); err != nil {
				return err
			}
			return tx.refreshImageFixes(ids, current)
		}},
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
	if err := s.refreshAllTagFixes(ctx); err != nil {
		return err
	}
	return s.refreshKnownBases(ctx)
}

// packageFixChange is what became of the row of a package. A row without a package is none.
type packageFixChange struct{ before, after packageFix }

// divided reports whether the change differs from image to image.
func (c *packageFixChange) divided() bool { return c.before.Divided != 0 || c.after.Divided != 0 }

// refreshPackageFixes makes the rows of packages what they should be, and returns those that changed or have divided findings; nil stands for all packages.
func (t *txn) refreshPackageFixes(packages []int64, current int64) (map[int64]packageFixChange, error) {
	changed := map[int64]packageFixChange{}
	err := eachPart(packages, func(part []int64) error {
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
		for id, was := range before {
			if _, stays := after[id]; !stays {
				gone = append(gone, id)
				changed[id] = packageFixChange{before: was}
			}
		}
		for _, id := range slices.Sorted(maps.Keys(after)) {
			was, is := before[id], after[id]
			if was != is {
				gone = append(gone, id)
				values = append(values, is.values()...)
			}
			if was != is || is.Divided != 0 {
				changed[id] = packageFixChange{was, is}
			}
		}
		slices.Sort(gone)
		err = inParts(gone, func(ids []int64) error { return t.Execute("DELETE FROM package_fixes WHERE package_pk IN ?", ids) })
		if err != nil {
			return err
		}
		return t.Insert("package_fixes", packageFixColumns, values, "")
	})
	return changed, err
}

func readPackageFixes(query *gorm.DB) (map[int64]packageFix, error) {
	var rows []packageFix
	if err := query.Scan(&rows).Error; err != nil {
		return nil, err
	}
	fixes := make(map[int64]packageFix, len(rows))
	for _, row := range rows {
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
		Select("h.package_pk, h.fingerprint, " + fromDistribution + " AS distro, " + fmt.Sprintf("MAX(CASE WHEN "+isDivided+" THEN %d ELSE 0 END)", someDivide) + " AS divided, " + fixSumColumns))
}
