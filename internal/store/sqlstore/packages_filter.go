package sqlstore

import (
	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// holders selects rows ip of what images that the query chooses hold.
func (q *packageSearch) holders(tx *gorm.DB) *gorm.DB {
	return q.ofChosen(tx, tx.Table("image_packages AS ip"), "ip.image_pk")
}

// ofChosen adds the condition that a column is an image that the query chooses.
func (q *packageSearch) ofChosen(tx, rows *gorm.DB, column string) *gorm.DB {
	if q.ImageID != "" {
		rows = rows.Where(column+" IN (?)", equals(tx.Table("images AS i").Select("i.id"), "i.image_id", q.ImageID))
	}
	if !q.chosen.everywhere() {
		rows = rows.Where(column+" IN (?)", q.chosen.images(tx))
	}
	return rows
}

// unfiltered reports whether all images are asked.
func (q *packageSearch) unfiltered() bool { return q.ImageID == "" && q.chosen.everywhere() }

// counts are the columns of the counts of a package. They are 0 if all of the chosen images exclude it: what is said of it is found in none of them.
func (q *packageSearch) counts() string {
	if q.unfiltered() {
		return perCount("h.%[1]s")
	}
	return perCount("CASE WHEN " + q.isCounted() + " THEN " + q.count() + " ELSE 0 END AS %[1]s")
}

// count is a count of a package of which not all of the chosen images exclude it.
func (q *packageSearch) count() string {
	if q.unfiltered() || !q.divided.any() {
		return "h.%[1]s"
	}
	return "h.%[1]s - COALESCE(s.%[1]s, 0)"
}

// images selects the chosen images c.
func (q *packageSearch) images(tx *gorm.DB) *gorm.DB {
	if q.ImageID != "" {
		return q.ofChosen(tx, tx.Table("(?) AS c", equals(tx.Table("images AS i").Select("i.id AS image_pk"), "i.image_id", q.ImageID)), "c.image_pk")
	}
	return tx.Table("(?) AS c", q.chosen.images(tx))
}

// counting selects the chosen images c in which findings count. For who sees some namespaces, these are the matched ones.
func (q *packageSearch) counting(tx *gorm.DB) *gorm.DB {
	images := q.images(tx)
	if !q.chosen.in.All() {
		images = images.Where(isMatched)
	}
	return images
}

// suppressed counts the findings of packages that count in some image, but in none of the chosen ones.
func (q *packageSearch) suppressed(tx *gorm.DB) *gorm.DB {
	open := q.holders(tx).Select("1").Where("ip.package_pk = f.package_pk AND ip.excluded = 0").
		Where("NOT " + q.view.suppressedIn("f.id", q.divided))
	if !q.chosen.in.All() {
		open = open.Joins("JOIN images k ON k.id = ip.image_pk AND k.matched_at > 0")
	}
	if q.divided.known {
		return tx.Table("findings AS f").Joins("JOIN vulnerabilities v ON v.id = f.vulnerability_pk").Where("f.id IN (?)", numberList(q.divided.hidden)).
			Where(openSomewhere, q.current, q.current).Select("f.package_pk, " + severitySums()).Group("f.package_pk")
	}
	return tx.Table("(?) AS f", q.divided.suppressed(tx)).Joins("JOIN vulnerabilities v ON v.id = f.vulnerability_pk").
		Where(openInSome, q.current, q.current).Where("NOT EXISTS (?)", open).Select("f.package_pk, " + severitySums()).Group("f.package_pk")
}

// readSets reads the chosen images and what they hold, nil if that is not known. Packages that are chosen by name are few.
func (q *packageSearch) readSets(tx *gorm.DB) (*someImages, error) {
	if q.unfiltered() || q.Name != "" {
		return nil, nil //nolint:nilnil // Statements ask about them then.
	}
	images, err := readImages(tx, q.images(tx))
	if err != nil || images == nil {
		return nil, err
	}
	// Only matched images count for who sees some namespaces: what is known of the packages of others follows from other images.
	all := q.chosen.in.All()
	q.sets, err = q.s.readHeld(tx, images.ids, func(image int64) bool { return all || images.isMatched(image) })
	if err == nil && q.sets.held.number > q.s.manyPackages {
		q.manyHeld = q.sets.held.sorted(nil)
	}
	return images, err
}

// isCounted is the condition that a package counts in one of the chosen images.
func (q *packageSearch) isCounted() string {
	if q.manyHeld != nil {
		return "h.excluded = 0"
	}
	return "c.excluded = 0"
}

// filter selects the rows h of held_packages that the query matches, with the rows c of the chosen images, or with whether these exclude the package.
func (q *packageSearch) filter(tx *gorm.DB) *gorm.DB {
	packages := tx.Table("held_packages AS h")
	if q.manyHeld != nil {
		packages = tx.Table("(?) AS h", tx.Table("held_packages AS a").Where(q.dialect.Among("a.package_pk", q.manyHeld)).
			Select("a.*, CASE WHEN ? THEN 0 ELSE 1 END AS excluded", q.dialect.Among("a.package_pk", q.sets.counted.sorted(nil))))
	}
	if q.Name != "" || q.Type != "" || q.Text != "" {
		packages = packages.Joins("JOIN packages p ON p.id = h.package_pk")
	}
	packages = contains(equals(q.named(packages), "p.type", q.Type), q.dialect, q.Text, "p.name")
	if !q.unfiltered() && q.manyHeld == nil {
		chosen := q.holders(tx).Select("ip.package_pk, MIN(ip.excluded) AS excluded")
		if !q.chosen.in.All() {
			// Only matched images count: what is known of the packages of others follows from other images.
			chosen = q.holders(tx).Joins("JOIN images k ON k.id = ip.image_pk").
				Select("ip.package_pk, MIN(CASE WHEN ip.excluded = 0 AND k.matched_at > 0 THEN 0 ELSE 1 END) AS excluded")
		}
		chosen = chosen.Group("ip.package_pk")
		packages = packages.Joins("JOIN (?) c ON c.package_pk = h.package_pk", chosen)
	}
	if !q.unfiltered() && q.divided.any() {
		packages = packages.Joins("LEFT JOIN (?) s ON s.package_pk = h.package_pk", q.suppressed(tx))
	}
	if q.ids != "" {
		packages = packages.Where("h.package_pk IN (" + q.ids + ")") // Numbers, too many to be given as values.
	}
	if q.due != nil {
		packages = packages.Where("h.package_pk IN (?)", q.due)
	}
	if q.Vulnerable || q.MinSeverity > model.SeverityUnknown {
		packages = packages.Where(orWorse(q.count(), q.MinSeverity))
		if !q.unfiltered() {
			packages = packages.Where(q.isCounted())
		}
	}
	return packages
}

// entries selects a packageEntry for each package.
func (q *packageSearch) entries(filtered *gorm.DB) *gorm.DB {
	if q.Name == "" && q.Type == "" && q.Text == "" { // Otherwise they are joined already.
		filtered = filtered.Joins("JOIN packages p ON p.id = h.package_pk")
	}
	return filtered.Select("p.id, p.name, p.version, p.type, p.fingerprint, " + q.counts())
}
