package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"gorm.io/gorm"

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
