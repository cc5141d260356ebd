package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// exposureOrder has the workload that was exposed first in front.
var exposureOrder = []sqldb.SortKey{{Column: "l.since", Number: true}, {Column: "l.namespace"}, {Column: "l.kind"}, {Column: "l.name"}}

// exposureToken is what a page token of exposed workloads belongs to.
type exposureToken struct {
	List, ID string
	Where    store.Where
}

// exposedWorkload is a workload with when it was exposed first.
type exposedWorkload struct {
	Namespace, Kind, Name string
	Since                 int64
}

// compare orders as exposureOrder does.
func (r *exposedWorkload) compare(o *exposedWorkload) int {
	return cmp.Or(cmp.Compare(r.Since, o.Since), cmp.Compare(r.Namespace, o.Namespace), cmp.Compare(r.Kind, o.Kind), cmp.Compare(r.Name, o.Name))
}

func (r *exposedWorkload) value(column string) string {
	switch column {
	case "l.namespace":
		return r.Namespace
	case "l.kind":
		return r.Kind
	case "l.name":
		return r.Name
	default:
		return strconv.FormatInt(r.Since, 10)
	}
}

func (r *exposedWorkload) workload() store.Workload {
	return store.Workload{Namespace: r.Namespace, Kind: r.Kind, Name: r.Name}
}

// suppressedInWorkload is the condition that decisions suppress finding f in the image of ip in the workload of u.
const suppressedInWorkload = `EXISTS (SELECT 1 FROM finding_suppressions fs WHERE fs.finding_id = f.id AND (fs.reach = 0
	OR EXISTS (SELECT 1 FROM reached x WHERE x.reach = fs.reach AND x.image_pk = ip.image_pk)
	OR EXISTS (SELECT 1 FROM reached_namespaces y WHERE y.reach = fs.reach AND y.image_pk = ip.image_pk AND y.namespace = u.namespace AND ` + hasWorkload + ")))"

// Exposures implements store.Reader.
func (s *Store) Exposures(ctx context.Context, in store.Namespaces, query store.ExposureQuery) (store.ExposurePage, error) {
	const what = "list when workloads had a vulnerability"
	if query.ID == "" {
		return store.ExposurePage{}, fmt.Errorf("%s: the ID of the vulnerability is missing", what)
	}
	var page store.ExposurePage
	err := s.read(ctx, what, func(tx *gorm.DB) error {
		page = store.ExposurePage{}
		current, err := currentNumber(tx)
		if err != nil {
			return err
		}
		q := exposureQuery{tx: tx, chosen: place{query.Where, in}, names: spellings(query.ID), current: current, mysql: s.db.Dialect().Type() == sqldb.TypeMySQL}
		if q.mysql {
			if q.visible, _, err = s.readVisible(tx, place{in: in}); err != nil {
				return err
			}
		}
		token := exposureToken{"exposures", query.ID, query.Where}
		rows, next, total, err := q.workloads(query.Page, token)
		if err != nil {
			return err
		}
		page.NextToken, page.Total, page.Workloads = next, total, make([]store.WorkloadExposures, len(rows))
		for from := 0; from < len(rows); from += maxWorkloads {
			to := min(len(rows), from+maxWorkloads)
			if err := q.read(rows[from:to], page.Workloads[from:to]); err != nil {
				return err
			}
		}
		return setOwners(tx, workloadsIn(page.Workloads, func(w *store.WorkloadExposures) *store.Workload { return &w.Workload }))
	})
	if err != nil {
		return store.ExposurePage{}, err
	}
	return page, nil
}

// exposureQuery is a store.ExposureQuery in the words of the database.
type exposureQuery struct {
	tx      *gorm.DB
	chosen  place
	names   []string
	current int64
	// visible are the images that are visible, nil if all are, if these are too many, or without mysql: the database is MariaDB or MySQL.
	visible visibleTimes
	mysql   bool
}

// workloads reads the workloads of a page, and counts those of all pages. With MariaDB they are grouped and sorted here, unless there are more than maxExposed: its temporary tables
// reserve the greatest length of each name, and are written to a disk when there are some thousand workloads.
func (q *exposureQuery) workloads(page store.Page, token exposureToken) (rows []exposedWorkload, next string, total int, err error) {
	if q.mysql {
		rows, total, err = q.firstWorkloads(page, token)
	}
	if !q.mysql || errors.Is(err, errManyExposed) {
		entries := q.rows().Select("u.namespace, u.kind, u.name, MIN(" + q.since(q.opened()) + ") AS since").Group("u.namespace, u.kind, u.name")
		return readEntries(q.tx, entries, exposureOrder, page, token, (*exposedWorkload).value)
	}
	if err != nil {
		return nil, "", 0, err
	}
	rows, next, err = cutPage(rows, page.Limit(), token, exposureOrder, (*exposedWorkload).value)
	return rows, next, total, err
}

// maxExposed is the maximum number of workloads that are grouped in memory, with some 200 bytes each.
var maxExposed = 50_000

var errManyExposed = errors.New("too many workloads to group them in memory")

// firstWorkloads reads the workloads of a page and the one after it, and counts those of all pages, or returns errManyExposed.
func (q *exposureQuery) firstWorkloads(page store.Page, token exposureToken) (rows []exposedWorkload, total int, err error) {
	after, err := q.after(page.Token, token)
	if err != nil {
		return nil, 0, err
	}
	first := map[store.Workload]int64{}
	err = eachRow(q.times(), func(scan func(...any) error) error {
		var w store.Workload
		var since int64
		if err := scan(&w.Namespace, &w.Kind, &w.Name, &since); err != nil {
			return err
		}
		if earlier, known := first[w]; !known || since < earlier {
			first[w] = since
		}
		if len(first) > maxExposed {
			return errManyExposed
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	for w, since := range first {
		row := exposedWorkload{Namespace: w.Namespace, Kind: w.Kind, Name: w.Name, Since: since}
		if after != nil && row.compare(after) <= 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(rows, &row, func(a exposedWorkload, b *exposedWorkload) int { return a.compare(b) })
		if at <= page.Limit() {
			rows = slices.Insert(rows[:min(len(rows), page.Limit())], at, row)
		}
	}
	return rows, len(first), nil
}

// after is what a page token follows, nil for the first page.
func (q *exposureQuery) after(text string, token exposureToken) (*exposedWorkload, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // There is nothing before the first page.
	}
	values, err := tokenValues(q.tx, text, token, exposureOrder)
	if err != nil {
		return nil, err
	}
	since, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrInvalidToken, err)
	}
	return &exposedWorkload{Namespace: values[1], Kind: values[2], Name: values[3], Since: since}, nil
}

// times selects the workloads that ran images with the vulnerability, and when each presence of an image with a finding began. An image of which several packages have the vulnerability
// since the same time is looked up once.
func (q *exposureQuery) times() *gorm.DB {
	found := q.found().Distinct("ip.image_pk, " + q.opened() + " AS opened, " + ended + " AS ended")
	if q.visible != nil {
		found = found.Where("ip.image_pk IN (?)", numberList(slices.Sorted(maps.Keys(q.visible))))
	}
	rows := q.tx.Table("(?) AS t", found).Joins("CROSS JOIN image_presences u").Where("u.image_pk = t.image_pk")
	since := q.since("t.opened")
	return visiblePresences(uses(rows, q.chosen), "u", q.chosen.in).Where(since + " < " + until("t.ended")).Select("u.namespace, u.kind, u.name, " + since)
}

// found begins a statement about each finding f of the vulnerability in each image i that has its package ip.
func (q *exposureQuery) found() *gorm.DB {
	return q.tx.Table("(?) AS named", q.tx.Table("vulnerability_names AS n").Distinct("n.vulnerability_pk").Where("n.name IN ?", q.names)).
		Joins("CROSS JOIN findings f").
		Joins("LEFT JOIN generations e ON e.number = f.until_gen AND e.number <= ?", q.current).
		Joins("CROSS JOIN image_packages ip").
		Joins("CROSS JOIN images i").
		Where("f.vulnerability_pk = named.vulnerability_pk AND f.from_gen <= ? AND ip.package_pk = f.package_pk AND ip.excluded = 0", q.current).
		Where("i.id = ip.image_pk AND i.matched_at > 0")
}

// rows begins a statement about each time in which a container of a workload, as presence u, ran image i while its package had finding f.
func (q *exposureQuery) rows() *gorm.DB {
	found := q.found().Joins("CROSS JOIN image_presences u").Where("u.image_pk = ip.image_pk")
	return visiblePresences(uses(found, q.chosen), "u", q.chosen.in).Where(q.since(q.opened()) + " < " + until(ended))
}

// opened is since when image i has finding f.
func (q *exposureQuery) opened() string {
	if q.chosen.in.All() {
		return "f.opened_at"
	}
	return "(" + laterOf("f.opened_at", "i.matched_at") + ")"
}

// since is when the time of a row begins whose finding was opened at a time.
func (q *exposureQuery) since(opened string) string {
	return "(" + laterOf("("+presenceSince("u", q.chosen.in)+")", opened) + ")"
}

// until is when the time of a row ends whose finding ended at a time.
func until(ended string) string {
	return "(CASE WHEN u.until_time < " + ended + " THEN u.until_time ELSE " + ended + " END)"
}

// of adds the condition that u is a presence of one of some workloads. It may keep others with the same names.
func (q *exposureQuery) of(rows *gorm.DB, workloads []exposedWorkload, namespace, name string) *gorm.DB {
	namespaces, names := make([]string, len(workloads)), make([]string, len(workloads))
	for i := range workloads {
		namespaces[i], names[i] = workloads[i].Namespace, workloads[i].Name
	}
	slices.Sort(namespaces)
	slices.Sort(names)
	return rows.Where(namespace+" IN ? AND "+name+" IN ?", slices.Compact(namespaces), slices.Compact(names))
}

// presences selects the presences u of workloads, by their names.
func (q *exposureQuery) presences(workloads []exposedWorkload) *gorm.DB {
	return visiblePresences(q.of(q.tx.Table("image_presences AS u"), workloads, "u.namespace", "u.name"), "u", q.chosen.in)
}

// rowsOf are the rows of workloads. Only the images that these ran are read, if they are few. The names are compared as expressions, which no index has: SQLite would look up
// the names of all workloads for each image.
func (q *exposureQuery) rowsOf(workloads []exposedWorkload) (*gorm.DB, error) {
	var images []int64
	err := q.presences(workloads).Distinct("u.image_pk").Order("u.image_pk").Limit(allUses + 1).Scan(&images).Error
	rows := q.of(q.rows(), workloads, "COALESCE(u.namespace, '')", "COALESCE(u.name, '')")
	if len(images) <= allUses {
		rows = rows.Where("ip.image_pk IN (?)", numberList(images))
	}
	return rows, err
}

// read reads all about the workloads of a page.
func (q *exposureQuery) read(page []exposedWorkload, out []store.WorkloadExposures) error {
	all := make(map[store.Workload]*exposures, len(page))
	for i := range page {
		all[page[i].workload()] = &exposures{
			images: map[imageName]bool{}, packages: map[string]bool{}, suppressed: true, latest: map[string]int64{}, containers: map[string]bool{},
		}
	}
	found := "u.namespace, u.kind, u.name, u.container, 1 AS found, " + q.since(q.opened()) + " AS began, " + until(ended) + " AS went, " +
		"CASE WHEN " + ended + " <= u.until_time THEN 1 ELSE 0 END AS by_database, i.image_id, i.platform, p.name AS package, " +
		"CASE WHEN " + suppressedInWorkload + " THEN 1 ELSE 0 END AS suppressed"
	ran := "u.namespace, u.kind, u.name, u.container, 0 AS found, " + presenceSince("u", q.chosen.in) + " AS began, u.until_time AS went, " +
		"0 AS by_database, '' AS image_id, '' AS platform, '' AS package, 0 AS suppressed"
	rows, err := q.rowsOf(page)
	if err != nil {
		return err
	}
	rows = rows.Joins("CROSS JOIN packages p").Where("p.id = f.package_pk").Select(found)
	both := q.tx.Table("(? UNION ALL ?) AS t", rows, q.presences(page).Select(ran)).Select("t.*").Order("t.began, t.found DESC, t.went, t.by_database")
	err = eachRow(both, func(scan func(...any) error) error {
		var w store.Workload
		var isFound bool
		var row exposureRow
		if err := scan(&w.Namespace, &w.Kind, &w.Name, &row.container, &isFound, &row.since, &row.until, &row.byDatabase, &row.image.imageID, &row.image.platform, &row.pkg, &row.suppressed); err != nil {
			return err
		}
		switch e := all[w]; {
		case e == nil:
		case isFound:
			e.add(&row)
		default:
			e.ran(row.container, row.since, row.until)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range page {
		w := page[i].workload()
		one, imageErr := all[w].of(w, page[i].Since)
		if imageErr != nil {
			return imageErr
		}
		out[i] = one
	}
	return nil
}

// exposureRow is a time in which a container ran an image with a finding.
type exposureRow struct {
	since, until int64
	// byDatabase says that it ended with the finding.
	byDatabase, suppressed bool
	container              string
	image                  imageName
	pkg                    string
}

// exposures is when a workload ran images with a vulnerability.
type exposures struct {
	// last are the last of them, count counts all.
	last       []exposureSpan
	count      int
	images     map[imageName]bool
	packages   map[string]bool
	suppressed bool
	// latest is until when each container ran so far, containers are those that ran images with the vulnerability.
	latest     map[string]int64
	containers map[string]bool
}

type exposureSpan struct {
	since, until int64
	// byDatabase and runs say that a finding was closed at the end, and that the workload ran on.
	byDatabase, runs bool
}

// add adds a row. They come in the order of time, each before the presences that begin at the same time.
func (e *exposures) add(row *exposureRow) {
	e.images[row.image], e.packages[row.pkg], e.containers[row.container] = true, true, true
	if row.until == stillOpen {
		e.suppressed = e.suppressed && row.suppressed
	}
	if n := len(e.last); n > 0 && e.continues(&e.last[n-1], row.since) {
		switch last := &e.last[n-1]; {
		case row.until > last.until:
			last.until, last.byDatabase, last.runs = row.until, row.byDatabase, e.runsAfter(row.until)
		case row.until == last.until:
			last.byDatabase = last.byDatabase || row.byDatabase
		}
		return
	}
	if e.count++; len(e.last) == store.MaxExposures {
		e.last = slices.Delete(e.last, 0, 1)
	}
	e.last = append(e.last, exposureSpan{since: row.since, until: row.until, byDatabase: row.byDatabase, runs: e.runsAfter(row.until)})
}

// continues reports whether a row that begins at a time belongs to an exposure before it. When a workload replaces a pod, the old one may be gone before the new
// one has an image. A container that ran another image meanwhile ends the exposure; one that never had the vulnerability, such as a proxy, does not.
func (e *exposures) continues(last *exposureSpan, since int64) bool {
	if since <= last.until {
		return true
	}
	if last.byDatabase || since-last.until > store.PresenceGap.Microseconds() {
		return false
	}
	for container := range e.containers {
		if e.latest[container] > last.until {
			return false
		}
	}
	return true
}

// runsAfter reports whether a presence until now ends after a time.
func (e *exposures) runsAfter(until int64) bool {
	for _, latest := range e.latest {
		if latest > until {
			return true
		}
	}
	return false
}

// ran adds a presence, and notes which exposures ended while the workload ran on, maybe after a gap as between two presences.
func (e *exposures) ran(container string, since, until int64) {
	e.latest[container] = max(e.latest[container], until)
	for i := range e.last {
		span := &e.last[i]
		span.runs = span.runs || span.until < until && since <= span.until+store.PresenceGap.Microseconds()
	}
}

func (e *exposures) of(w store.Workload, since int64) (store.WorkloadExposures, error) {
	out := store.WorkloadExposures{Workload: w, Since: fromMicros(since), ExposureCount: e.count, ImageCount: len(e.images), PackageCount: len(e.packages)}
	for i := range e.last {
		span := &e.last[i]
		one := store.Exposure{Since: fromMicros(span.since), Until: fromEnd(span.until)}
		switch {
		case span.until == stillOpen:
		case span.byDatabase:
			one.End = store.ExposureEndDatabase
		case span.runs:
			one.End = store.ExposureEndImage
		default:
			one.End = store.ExposureEndWorkload
		}
		out.Exposures = append(out.Exposures, one)
	}
	if n := len(e.last); n > 0 {
		out.Suppressed = e.suppressed && e.last[n-1].until == stillOpen
	}
	images := slices.SortedFunc(maps.Keys(e.images), func(a, b imageName) int {
		return cmp.Or(cmp.Compare(a.imageID, b.imageID), cmp.Compare(a.platform, b.platform))
	})
	for _, image := range images[:min(len(images), store.MaxReach)] {
		key, err := keyOf(image.imageID, image.platform)
		if err != nil {
			return store.WorkloadExposures{}, err
		}
		out.Images = append(out.Images, key)
	}
	packages := slices.Sorted(maps.Keys(e.packages))
	out.Packages = packages[:min(len(packages), store.MaxReach)]
	return out, nil
}
