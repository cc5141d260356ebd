package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// affectedOrder is by image, package and version; the rest makes it a total order.
var affectedOrder = []sqldb.SortKey{
	{Column: "l.image_id"}, {Column: "l.platform"}, {Column: "l.name"}, {Column: "l.version"},
	{Column: "l.fingerprint"}, {Column: "l.vulnerability_id"}, {Column: "l.namespace"}, {Column: "l.finding_id", Number: true},
}

// affectedToken is what a page token of affected packages belongs to.
type affectedToken struct {
	List, ID string
	Where    store.Where
	// Day is the end of the day that is asked for, 0 for none.
	Day                int64
	Closed, Suppressed bool
}

// affectedQuery is a store.AffectedQuery in the words of the database.
type affectedQuery struct {
	store.AffectedQuery
	chosen  place
	names   []string
	current int64
	// The day that is asked for, from and to in microseconds; both are 0 when none is.
	from, to int64
	view     seen
}

// affectedEntry is a finding in a package of an image, with all that it is sorted by.
type affectedEntry struct {
	ImagePk, FindingID                                                        int64
	ImageID, Platform, Name, Version, Fingerprint, VulnerabilityID, Namespace string
	FirstSeen                                                                 int64
}

func (r *affectedEntry) value(column string) string {
	switch column {
	case "l.image_id":
		return r.ImageID
	case "l.platform":
		return r.Platform
	case "l.name":
		return r.Name
	case "l.version":
		return r.Version
	case "l.fingerprint":
		return r.Fingerprint
	case "l.vulnerability_id":
		return r.VulnerabilityID
	case "l.namespace":
		return r.Namespace
	default:
		return strconv.FormatInt(r.FindingID, 10)
	}
}

// Affected implements store.Search.
func (s *Store) Affected(ctx context.Context, in store.Namespaces, query store.AffectedQuery) (store.AffectedPage, error) {
	const what = "list packages affected by a vulnerability"
	q := affectedQuery{AffectedQuery: query, chosen: place{query.Where, in}, names: spellings(query.ID)}
	if query.ID == "" {
		return store.AffectedPage{}, fmt.Errorf("%s: the ID of the vulnerability is missing", what)
	}
	if !query.On.IsZero() {
		if query.Closed {
			return store.AffectedPage{}, fmt.Errorf("%s: a day and closed findings cannot be requested together", what)
		}
		day := query.On.UTC().Truncate(24 * time.Hour)
		q.from, q.to = day.UnixMicro(), day.Add(24*time.Hour).UnixMicro()
	}
	token := affectedToken{"affected", query.ID, query.Where, q.to, query.Closed, query.Suppressed}
	var page store.AffectedPage
	err := s.read(ctx, what, func(tx *gorm.DB) error {
		page = store.AffectedPage{}
		var err error
		if q.current, err = currentNumber(tx); err != nil {
			return err
		}
		if q.view, err = seenIn(tx, in); err != nil {
			return err
		}
		images, err := q.count(tx, s.db.Dialect(), &page)
		if err != nil {
			return err
		}
		var rows []affectedEntry
		if rows, page.NextToken, err = q.page(tx, token, images); err != nil {
			return err
		}
		page.Affected, err = q.read(tx, s, rows)
		return err
	})
	if err != nil {
		return store.AffectedPage{}, err
	}
	return page, nil
}

// findings begins a statement about the findings f in images i that the query matches.
func (q *affectedQuery) findings(tx *gorm.DB) *gorm.DB {
	found := tx.Table("(?) AS named", tx.Table("vulnerability_names AS n").Distinct("n.vulnerability_pk").Where("n.name IN ?", q.names)).
		Joins("CROSS JOIN vulnerabilities v").
		Joins("CROSS JOIN findings f").
		Joins("LEFT JOIN generations e ON e.number = f.until_gen AND e.number <= ?", q.current).
		Joins("CROSS JOIN image_packages ip").
		Joins("CROSS JOIN images i").
		Where("v.id = named.vulnerability_pk AND f.vulnerability_pk = v.id AND ip.package_pk = f.package_pk AND ip.excluded = 0 AND i.id = ip.image_pk")
	if !q.chosen.in.All() {
		found = found.Joins("JOIN (?) n ON n.image_pk = ip.image_pk", visibleSince(tx, q.chosen.in))
	}
	if q.to != 0 {
		return q.onDay(tx, found)
	}
	if q.Closed {
		found = found.Where(closed, q.current, q.current).Where("e.current_since > " + q.findingsSince())
	} else {
		found = found.Where(q.condition(), q.current, q.current)
	}
	if q.Where != (store.Where{}) {
		found = found.Where("ip.image_pk IN (?)", q.chosen.images(tx))
	}
	return found.Where("i.matched_at > 0")
}

// condition is that of findings which have the vulnerability now; the values are those of shown.
func (q *affectedQuery) condition() string {
	if q.Suppressed {
		return shown
	}
	return q.view.open()
}

// entries selects an affectedEntry for each of them.
func (q *affectedQuery) entries(tx *gorm.DB) *gorm.DB {
	return q.findings(tx).Joins("CROSS JOIN packages p").Where("p.id = f.package_pk").
		Select("ip.image_pk, f.id AS finding_id, i.image_id, i.platform, p.name, p.version, p.fingerprint, v.vulnerability_id, v.namespace, " +
			laterOf("f.opened_at", q.findingsSince()) + " AS first_seen")
}

// findingsSince is from when on image i has findings: of some namespaces, since it was visible there and matched.
func (q *affectedQuery) findingsSince() string {
	if q.chosen.in.All() {
		return "i.first_seen"
	}
	return laterOf("n.since", "i.matched_at")
}

// opened is since when image i of some namespaces has finding f, or since when the package has it.
func (q *affectedQuery) opened() string {
	if q.chosen.in.All() {
		return "f.opened_at"
	}
	return laterOf("f.opened_at", "("+q.findingsSince()+")")
}

// onDay keeps what ran on the day while it had the vulnerability. Of the rows that followed each other without a break, it is the
// last one that began before the day was over.
func (q *affectedQuery) onDay(tx, found *gorm.DB) *gorm.DB {
	const begins = "CASE WHEN f.from_gen = f.opened_gen THEN f.opened_at ELSE COALESCE(b.current_since, f.opened_at) END"
	const followed = "EXISTS (SELECT 1 " + others + " AND n.until_gen > f.until_gen AND n.opened_gen = f.opened_gen)"
	opened := "(" + q.opened() + ")"
	ran := q.presences(tx).Select("1").Where("u.image_pk = ip.image_pk AND u.since < " + ended + " AND u.until_time > " + opened)
	if !q.chosen.in.All() {
		found = found.Where("i.matched_at > 0 AND " + opened + " < " + ended)
	}
	return found.Joins("LEFT JOIN generations b ON b.number = f.from_gen").
		Where("f.from_gen <= ? AND "+opened+" < ? AND "+ended+" > ?", q.current, q.to, q.from).
		Where(begins+" < ?", q.to).
		Where("NOT ("+ended+" < ? AND "+followed+")", q.to, q.current).
		Where("EXISTS (?)", ran)
}

// presences selects what ran on the day, as u.
func (q *affectedQuery) presences(tx *gorm.DB) *gorm.DB {
	ran := visiblePresences(uses(tx.Table("image_presences AS u"), q.chosen), "u", q.chosen.in)
	return ran.Where(presenceSince("u", q.chosen.in)+" < ? AND u.until_time > ?", q.to, q.from)
}

// runners selects the workloads u that run images now, or that ran them on the day.
func (q *affectedQuery) runners(tx *gorm.DB) *gorm.DB {
	if q.to != 0 {
		return q.presences(tx)
	}
	return uses(tx.Table("image_uses AS u"), q.chosen)
}

// count counts entries, images and workloads over all pages, and returns the images in the order of their IDs.
func (q *affectedQuery) count(tx *gorm.DB, d sqldb.Dialect, page *store.AffectedPage) ([]int64, error) {
	var images []int64
	err := eachList(q.findings(tx), d, "f.id", "ip.image_pk", func(_ int64, list []int64) { images = append(images, list...) })
	if err != nil {
		return nil, err
	}
	page.Total = len(images)
	slices.Sort(images)
	images = slices.Compact(images)
	page.Images = len(images)
	workloads, err := countWorkloads(q.runners(tx), [][]int64{images})
	if err != nil {
		return nil, err
	}
	page.Workloads = workloads[0]
	return images, nil
}

// page reads a page of entries. Each image has one at least, so that a page is among those of as many images: the first ones, or the first ones behind
// the token.
func (q *affectedQuery) page(tx *gorm.DB, token affectedToken, images []int64) (rows []affectedEntry, next string, err error) {
	limit := q.Limit()
	behind := tx.Table("images AS i")
	if q.Token != "" {
		if _, err := fromToken(tx, q.Token, token, affectedOrder); err != nil {
			return nil, "", err
		}
		values, err := store.DecodeToken(q.Token, token, len(affectedOrder))
		if err != nil {
			return nil, "", err
		}
		behind = behind.Where("i.image_id >= ? AND (i.image_id > ? OR i.image_id = ? AND i.platform >= ?)", values[0], values[0], values[0], values[1])
	}
	first, err := firstImages(behind, images, limit+2)
	if err != nil {
		return nil, "", err
	}
	err = inParts(first, func(part []int64) error {
		behind, err := fromToken(tx.Table("(?) AS l", q.entries(tx).Where("ip.image_pk IN ?", part)), q.Token, token, affectedOrder)
		if err != nil || len(rows) > limit {
			return err
		}
		var found []affectedEntry
		err = behind.Select("l.*").Order(sqldb.OrderBy(affectedOrder)).Limit(limit + 1 - len(rows)).Scan(&found).Error
		rows = append(rows, found...)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	return cutPage(rows, limit, token, affectedOrder, (*affectedEntry).value)
}

// fewOrdered is how many times as many images as are wanted firstImages reads in their order first.
const fewOrdered = 16

// firstImages returns the first images of a query, by image ID and platform, that are among those of a list.
func firstImages(tx *gorm.DB, list []int64, limit int) ([]int64, error) {
	type image struct {
		ID                int64
		ImageID, Platform string
	}
	var first []image
	tx = tx.Session(&gorm.Session{})
	var err error
	// If many of the images are in the list, few are read before there are enough. PostgreSQL sorts all images unless it is told how few.
	for _, most := range []int{fewOrdered * limit, len(list) * limit} {
		if len(list) <= allUses || err != nil || len(first) == limit {
			break
		}
		read := 0
		first = nil
		err = eachRow(tx.Select("i.id").Order("i.image_id, i.platform").Limit(most), func(scan func(...any) error) error {
			read++
			var one image
			if err := scan(&one.ID); err != nil {
				return err
			}
			if _, found := slices.BinarySearch(list, one.ID); found {
				first = append(first, one)
			}
			if len(first) == limit {
				return errEnough
			}
			return nil
		})
		if read < most {
			break // There are no more.
		}
	}
	if err == nil && len(first) < limit {
		first = nil
		err = inParts(list, func(part []int64) error {
			var some []image
			err := tx.Select("i.id, i.image_id, i.platform").Where("i.id IN ?", part).Scan(&some).Error
			first = append(first, some...)
			return err
		})
		slices.SortFunc(first, func(a, b image) int {
			return cmp.Or(cmp.Compare(a.ImageID, b.ImageID), cmp.Compare(a.Platform, b.Platform))
		})
	}
	ids := make([]int64, min(len(first), limit))
	for i := range ids {
		ids[i] = first[i].ID
	}
	return ids, err
}

// read reads all about the entries of a page.
func (q *affectedQuery) read(tx *gorm.DB, s *Store, entries []affectedEntry) ([]store.Affected, error) {
	all := make([]store.Affected, 0, len(entries))
	for part := range slices.Chunk(entries, sqldb.MaxIn) {
		images, findings := make([]int64, len(part)), make([]int64, len(part))
		for i := range part {
			images[i], findings[i] = part[i].ImagePk, part[i].FindingID
		}
		slices.Sort(images)
		slices.Sort(findings)
		images, findings = slices.Compact(images), slices.Compact(findings)
		details, err := affectedDetails(tx, findings)
		if err != nil {
			return nil, err
		}
		places, err := q.places(tx, s.db.Dialect(), part)
		if err != nil {
			return nil, err
		}
		workloads, err := q.workloads(tx, images)
		if err != nil {
			return nil, err
		}
		owners, err := ownersOfImages(tx, q.runners(tx), images)
		if err != nil {
			return nil, err
		}
		var says *saidOf
		var dates *affectedDates
		if q.to == 0 && !q.Closed {
			if says, err = decidedOf(tx, q.view, findings, images, q.Suppressed); err != nil {
				return nil, err
			}
			if dates, err = s.affectedDates(tx, q.chosen.in, findings, images); err != nil {
				return nil, err
			}
		}
		for i := range part {
			entry := &part[i]
			place := places[[2]int64{entry.ImagePk, entry.FindingID}]
			one, err := entry.affected(details[entry.FindingID], place)
			if err != nil {
				return nil, err
			}
			running := workloads[entry.ImagePk]
			one.Workloads, one.WorkloadCount, one.Owners = slices.Clone(running.first), running.count, owners[entry.ImagePk]
			if one.Suppressed, one.Decisions = says.in(entry.ImagePk, entry.FindingID); !one.Suppressed {
				one.Deadline = dates.of(entry.ImagePk, entry.FindingID)
			}
			all = append(all, one)
		}
	}
	var workloads []*store.Workload
	for i := range all {
		workloads = append(workloads, pointersTo(all[i].Workloads)...)
	}
	return all, setOwners(tx, workloads)
}

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
