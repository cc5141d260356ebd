package sqlstore

import (
	"slices"
	"strings"

	"gorm.io/gorm"
)

// Lists count and order packages and vulnerabilities by tables that are written with what they follow from: asking all images for each page would
// take too long. held_packages has the packages that images hold, with the counts of what is found in those that some image does not exclude;
// found_vulnerabilities has the vulnerabilities that are found in a matched image.

// The levels of packages. What no image holds has no row.
const (
	nowhere int64 = iota
	// heldAtAll: every image that holds the package excludes it.
	heldAtAll
	// heldCounted: an image holds the package and does not exclude it, but none that is matched.
	heldCounted
	// heldMatched: a matched image holds the package and does not exclude it.
	heldMatched
)

// foundFixable is the level of vulnerabilities that are found in a package for which a fixed version is known; that of others is 1. What is not found
// has no row.
const foundFixable int64 = 2

// The levels as they should be, of rows h of held_packages and of vulnerabilities v. The values of the second are the current result set, four times.
const (
	levelOfPackage = `CASE WHEN h.level = 3 AND (SELECT 1 FROM image_packages ip JOIN images i ON i.id = ip.image_pk
			WHERE ip.package_pk = h.package_pk AND ip.excluded = 0 AND i.matched_at > 0 LIMIT 1) IS NOT NULL THEN 3
		WHEN h.level >= 2 AND (SELECT 1 FROM image_packages ip WHERE ip.package_pk = h.package_pk AND ip.excluded = 0 LIMIT 1) IS NOT NULL THEN 2
		WHEN (SELECT 1 FROM image_packages ip WHERE ip.package_pk = h.package_pk LIMIT 1) IS NOT NULL THEN 1 ELSE 0 END`
	levelOfVulnerability = `CASE WHEN (SELECT 1 FROM findings f JOIN held_packages h ON h.package_pk = f.package_pk
			WHERE f.vulnerability_pk = v.id AND ` + openInMatched + ` AND h.level = 3 AND f.fixable = 1 LIMIT 1) IS NOT NULL THEN 2
		WHEN (SELECT 1 FROM findings f JOIN held_packages h ON h.package_pk = f.package_pk
			WHERE f.vulnerability_pk = v.id AND ` + openInMatched + ` AND h.level = 3 LIMIT 1) IS NOT NULL THEN 1 ELSE 0 END`
)

// leveled is a row of one of the tables, with the level that it should have.
type leveled struct{ ID, Level, Wanted int64 }

// packagesOf lists the packages of images, each once.
func packagesOf(tx *gorm.DB, images []int64, condition string) ([]int64, error) {
	var all []int64
	err := inParts(images, func(part []int64) error {
		var ids []int64
		err := tx.Raw("SELECT DISTINCT package_pk FROM image_packages WHERE image_pk IN ?"+condition, part).Scan(&ids).Error
		all = append(all, ids...)
		return err
	})
	slices.Sort(all)
	return slices.Compact(all), err
}

// vulnerabilitiesOf lists the vulnerabilities that findings of packages name or named.
func vulnerabilitiesOf(tx *gorm.DB, packages []int64) ([]int64, error) {
	var all []int64
	err := inParts(packages, func(part []int64) error {
		var named []int64
		err := tx.Raw("SELECT DISTINCT vulnerability_pk FROM findings WHERE package_pk IN ?", part).Scan(&named).Error
		all = append(all, named...)
		return err
	})
	slices.Sort(all)
	return slices.Compact(all), err
}

// noteHeld notes that an image holds its packages, and that it may hold others no more.
func (t *txn) noteHeld(image int64, before []int64) error {
	t.noteFixes(nil, image)
	t.noteTags(nil, nil, image)
	var matchedAt int64
	if err := t.Raw("SELECT matched_at FROM images WHERE id = ?", image).Scan(&matchedAt).Error; err != nil {
		return err
	}
	packages, err := packagesOf(t.DB, []int64{image}, "")
	if err != nil {
		return err
	}
	if err := t.raiseHeld(packages, heldAtAll); err != nil {
		return err
	}
	level := heldCounted
	if matchedAt > 0 {
		level = heldMatched
	}
	if err := t.raiseCounted(image, level); err != nil {
		return err
	}
	return t.lowerHeld(before)
}

// raiseCounted notes that an image holds the packages that it does not exclude.
func (t *txn) raiseCounted(image, level int64) error {
	packages, err := packagesOf(t.DB, []int64{image}, " AND excluded = 0")
	if err != nil {
		return err
	}
	return t.raiseHeld(packages, level)
}

// raiseHeld notes that an image holds packages.
func (t *txn) raiseHeld(ids []int64, level int64) error {
	return inParts(ids, func(part []int64) error {
		err := t.Execute(`INSERT INTO held_packages (package_pk, fingerprint, level) SELECT p.id, p.fingerprint, 1 FROM packages p WHERE p.id IN ?
			AND NOT EXISTS (SELECT 1 FROM held_packages h WHERE h.package_pk = p.id)`, part)
		if err != nil || level == heldAtAll {
			return err
		}
		var raised []int64
		err = t.Raw("SELECT package_pk FROM held_packages WHERE package_pk IN ? AND level < ?", part, level).Scan(&raised).Error
		if err != nil {
			return err
		}
		if len(raised) > 0 {
			if err := t.Execute("UPDATE held_packages SET level = ? WHERE package_pk IN ?", level, raised); err != nil {
				return err
			}
		}
		return t.recountHeld(part, raised)
	})
}

// lowerHeld notes that images hold packages no more, or are not matched any more.
func (t *txn) lowerHeld(ids []int64) error {
	return inParts(ids, func(part []int64) error {
		var rows []leveled
		err := t.Raw("SELECT h.package_pk AS id, h.level, "+levelOfPackage+" AS wanted FROM held_packages h WHERE h.package_pk IN ?", part).Scan(&rows).Error
		if err != nil {
			return err
		}
		lowered := map[int64][]int64{}
		var all []int64
		for _, row := range rows {
			if row.Wanted < row.Level {
				lowered[row.Wanted] = append(lowered[row.Wanted], row.ID)
				all = append(all, row.ID)
			}
		}
		if gone := lowered[nowhere]; len(gone) > 0 {
			if err := t.Execute("DELETE FROM held_packages WHERE package_pk IN ?", gone); err != nil {
				return err
			}
		}
		for level := heldAtAll; level < heldMatched; level++ {
			if len(lowered[level]) == 0 {
				continue
			}
			if err := t.Execute("UPDATE held_packages SET level = ? WHERE package_pk IN ?", level, lowered[level]); err != nil {
				return err
			}
		}
		return t.recountHeld(part, all)
	})
}

// recountHeld counts packages whose level has changed. Divided findings count depending on which images hold the package, so those that images began or
// ceased to hold are counted, too.
func (t *txn) recountHeld(held, changed []int64) error {
	divided, err := dividedPackages(t.DB, held)
	if err != nil {
		return err
	}
	t.noteFixes(changed) // What can be done about the others is different in these images only.
	changed = append(changed, divided...)
	slices.Sort(changed)
	_, err = t.recount(slices.Compact(changed), nil)
	return err
}

// recount makes the counts of packages those of their findings, and returns what it adds to them. It notes which vulnerabilities are found, of those
// that these findings name or named and of others.
func (t *txn) recount(ids, others []int64) (map[int64]countsDelta, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	current, err := currentNumber(t.DB)
	if err != nil {
		return nil, err
	}
	deltas := map[int64]countsDelta{}
	err = inParts(ids, func(part []int64) error {
		var before, after []packageCounts
		err := t.Raw("SELECT package_pk, "+strings.Join(countColumns, ", ")+" FROM held_packages WHERE package_pk IN ?", part).Scan(&before).Error
		if err != nil {
			return err
		}
		err = t.Raw("SELECT f.package_pk, "+severitySums()+` FROM findings f JOIN vulnerabilities v ON v.id = f.vulnerability_pk
			JOIN held_packages h ON h.package_pk = f.package_pk WHERE f.package_pk IN ? AND `+openSomewhere+" AND h.level >= ? GROUP BY f.package_pk",
			part, current, current, heldCounted).Scan(&after).Error
		if err != nil {
			return err
		}
		return t.setPackageCounts(before, after, deltas)
	})
	if err != nil {
		return nil, err
	}
	named, err := vulnerabilitiesOf(t.DB, ids)
	if err != nil {
		return nil, err
	}
	named = append(named, others...)
	slices.Sort(named)
	return deltas, t.recheckFound(slices.Compact(named), current)
}

// packageCounts are the counts of a package.
type packageCounts struct {
	PackagePk int64
	Counts    countsRow `gorm:"embedded"`
}

// setPackageCounts writes the counts that differ, and notes the differences in deltas.
func (t *txn) setPackageCounts(before, after []packageCounts, deltas map[int64]countsDelta) error {
	counts := make(map[int64]countsRow, len(after))
	for _, row := range after {
		counts[row.PackagePk] = row.Counts
	}
	var ids []int64
	for _, row := range before {
		if now := counts[row.PackagePk]; now != row.Counts {
			ids = append(ids, row.PackagePk)
			deltas[row.PackagePk] = now.since(&row.Counts)
		}
	}
	return t.addTo("held_packages", "package_pk", ids, deltas)
}

// recheckFound notes which vulnerabilities are found.
func (t *txn) recheckFound(ids []int64, current int64) error {
	return inParts(ids, func(part []int64) error {
		var rows []leveled
		err := t.Raw("SELECT v.id, COALESCE(n.level, 0) AS level, "+levelOfVulnerability+` AS wanted FROM vulnerabilities v
			LEFT JOIN found_vulnerabilities n ON n.vulnerability_pk = v.id WHERE v.id IN ?`, current, current, current, current, part).Scan(&rows).Error
		if err != nil {
			return err
		}
		var gone []int64
		var values []any
		for _, row := range rows {
			if row.Wanted == row.Level {
				continue
			}
			if row.Level != nowhere {
				gone = append(gone, row.ID)
			}
			if row.Wanted != nowhere {
				values = append(values, row.ID, row.Wanted)
			}
		}
		if len(gone) > 0 {
			if err := t.Execute("DELETE FROM found_vulnerabilities WHERE vulnerability_pk IN ?", gone); err != nil {
				return err
			}
		}
		return t.Insert("found_vulnerabilities", []string{"vulnerability_pk", "level"}, values, "")
	})
}
