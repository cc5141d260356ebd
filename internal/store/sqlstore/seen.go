package sqlstore

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// seen is how findings count for who sees some namespaces: one does not count in an image if decisions suppress it in all places of the image that are
// visible. For who sees all namespaces, reached says where that is.
type seen struct {
	in store.Namespaces
	// placed says that findings can count elsewhere only.
	placed bool
	// closedHere has the images of reaches with places which have all visible places of these, but not all places; nil if statements ask for them, as they do when there
	// are more than maxClosedHere.
	closedHere map[int64][]int64
	// ofImage are the reaches that have all visible places of the one image that this is about, nil if it is about more.
	ofImage []int64
	// workloads is nil unless it is about some workloads of one image alone.
	workloads *workloadReaches
}

// maxClosedHere is how many images of reaches statements name. With more, they ask for each. Tests have fewer, and read in both ways.
var maxClosedHere = 500

// seenIn reads how findings count in some namespaces.
func seenIn(tx *gorm.DB, in store.Namespaces) (seen, error) { return seenOf(tx, in, "", nil) }

// seenOf is seenIn for the images y of a condition, which begins with AND. places is how many of the namespaces each image is visible in, nil if that has to be read.
func seenOf(tx *gorm.DB, in store.Namespaces, condition string, places map[int64]int) (seen, error) {
	s := seen{in: in}
	switch names := in.Names(); {
	case in.All() || len(names) == 0:
		return s, nil
	case len(names) == 1:
		return s, s.readOne(tx, condition)
	}
	may, err := mayClose(tx, in, condition, places)
	if err != nil || may == nil {
		s.placed = true
		return s, err
	}
	s.name(slices.Collect(maps.Keys(may)))
	return s, s.confirm(tx, may)
}

// readOne reads closedHere of one namespace. A reach has all visible places of an image there if it has the whole namespace.
func (s *seen) readOne(tx *gorm.DB, condition string) error {
	const whole = "(SELECT yp.partly FROM reached_namespaces yp WHERE yp.reach = y.reach AND yp.image_pk = y.image_pk AND yp.namespace = y.namespace) = 0"
	const all = "(SELECT xa.reach FROM reached xa WHERE xa.reach = y.reach AND xa.image_pk = y.image_pk)"
	var rows []imageReach
	err := tx.Raw("SELECT y.reach, y.image_pk FROM reached_elsewhere y WHERE " + isWithin("y.namespace", s.in) + condition + " AND " + whole + " AND " + all + " IS NULL LIMIT " +
		strconv.Itoa(maxClosedHere+1)).Scan(&rows).Error
	if s.placed = len(rows) > 0; err != nil || len(rows) > maxClosedHere {
		return err
	}
	s.name(rows)
	return nil
}

// name makes closedHere these rows.
func (s *seen) name(rows []imageReach) {
	slices.SortFunc(rows, imageReach.compare)
	s.closedHere = map[int64][]int64{}
	for _, row := range rows {
		s.closedHere[row.Reach] = append(s.closedHere[row.Reach], row.ImagePk)
	}
}

// mayClose reads which reaches may have all visible places of an image y of a condition, though not all places, and how many visible places it has: mostly none. It
// is nil if there are too many. Joined with the visible places, MariaDB looks these up for each image.
func mayClose(tx *gorm.DB, in store.Namespaces, condition string, places map[int64]int) (map[imageReach]int, error) {
	rows := map[imageReach]int{}
	err := eachRow(tx.Table("reached_elsewhere AS y").Where(isWithin("y.namespace", in)+condition).Select("y.reach, y.image_pk, COUNT(*)").
		Group("y.reach, y.image_pk").Limit(maxDividing+1), func(scan func(...any) error) error {
		var row imageReach
		var count int
		err := scan(&row.Reach, &row.ImagePk, &count)
		rows[row] = count
		return err
	})
	if err != nil || len(rows) > maxDividing {
		return nil, err
	}
	if places == nil && len(rows) > 0 {
		if places, err = countPlaces(tx, in, rows); err != nil {
			return nil, err
		}
	}
	maps.DeleteFunc(rows, func(row imageReach, count int) bool { return count != places[row.ImagePk] })
	if len(rows) > maxClosedHere {
		return nil, nil //nolint:nilnil // Then statements ask for each.
	}
	return rows, nil
}

// countPlaces counts the namespaces that the images of rows are visible in.
func countPlaces(tx *gorm.DB, in store.Namespaces, rows map[imageReach]int) (map[int64]int, error) {
	images := make([]int64, 0, len(rows))
	for row := range rows {
		images = append(images, row.ImagePk)
	}
	places := map[int64]int{}
	return places, eachRow(tx.Table("image_namespaces AS m").Where(isWithin("m.namespace", in)+" AND m.image_pk + 0 IN (?)", numberList(inOrder(images))).
		Select("m.image_pk, COUNT(*)").Group("m.image_pk"), func(scan func(...any) error) error {
		var image int64
		var count int
		err := scan(&image, &count)
		places[image] = count
		return err
	})
}

// confirm leaves in closedHere what is so, of what may be so with these numbers of places.
func (s *seen) confirm(tx *gorm.DB, may map[imageReach]int) error {
	if len(may) == 0 {
		return nil
	}
	var rows []struct {
		Reach, ImagePk int64
		Places         int
	}
	err := tx.Raw("SELECT y.reach, y.image_pk, COUNT(*) AS places FROM reached_namespaces y WHERE " + s.named("y.reach", "y.image_pk") + " AND y.partly = 0 AND " + isWithin("y.namespace", s.in) +
		" AND NOT EXISTS (SELECT 1 FROM reached xa WHERE xa.reach = y.reach AND xa.image_pk = y.image_pk) GROUP BY y.reach, y.image_pk").Scan(&rows).Error
	s.closedHere = map[int64][]int64{}
	for _, row := range rows {
		if row.Places == may[imageReach{row.Reach, row.ImagePk}] {
			s.closedHere[row.Reach] = append(s.closedHere[row.Reach], row.ImagePk)
			s.placed = true
		}
	}
	return err
}

// ofOne makes s about one image alone, if few reaches have all of its visible places: PostgreSQL reads the images of all reaches otherwise.
func (s seen) ofOne(tx *gorm.DB, image int64) (seen, error) {
	reaches := []int64{}
	err := tx.Table(s.reached()+" AS x").Select("x.reach").Where("x.image_pk = ?", image).Order("x.reach").Limit(maxClosedHere + 1).Scan(&reaches).Error
	if len(reaches) <= maxClosedHere {
		s.ofImage = reaches
	}
	return s, err
}

// visiblePlaces counts the visible namespaces of an image, given by a column.
func (s seen) visiblePlaces(image string) string {
	return "(SELECT COUNT(*) FROM image_namespaces yn WHERE yn.image_pk = " + image + " AND " + isWithin("yn.namespace", s.in) + ")"
}

// named is the condition that a reach and an image, given by columns, are in closedHere.
func (s seen) named(reach, image string) string {
	var conditions []string
	for _, id := range slices.Sorted(maps.Keys(s.closedHere)) {
		conditions = append(conditions, reach+" = "+strconv.FormatInt(id, 10)+" AND "+image+" IN ("+numberList(s.closedHere[id]).SQL+")")
	}
	if len(conditions) == 0 {
		return "1 = 0"
	}
	return "(" + strings.Join(conditions, " OR ") + ")"
}

// closes is the condition that a reach has all visible places of an image. Both are columns.
func (s seen) closes(reach, image string) string {
	if s.ofImage != nil {
		return "(" + reach + " IN (" + numberList(s.ofImage).SQL + ")" + s.workloads.or(reach) + ")"
	}
	has := "EXISTS (SELECT 1 FROM reached x WHERE x.reach = " + reach + " AND x.image_pk = " + image + ")"
	if s.workloads != nil {
		return "(" + has + s.workloads.or(reach) + ")"
	}
	if !s.placed {
		return has
	}
	if s.closedHere != nil {
		return "(" + has + " OR " + s.named(reach, image) + ")"
	}
	whole := func(y string) string {
		return "SELECT 1 FROM reached_namespaces " + y + " WHERE " + y + ".reach = " + reach + " AND " + y + ".image_pk = " + image + " AND " + y + ".partly = 0"
	}
	return "(" + has + " OR (EXISTS (" + whole("ya") + " AND " + isWithin("ya.namespace", s.in) + ") AND NOT EXISTS (SELECT 1 FROM image_namespaces yn WHERE yn.image_pk = " +
		image + " AND " + isWithin("yn.namespace", s.in) + " AND NOT EXISTS (" + whole("yb") + " AND yb.namespace = yn.namespace))))"
}

// unsuppressedThere is that of who sees these namespaces.
func (s seen) unsuppressedThere() string {
	if !s.placed && s.ofImage == nil {
		return unsuppressedThere
	}
	return "NOT EXISTS (SELECT 1 FROM finding_suppressions fs WHERE fs.finding_id = f.id AND (fs.reach = 0 OR " + s.closes("fs.reach", "ip.image_pk") + "))"
}

// open is that of who sees these namespaces.
func (s seen) open() string { return shown + " AND " + s.unsuppressedThere() }

// suppressedThere is the condition that a finding, given by a column, is suppressed in the image of ip, though not everywhere.
func (s seen) suppressedThere(finding string) string {
	return s.suppressedIn(finding, dividing{all: true})
}

// suppressedIn is suppressedThere by one of some reaches.
func (s seen) suppressedIn(finding string, reaches dividing) string {
	suppresses := "WHERE fs.finding_id = " + finding + " AND " + reaches.each("fs.reach")
	if !s.placed && s.ofImage == nil {
		return "EXISTS (SELECT 1 FROM finding_suppressions fs JOIN reached x ON x.reach = fs.reach " + suppresses + " AND x.image_pk = ip.image_pk)"
	}
	return "EXISTS (SELECT 1 FROM finding_suppressions fs " + suppresses + " AND " + s.closes("fs.reach", "ip.image_pk") + ")"
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
	if s.closedHere != nil {
		return "SELECT DISTINCT y.reach, y.image_pk FROM reached_namespaces y WHERE " + s.named("y.reach", "y.image_pk")
	}
	return "SELECT y.reach, y.image_pk FROM reached_namespaces y WHERE y.partly = 0 AND " + isWithin("y.namespace", s.in) +
		" GROUP BY y.reach, y.image_pk HAVING COUNT(*) = " + s.visiblePlaces("y.image_pk")
}

// reachedCounted is reached, where it can be without the images in which a reach with places suppresses nothing that others do not.
func (s seen) reachedCounted() string {
	if !s.placed || s.closedHere != nil {
		return s.reached()
	}
	return "(SELECT xa.reach, xa.image_pk FROM reached xa WHERE xa.reach NOT IN (SELECT q.reach FROM placed_reaches q) UNION ALL " + s.closedCounted("") + ")"
}

// closedCounted is closed for images y of a condition that begins with AND, without those in which a reach suppresses no findings. It is for a view whose closedHere is not known. It begins
// with what is visible, rows ym: a reach can have many other images. Joined without LEFT, MariaDB begins with all rows of reached_counts.
func (s seen) closedCounted(condition string) string {
	return "SELECT y.reach, y.image_pk FROM image_namespaces ym CROSS JOIN reached_namespaces y LEFT JOIN reached_counts yc ON yc.reach = y.reach AND yc.image_pk = y.image_pk WHERE " +
		isWithin("ym.namespace", s.in) + " AND y.image_pk = ym.image_pk AND y.namespace = ym.namespace AND y.partly = 0" + condition +
		" GROUP BY y.reach, y.image_pk HAVING COUNT(yc.reach) > 0 AND COUNT(*) = " + s.visiblePlaces("y.image_pk")
}

// closedByNamespace selects the reaches with places and the images of which they have all places in a namespace.
const closedByNamespace = "SELECT y.reach, y.image_pk, y.namespace FROM reached_namespaces y WHERE y.partly = 0"

// closedByWorkload selects the reaches with places, and the images that a workload runs which is one of the places.
func closedByWorkload(tx *gorm.DB) *gorm.DB {
	running := uses(tx.Table("reached_namespaces AS y").Joins("JOIN image_uses u ON u.image_pk = y.image_pk AND u.namespace = y.namespace"), place{in: store.AllNamespaces()})
	return running.Where(hasWorkload).Distinct("y.reach, y.image_pk, u.namespace, u.kind, u.name")
}

// elsewhereByWorkload selects the counts that findings have elsewhere only: of images in whole namespaces, and of images in some workloads of a namespace. An image
// is in each with a row at most. Joined with the uses of the images, databases read those in all namespaces.
func elsewhereByWorkload(tx *gorm.DB, chosen place) (whole, some *gorm.DB) {
	const partly = "(SELECT yp.partly FROM reached_namespaces yp WHERE yp.reach = y.reach AND yp.image_pk = y.image_pk AND yp.namespace = y.namespace)"
	counted := within(tx.Table("reached_elsewhere AS y"), "y.namespace", chosen.in.In(chosen.Namespace)).
		Joins("JOIN reached_counts yc ON yc.reach = y.reach AND yc.image_pk = y.image_pk")
	if chosen.Where != (store.Where{}) {
		counted = counted.Where("y.image_pk IN (?)", chosen.images(tx))
	}
	counted = counted.Session(&gorm.Session{})
	namespaces := counted.Where(partly + " = 0").Distinct("y.reach, y.image_pk, y.namespace")
	workloads := counted.Joins("JOIN reached_workloads yw ON yw.reach = y.reach AND yw.image_pk = y.image_pk AND yw.namespace = y.namespace").Where(partly + " = 1").
		Distinct("y.reach, y.image_pk, yw.namespace, yw.kind, yw.name")
	return hidden(tx.Table("(?) AS y", namespaces), "y.image_pk, y.namespace"), hidden(tx.Table("(?) AS y", workloads), "y.image_pk, y.namespace, y.kind, y.name")
}

// hasWorkload is the condition that the workload of use u is one of the places in row y of reached_namespaces.
const hasWorkload = `(y.partly = 0 OR EXISTS (SELECT 1 FROM reached_workloads yw WHERE yw.reach = y.reach AND yw.image_pk = y.image_pk
	AND yw.namespace = u.namespace AND yw.kind = u.kind AND yw.name = u.name))`

// images selects the images i, with the counts of who sees these namespaces.
func (s seen) images(tx *gorm.DB) *gorm.DB {
	if !s.placed {
		return tx.Table("images AS i")
	}
	return imagesWithout(tx, s.elsewhere(tx, nil))
}

// elsewhere selects, by image, the counts of findings that count elsewhere only, of some images; nil stands for all.
func (s seen) elsewhere(tx *gorm.DB, images []int64) *gorm.DB {
	if s.closedHere != nil {
		return sumsOfReached(of(tx.Table("reached_counts AS c"), "c.image_pk", images).Where(s.named("c.reach", "c.image_pk")), "c.image_pk")
	}
	condition := ""
	if images != nil {
		condition = " AND y.image_pk IN (" + numberList(images).SQL + ")"
	}
	return hidden(tx.Table("("+s.closedCounted(condition)+") AS y"), "y.image_pk")
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
		err := s.elsewhere(tx, part).Scan(&found).Error
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
