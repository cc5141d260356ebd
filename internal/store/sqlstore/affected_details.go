package sqlstore

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// affectedDetail is a finding with its package.
type affectedDetail struct {
	ID                    int64
	Severity              int64
	FixState, FixVersions string
	Package               packageRow `gorm:"embedded"`
}

func affectedDetails(tx *gorm.DB, findings []int64) (map[int64]affectedDetail, error) {
	var rows []affectedDetail
	err := tx.Raw("SELECT f.id, v.severity, f.fix_state, f.fix_versions, "+distinctColumns+` FROM findings f
		JOIN vulnerabilities v ON v.id = f.vulnerability_pk JOIN packages p ON p.id = f.package_pk WHERE f.id IN ?`, findings).Scan(&rows).Error
	details := make(map[int64]affectedDetail, len(rows))
	for _, row := range rows {
		details[row.ID] = row
	}
	return details, err
}

// affectedPlace is what is known of a finding in one image.
type affectedPlace struct {
	ImagePk, FindingID int64
	Own                string
	OpenedAt, Running  int64
	// Ended is when the finding was closed, after the last of the rows that followed each other without a break.
	Ended int64
	// Since and UntilTime are of all that ran the image with the finding, nil when nothing did.
	Since, UntilTime *int64
}

// maxPlaces is how many places a statement lists: the size of a page.
const maxPlaces = 200

// placesOf is a table of so many places, the values of which are an image and a finding each. MySQL and MariaDB write VALUES in different ways; for PostgreSQL, a plan for
// that many selections takes longer than to read what it is for.
func placesOf(d sqldb.Dialect, number int) string {
	if d.Type() == sqldb.TypeMySQL {
		return "SELECT ? AS image_pk, ? AS finding_id" + strings.Repeat(" UNION ALL SELECT ?, ?", number-1)
	}
	const values = "(CAST(? AS BIGINT), CAST(? AS BIGINT))"
	return "SELECT x.column1 AS image_pk, x.column2 AS finding_id FROM (VALUES " + values + strings.Repeat(", "+values, number-1) + ") AS x"
}

// places reads what is known of findings in images that hold their packages. They are listed in pairs: databases would look at each of the images for each of the findings.
func (q *affectedQuery) places(tx *gorm.DB, d sqldb.Dialect, entries []affectedEntry) (map[[2]int64]affectedPlace, error) {
	exposed := "FROM image_presences p WHERE p.image_pk = ip.image_pk AND p.until_time > " + q.opened() + " AND p.since < " + ended
	runs, limited := "", ""
	if in := q.chosen.in; !in.All() {
		exposed += " AND " + isWithin("p.namespace", in)
		runs = " AND " + isWithin("s.namespace", in)
		limited = " JOIN images i ON i.id = ip.image_pk JOIN (SELECT m.image_pk, MIN(m.since) AS since FROM image_namespaces m WHERE " +
			isWithin("m.namespace", in) + " GROUP BY m.image_pk) n ON n.image_pk = ip.image_pk"
	}
	places := make(map[[2]int64]affectedPlace, len(entries))
	for part := range slices.Chunk(entries, maxPlaces) {
		values := make([]any, 0, 2*len(part)+2)
		for i := range part {
			values = append(values, part[i].ImagePk, part[i].FindingID)
		}
		var rows []affectedPlace
		err := tx.Raw(`SELECT ip.image_pk, f.id AS finding_id, ip.own, `+q.opened()+` AS opened_at, `+ended+` AS ended,
				CASE WHEN EXISTS (SELECT 1 FROM image_uses s WHERE s.image_pk = ip.image_pk`+runs+`) THEN 1 ELSE 0 END AS running,
				(SELECT MIN(p.since) `+exposed+") AS since, (SELECT MAX(p.until_time) "+exposed+`) AS until_time
			FROM (`+placesOf(d, len(part))+`) o JOIN findings f ON f.id = o.finding_id JOIN vulnerabilities v ON v.id = f.vulnerability_pk
			LEFT JOIN generations e ON e.number <= ? AND e.number = (SELECT MAX(n.until_gen) `+others+` AND n.opened_gen = f.opened_gen)
			JOIN image_packages ip ON ip.image_pk = o.image_pk AND ip.package_pk = f.package_pk`+limited, append(values, q.current, q.current)...).Scan(&rows).Error
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			places[[2]int64{row.ImagePk, row.FindingID}] = row
		}
	}
	return places, nil
}

// running is what runs an image: the first by name, and how many there are.
type running struct {
	first []store.Workload
	count int
}

func (q *affectedQuery) workloads(tx *gorm.DB, images []int64) (map[int64]running, error) {
	return firstWorkloads(tx, q.runners(tx), images)
}

// firstWorkloads reads which workloads of uses u run images.
func firstWorkloads(tx, used *gorm.DB, images []int64) (map[int64]running, error) {
	var rows []struct {
		ImagePk  int64
		Workload store.Workload `gorm:"embedded"`
		Total    int
	}
	distinct := used.Where("u.image_pk IN ?", images).Distinct("u.image_pk, u.namespace, u.kind, u.name")
	numbered := tx.Table("(?) AS d", distinct).Select("d.*, COUNT(*) OVER (PARTITION BY d.image_pk) AS total, " +
		"ROW_NUMBER() OVER (PARTITION BY d.image_pk ORDER BY d.namespace, d.kind, d.name) AS place")
	err := tx.Table("(?) AS r", numbered).Select("r.image_pk, r.namespace, r.kind, r.name, r.total").
		Where("r.place <= ?", store.MaxReach).Order("r.image_pk, r.place").Scan(&rows).Error
	workloads := make(map[int64]running, len(images))
	for _, row := range rows {
		workloads[row.ImagePk] = running{append(workloads[row.ImagePk].first, row.Workload), row.Total}
	}
	return workloads, err
}

// affected joins what was read.
func (r *affectedEntry) affected(detail affectedDetail, place affectedPlace) (store.Affected, error) {
	key, err := keyOf(r.ImageID, r.Platform)
	if err != nil {
		return store.Affected{}, err
	}
	detail.Package.Own = place.Own
	held, err := detail.Package.held()
	if err != nil {
		return store.Affected{}, err
	}
	one := store.Affected{
		Image: key, Package: held.Package, VulnerabilityID: r.VulnerabilityID, Namespace: r.Namespace,
		Severity: model.Severity(detail.Severity), //nolint:gosec // It was stored from one.
		Fix:      model.Fix{State: model.FixState(detail.FixState)}, FirstSeen: fromMicros(r.FirstSeen), FixedAt: fromEnd(place.Ended),
		Running: place.Running != 0,
	}
	if err := fromJSON(detail.FixVersions, &one.Fix.Versions); err != nil {
		return store.Affected{}, fmt.Errorf("fix of %s in the database: %w", r.VulnerabilityID, err)
	}
	if place.Since != nil && place.UntilTime != nil {
		one.ExposedSince = fromMicros(max(*place.Since, place.OpenedAt))
		one.ExposedUntil = fromEnd(min(*place.UntilTime, place.Ended))
	}
	return one, nil
}

// fromEnd is the time of an end, zero of what has not ended.
func fromEnd(us int64) time.Time {
	if us == stillOpen {
		return time.Time{}
	}
	return fromMicros(us)
}
