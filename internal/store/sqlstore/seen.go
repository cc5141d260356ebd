package sqlstore

import (
	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// seen is how findings count for who sees some namespaces: one does not count in an image if decisions suppress it in all places of the image that are
// visible. For who sees all namespaces, reached says where that is.
type seen struct {
	in store.Namespaces
	// placed says that findings can count elsewhere only.
	placed bool
	// workloads is nil unless it is about some workloads of one image alone.
	workloads *workloadReaches
}

// seenIn reads how findings count in some namespaces.
func seenIn(tx *gorm.DB, in store.Namespaces) (seen, error) {
	if in.All() {
		return seen{in: in}, nil
	}
	placed, err := somePlaced(tx)
	return seen{in: in, placed: placed && in.Literals() != ""}, err
}

// closes is the condition that a reach has all visible places of an image. Both are columns.
func (s seen) closes(reach, image string) string {
	has := "EXISTS (SELECT 1 FROM reached x WHERE x.reach = " + reach + " AND x.image_pk = " + image + ")"
	if s.workloads != nil {
		return "(" + has + s.workloads.or(reach) + ")"
	}
	if !s.placed {
		return has
	}
	whole := func(y string) string {
		return "SELECT 1 FROM reached_namespaces " + y + " WHERE " + y + ".reach = " + reach + " AND " + y + ".image_pk = " + image + " AND " + y + ".partly = 0"
	}
	return "(" + has + " OR (EXISTS (" + whole("ya") + " AND " + isWithin("ya.namespace", s.in) + ") AND NOT EXISTS (SELECT 1 FROM image_namespaces yn WHERE yn.image_pk = " +
		image + " AND " + isWithin("yn.namespace", s.in) + " AND NOT EXISTS (" + whole("yb") + " AND yb.namespace = yn.namespace))))"
}

// unsuppressedThere is that of who sees these namespaces.
func (s seen) unsuppressedThere() string {
	if !s.placed {
		return unsuppressedThere
	}
	return "NOT EXISTS (SELECT 1 FROM finding_suppressions fs WHERE fs.finding_id = f.id AND (fs.reach = 0 OR " + s.closes("fs.reach", "ip.image_pk") + "))"
}

// open is that of who sees these namespaces.
func (s seen) open() string { return shown + " AND " + s.unsuppressedThere() }

// suppressedThere is the condition that a finding, given by a column, is suppressed in the image of ip, though not everywhere.
func (s seen) suppressedThere(finding string) string {
	if !s.placed {
		return "EXISTS (SELECT 1 FROM finding_suppressions fs JOIN reached x ON x.reach = fs.reach WHERE fs.finding_id = " + finding + " AND x.image_pk = ip.image_pk)"
	}
	return "EXISTS (SELECT 1 FROM finding_suppressions fs WHERE fs.finding_id = " + finding + " AND fs.reach > 0 AND " + s.closes("fs.reach", "ip.image_pk") + ")"
}

// hide keeps the rows of images ip in which a finding, given by a column, does not count.
func (s seen) hide(rows *gorm.DB, finding string) *gorm.DB {
	return rows.Where(s.suppressedThere(finding))
}

// reached selects the reaches and the images of which they have all visible places, in parentheses unless it is a table.
func (s seen) reached() string {
	if !s.placed {
		return "reached"
	}
	return "(SELECT xa.reach, xa.image_pk FROM reached xa UNION ALL " + s.closed() + ")"
}

// closed selects the reaches with places and the images of which they have all visible places.
func (s seen) closed() string {
	return "SELECT y.reach, y.image_pk FROM reached_namespaces y WHERE y.partly = 0 AND " + isWithin("y.namespace", s.in) +
		" GROUP BY y.reach, y.image_pk HAVING COUNT(*) = (SELECT COUNT(*) FROM image_namespaces yn WHERE yn.image_pk = y.image_pk AND " + isWithin("yn.namespace", s.in) + ")"
}

// reachedCounted is reached without the images in which a reach with places suppresses nothing that others do not.
func (s seen) reachedCounted() string {
	if !s.placed {
		return "reached"
	}
	return "(SELECT xa.reach, xa.image_pk FROM reached xa WHERE xa.reach NOT IN (SELECT q.reach FROM placed_reaches q) UNION ALL " + s.closedCounted("") + ")"
}

// suppressedSomewhere selects the findings that are suppressed in some image x of those that choose leaves, though not everywhere, with their columns:
// joined with findings for these, MariaDB reads all findings first and asks further conditions about each.
func (s seen) suppressedSomewhere(tx *gorm.DB, choose func(*gorm.DB) *gorm.DB) *gorm.DB {
	return choose(tx.Table(s.reachedCounted() + " AS x").Joins("CROSS JOIN finding_suppressions fs").Joins("CROSS JOIN findings fd").
		Where("fs.reach = x.reach AND fd.id = fs.finding_id")).
		Distinct("fd.id, fd.package_pk, fd.vulnerability_pk, fd.fixable, fd.from_gen, fd.until_gen")
}

// closedCounted is closed without the images in which a reach suppresses no findings. It begins with what is visible, rows ym, about which there can be a
// condition: a reach can have many other images. Joined without LEFT, MariaDB begins with all rows of reached_counts.
func (s seen) closedCounted(condition string) string {
	return "SELECT y.reach, y.image_pk FROM image_namespaces ym CROSS JOIN reached_namespaces y LEFT JOIN reached_counts yc ON yc.reach = y.reach AND yc.image_pk = y.image_pk WHERE " +
		isWithin("ym.namespace", s.in) + " AND y.image_pk = ym.image_pk AND y.namespace = ym.namespace AND y.partly = 0" + condition +
		" GROUP BY y.reach, y.image_pk HAVING COUNT(yc.reach) > 0 AND COUNT(*) = (SELECT COUNT(*) FROM image_namespaces yn WHERE yn.image_pk = y.image_pk AND " + isWithin("yn.namespace", s.in) + ")"
}

// closedByNamespace selects the reaches with places and the images of which they have all places in a namespace.
const closedByNamespace = "SELECT y.reach, y.image_pk, y.namespace FROM reached_namespaces y WHERE y.partly = 0"

// closedByWorkload selects the reaches with places, and the images that a workload runs which is chosen and one of the places.
func closedByWorkload(tx *gorm.DB, chosen place) *gorm.DB {
	running := uses(tx.Table("reached_namespaces AS y").Joins("JOIN image_uses u ON u.image_pk = y.image_pk AND u.namespace = y.namespace"), chosen)
	return running.Where(hasWorkload).Distinct("y.reach, y.image_pk, u.namespace, u.kind, u.name")
}

// hasWorkload is the condition that the workload of use u is one of the places in row y of reached_namespaces.
const hasWorkload = `(y.partly = 0 OR EXISTS (SELECT 1 FROM reached_workloads yw WHERE yw.reach = y.reach AND yw.image_pk = y.image_pk
	AND yw.namespace = u.namespace AND yw.kind = u.kind AND yw.name = u.name))`

// images selects the images i, with the counts of who sees these namespaces.
func (s seen) images(tx *gorm.DB) *gorm.DB {
	if !s.placed {
		return tx.Table("images AS i")
	}
	return imagesWithout(tx, hidden(tx.Table("("+s.closedCounted("")+") AS y"), "y.image_pk"))
}

// imagesWithout selects the images i, without the findings that count elsewhere only: rows of hidden by image.
func imagesWithout(tx, elsewhere *gorm.DB) *gorm.DB {
	return tx.Table("(?) AS i", tx.Table("images AS a").Joins("LEFT JOIN (?) z ON z.image_pk = a.id", elsewhere).
		Select("a.id, a.image_id, a.platform, a.repository, a.digest, a.state, a.nonce, a.attempts, a.reason, a.message, a.next_attempt_at, a.distro, a.size, "+
			"a.package_count, a.first_seen, a.catalogued_at, a.matched_at, a.sbom_sha256, a.sbom_size, a.from_report, "+
			perCount("a.%[1]s - COALESCE(z.%[1]s, 0) AS %[1]s")))
}

// limitCounts makes the counts of images those of who sees these namespaces.
func (s seen) limitCounts(tx *gorm.DB, rows []imageRow) error {
	if !s.placed {
		return nil
	}
	ids := make([]int64, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	elsewhere := map[int64]countsDelta{}
	err := inParts(ids, func(part []int64) error {
		var found []struct {
			ImagePk int64
			Counts  countsRow `gorm:"embedded"`
		}
		err := hidden(tx.Table("(?) AS y", tx.Raw(s.closedCounted(" AND ym.image_pk IN ?"), part)), "y.image_pk").Scan(&found).Error
		for i := range found {
			elsewhere[found[i].ImagePk] = (&countsRow{}).since(&found[i].Counts)
		}
		return err
	})
	for i := range rows {
		rows[i].Counts.add(elsewhere[rows[i].ID])
	}
	return err
}

// closedIn selects the reaches with places and the images of which they have all workloads that uses u name.
func closedIn(tx, used *gorm.DB) *gorm.DB {
	workloads := tx.Table("(?) AS o", used.Distinct("u.image_pk, u.namespace, u.kind, u.name")).
		Select("o.image_pk, o.namespace, o.kind, o.name, COUNT(*) OVER (PARTITION BY o.image_pk) AS workloads")
	return tx.Table("reached_namespaces AS y").Joins("JOIN (?) u ON u.image_pk = y.image_pk AND u.namespace = y.namespace", workloads).Where(hasWorkload).
		Select("y.reach, y.image_pk").Group("y.reach, y.image_pk, u.workloads").Having("COUNT(*) = u.workloads")
}

// openAmong keeps the findings f that are open in one of the uses u of an image, given by a column, as far as decisions with places say so.
func openAmong(found, used *gorm.DB, image string) *gorm.DB {
	condition, open := suppressedAmong(used, "f.id", image)
	return found.Where("NOT "+condition, open)
}

// suppressedAmong is the condition that a finding is suppressed in all of the uses u of an image by decisions with places, and its value. Both are given by columns. There has to be such a use.
func suppressedAmong(used *gorm.DB, finding, image string) (condition string, open *gorm.DB) {
	return "EXISTS (SELECT 1 FROM finding_suppressions hs WHERE hs.finding_id = " + finding + " AND hs.reach > 0 AND NOT EXISTS (?))",
		used.Where("u.image_pk = " + image + " AND NOT EXISTS (SELECT 1 FROM reached_namespaces y WHERE y.reach = hs.reach AND y.image_pk = u.image_pk AND y.namespace = u.namespace AND " +
			hasWorkload + ")").Select("1")
}
