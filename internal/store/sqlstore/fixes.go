package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// fewImages is up to how many images all that they hold is read at once; of more, what holds some packages is looked up.
const fewImages = 500

// fewUpdates is up to how many images the updates of a list are read image by image; those of more are read package by package.
const fewUpdates = 50

// fixOrder has the fixes that remove the most risk first, and those of store.FixWait last. Fixes of an image as a whole have no fingerprint,
// and that of a newer tag, of the image or of its base, is its lookup.
var fixOrder = []sqldb.SortKey{
	{Column: "l.waits", Number: true}, {Column: "l.risk_micros", Number: true, Descending: true}, {Column: "l.fingerprint"}, {Column: "l.image_id"}, {Column: "l.platform"},
}

// fixActions are the actions of kinds.
var fixActions = map[store.FixKind]int64{store.FixUpdate: fixUpdate, store.FixRebuild: fixRebuild, store.FixWait: fixWait, store.FixNewerTag: fixTag, store.FixNewerBase: fixBase}

// fixToken is what a page token of fixes belongs to.
type fixToken struct {
	List, ImageID string
	Where         store.Where
	Kind          store.FixKind
	KEV, Overdue  bool
}

// fixEntry is a fix with all that it is sorted by.
type fixEntry struct {
	Fix               imageFix `gorm:"embedded"`
	ImageID, Platform string
	// Overdue counts the findings whose date has passed; it is known early only of lists by it.
	Overdue int `gorm:"-"`
}

func (r *fixEntry) value(column string) string {
	switch column {
	case "l.waits":
		return strconv.FormatInt(r.Fix.Waits, 10)
	case "l.risk_micros":
		return strconv.FormatInt(r.Fix.RiskMicros, 10)
	case "l.fingerprint":
		return r.Fix.Fingerprint
	case "l.image_id":
		return r.ImageID
	default:
		return r.Platform
	}
}

// compare orders as fixOrder does.
func (r *fixEntry) compare(o *fixEntry) int {
	return cmp.Or(cmp.Compare(r.Fix.Waits, o.Fix.Waits), cmp.Compare(o.Fix.RiskMicros, r.Fix.RiskMicros), cmp.Compare(r.Fix.Fingerprint, o.Fix.Fingerprint),
		cmp.Compare(r.ImageID, o.ImageID), cmp.Compare(r.Platform, o.Platform))
}

// fixReader reads a page of fixes.
type fixReader struct {
	s      *Store
	tx     *gorm.DB
	query  store.FixQuery
	chosen place
	view   seen
	// narrowed says that workloads are chosen, and that findings can count in others only. Then view has nothing to add about places.
	narrowed bool
	current  int64
	token    fixToken
	// after is the entry that the page follows, nil for the first page.
	after *fixEntry
	// live are images whose fixes are computed from their findings: for the caller, they can differ from those in the tables, or imageId asks for them.
	live []int64
	// lacked are the packages of its base that an image lacks, if the query is about overdue findings.
	lacked map[int64][]int64
	// among are the images that are listed, nil for all that run; only those that are not live are read from the tables.
	among map[int64]bool
	// targets are those of all images, nil if nobody has read them.
	targets map[int64][]*dueTarget
}

// ListFixes implements store.Reader.
func (s *Store) ListFixes(ctx context.Context, in store.Namespaces, query store.FixQuery) (store.FixPage, error) {
	const what = "list fixes"
	if query.Kind != "" && fixActions[query.Kind] == 0 {
		return store.FixPage{}, fmt.Errorf("%s: unknown kind %q", what, query.Kind)
	}
	var page store.FixPage
	err := s.read(ctx, what, func(tx *gorm.DB) error {
		page = store.FixPage{Fixes: []store.Fix{}}
		r := &fixReader{
			s: s, tx: tx, query: query, chosen: place{query.Where, in},
			token: fixToken{"fixes", query.ImageID, query.Where, query.Kind, query.KEV, query.Overdue},
		}
		err := r.begin()
		if err != nil {
			return err
		}
		var entries []fixEntry
		if entries, page.Total, err = r.entries(); err != nil {
			return err
		}
		if entries, page.NextToken, err = cutPage(entries, query.Limit(), r.token, fixOrder, (*fixEntry).value); err != nil || len(entries) == 0 {
			return err
		}
		page.Fixes, err = r.fixes(entries)
		return err
	})
	if err != nil {
		return store.FixPage{}, err
	}
	return page, nil
}

// begin reads what the query depends on, and decides how images are read.
func (r *fixReader) begin() (err error) {
	if r.current, err = currentNumber(r.tx); err != nil {
		return err
	}
	if r.chosen.Where != (store.Where{}) {
		r.view.in = r.chosen.in
		r.narrowed, err = somePlaced(r.tx)
	} else {
		r.view, err = seenIn(r.tx, r.chosen.in)
	}
	if err != nil {
		return err
	}
	if err := r.readToken(); err != nil {
		return err
	}
	images, err := r.images()
	if err != nil {
		return err
	}
	if r.query.ImageID != "" {
		r.live, r.among = images, map[int64]bool{}
		return nil
	}
	if images != nil {
		r.among = make(map[int64]bool, len(images))
		for _, id := range images {
			r.among[id] = true
		}
	}
	if !r.placed() {
		return nil
	}
	// Decisions with places close findings where the query chooses, and the tables have what counts for who sees all.
	err = r.tx.Table("(?) AS l", r.closed()).Distinct("l.image_pk").Order("l.image_pk").Scan(&r.live).Error
	r.live = slices.DeleteFunc(r.live, func(id int64) bool { return r.among != nil && !r.among[id] })
	for _, id := range r.live {
		delete(r.among, id)
	}
	return err
}

func (r *fixReader) readToken() error {
	if r.query.Token == "" {
		return nil
	}
	values, err := tokenValues(r.tx, r.query.Token, r.token, fixOrder)
	if err != nil {
		return err
	}
	r.after = &fixEntry{ImageID: values[3], Platform: values[4]}
	r.after.Fix.Fingerprint = values[2]
	if r.after.Fix.Waits, err = strconv.ParseInt(values[0], 10, 64); err != nil {
		return fmt.Errorf("%w: %w", store.ErrInvalidToken, err)
	}
	if r.after.Fix.RiskMicros, err = strconv.ParseInt(values[1], 10, 64); err != nil {
		return fmt.Errorf("%w: %w", store.ErrInvalidToken, err)
	}
	return nil
}

// images lists the matched images that the query chooses, nil for all that run.
func (r *fixReader) images() ([]int64, error) {
	if r.chosen.everywhere() && r.query.ImageID == "" {
		return nil, nil
	}
	images := r.tx.Table("images AS i").Where("i.matched_at > 0")
	switch {
	case r.query.ImageID == "":
		images = images.Where("i.id IN (?)", r.running())
	case !r.chosen.everywhere():
		images = images.Where("i.id IN (?)", r.chosen.images(r.tx))
	}
	if r.query.ImageID != "" {
		images = equals(images, "i.image_id", r.query.ImageID)
	}
	ids := []int64{}
	return ids, images.Select("i.id").Order("i.id").Scan(&ids).Error
}

// running selects the images that something runs which the query chooses.
func (r *fixReader) running() *gorm.DB {
	return r.uses().Select("u.image_pk")
}

// entries reads the entries of a page and the one after it, and counts those of all pages.
func (r *fixReader) entries() (entries []fixEntry, total int, err error) {
	if entries, total, err = r.liveEntries(); err != nil {
		return nil, 0, err
	}
	tags, err := r.tagEntries()
	if err != nil {
		return nil, 0, err
	}
	bases, number, err := r.baseEntries()
	if err != nil {
		return nil, 0, err
	}
	total += len(tags) + number
	entries = slices.Concat(entries, r.behind(tags), r.behind(bases))
	switch {
	case r.among != nil && len(r.among) == 0, r.query.Kind == store.FixNewerTag, r.query.Kind == store.FixNewerBase:
	case r.query.Overdue:
		overdue, more, err := r.overdueEntries()
		if err != nil {
			return nil, 0, err
		}
		entries, total = append(entries, overdue...), total+more
	default:
		stored, err := r.storedTotal()
		if err != nil {
			return nil, 0, err
		}
		total += stored
		rows, err := r.storedEntries()
		if err != nil {
			return nil, 0, err
		}
		updates, err := r.updateEntries()
		if err != nil {
			return nil, 0, err
		}
		entries = slices.Concat(entries, rows, updates)
	}
	return r.first(entries), total, nil
}

// first are the entries of a page and the one after it, of some in no order.
func (r *fixReader) first(entries []fixEntry) []fixEntry {
	slices.SortFunc(entries, func(a, b fixEntry) int { return a.compare(&b) })
	return entries[:min(len(entries), r.query.Limit()+1)]
}

// behind are the entries that the page follows, in no order.
func (r *fixReader) behind(entries []fixEntry) []fixEntry {
	if r.after == nil {
		return entries
	}
	return slices.DeleteFunc(entries, func(e fixEntry) bool { return e.compare(r.after) <= 0 })
}

// keeps reports whether the query keeps an action that closes so many findings in KEV.
func (r *fixReader) keeps(action, kev int64) bool {
	return (r.query.Kind == "" || fixActions[r.query.Kind] == action) && (!r.query.KEV || kev > 0)
}

// fixActionOf is the action that closes finding f in package p.
var fixActionOf = fmt.Sprintf("CASE WHEN f.fixable = 0 THEN %d WHEN %s = 1 THEN %d ELSE %d END", fixWait, fromDistribution, fixRebuild, fixUpdate)

// openFindings selects the findings f of packages p in images ip that are open for who asks.
func (r *fixReader) openFindings(images []int64) *gorm.DB {
	found := r.tx.Table("image_packages AS ip").Joins("CROSS JOIN packages p").Joins("CROSS JOIN findings f").Joins("CROSS JOIN vulnerabilities v").
		Where("ip.image_pk IN ? AND ip.excluded = 0 AND p.id = ip.package_pk AND f.package_pk = ip.package_pk AND v.id = f.vulnerability_pk", images).
		Where(r.view.open(), r.current, r.current)
	if r.narrowed {
		found = openAmong(found, r.uses(), "ip.image_pk")
	}
	return found
}

// Numbers of packages that updateEntries reads at a time: more and more, until there are enough images.
const (
	firstUpdates = 16
	mostUpdates  = sqldb.MaxIn
)

// noOwnFix is the condition that the update of package pf in an image that holds it (ip) has no row of its own in image_fixes.
var noOwnFix = fmt.Sprintf("(pf.divided = 0 OR NOT EXISTS (SELECT 1 FROM image_fixes x WHERE x.image_pk = ip.image_pk AND x.action = %d AND x.package_pk = ip.package_pk))", fixUpdate)

// updateEntries reads the entries of a page that are updates without rows of their own. They are the same in each image that holds a package,
// so the packages are read in the order of their risk, and the images that hold each.
func (r *fixReader) updateEntries() ([]fixEntry, error) {
	if r.query.Kind != "" && r.query.Kind != store.FixUpdate || r.after != nil && r.after.Fix.Waits != 0 {
		return nil, nil
	}
	if r.among != nil && len(r.among) <= r.s.fewUpdates {
		return r.updatesOf(slices.Sorted(maps.Keys(r.among)))
	}
	holders, err := r.updateHolders()
	if err != nil {
		return nil, err
	}
	limit := r.query.Limit() + 1
	var entries []fixEntry
	last := r.after
	for size := firstUpdates; len(entries) < limit; size = min(2*size, mostUpdates) {
		packages, err := r.nextUpdates(holders.among, last, size)
		if err != nil || len(packages) == 0 {
			return entries, err
		}
		holding, err := holders.of(packages)
		if err != nil {
			return nil, err
		}
		found, err := r.updatesIn(packages, holding, limit-len(entries))
		if err != nil {
			return nil, err
		}
		entries = append(entries, found...)
		end := &packages[len(packages)-1]
		last = &fixEntry{Fix: imageFix{RiskMicros: end.Sums.FixRisk, Fingerprint: end.Fingerprint}}
		if len(packages) < size {
			break
		}
	}
	return entries, nil
}

// updatesOf reads the entries of a page that are updates without rows of their own in a few images.
func (r *fixReader) updatesOf(images []int64) ([]fixEntry, error) {
	rows := r.tx.Table("image_packages AS ip").Joins("CROSS JOIN package_fixes pf").Joins("CROSS JOIN images i").
		Where("ip.image_pk IN ? AND ip.excluded = 0 AND pf.package_pk = ip.package_pk AND pf.distro = 0 AND pf.fix_findings > 0", images).
		Where("i.id = ip.image_pk AND " + noOwnFix).
		Select("ip.image_pk, pf.package_pk, pf.fingerprint, 0 AS waits, pf.fix_risk AS risk_micros, pf.fix_kev AS kev, pf.fix_findings AS findings, i.image_id, i.platform")
	if r.query.KEV {
		rows = rows.Where("pf.fix_kev > 0")
	}
	chosen, err := fromToken(r.tx.Table("(?) AS l", rows), r.query.Token, r.token, fixOrder)
	if err != nil {
		return nil, err
	}
	var entries []fixEntry
	err = chosen.Select("l.*").Order(sqldb.OrderBy(fixOrder)).Limit(r.query.Limit() + 1).Scan(&entries).Error
	for i := range entries {
		entries[i].Fix.Action = fixUpdate
	}
	return entries, err
}

// nextUpdates reads packages behind an entry, in the order of their risk: among some, or, if that is nil, of all. That of the entry is one of them if it may have
// images behind it.
func (r *fixReader) nextUpdates(among []int64, last *fixEntry, limit int) ([]packageFix, error) {
	query := r.tx.Table("package_fixes AS pf").Where("pf.distro = 0 AND pf.fix_findings > 0")
	if among != nil {
		query = query.Where("?", r.s.db.Dialect().Among("pf.package_pk", among))
	}
	if r.query.KEV {
		query = query.Where("pf.fix_kev > 0")
	}
	if last != nil {
		beyond := ">="
		if last != r.after {
			beyond = ">"
		}
		query = query.Where("pf.fix_risk <= ? AND (pf.fix_risk < ? OR pf.fingerprint "+beyond+" ?)", last.Fix.RiskMicros, last.Fix.RiskMicros, last.Fix.Fingerprint)
	}
	query = query.Select("pf.*").Order("pf.fix_risk DESC, pf.fingerprint").Limit(limit).Session(&gorm.Session{})
	var packages []packageFix
	for _, divided := range []int64{0, someDivide} { // Each is read in the order of an index.
		var some []packageFix
		if err := query.Where("pf.divided = ?", divided).Scan(&some).Error; err != nil {
			return nil, err
		}
		packages = append(packages, some...)
	}
	slices.SortFunc(packages, func(a, b packageFix) int {
		return cmp.Or(cmp.Compare(b.Sums.FixRisk, a.Sums.FixRisk), cmp.Compare(a.Fingerprint, b.Fingerprint))
	})
	return packages[:min(len(packages), limit)], nil
}

// updatesIn makes entries of packages in the images that hold them, behind the page's token: as many as there is room for at least, if there are.
func (r *fixReader) updatesIn(packages []packageFix, holders map[int64][]int64, room int) ([]fixEntry, error) {
	groups := make([]fixGroup, len(packages))
	for i := range packages {
		one := &packages[i]
		groups[i] = fixGroup{fix: one.update(), images: holders[one.PackagePk]}
	}
	return r.entriesOf(groups, room)
}
