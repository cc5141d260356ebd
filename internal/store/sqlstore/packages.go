package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// maxNamed bounds the packages of one name that are looked at for their versions.
const maxNamed = 10 * store.MaxVersions

var packageSorts = map[store.PackageSort][]sqldb.SortKey{
	store.SortPackageName:     {{Column: "p.name"}, {Column: "p.version"}, {Column: "p.type"}, {Column: "p.fingerprint"}},
	store.SortPackageSeverity: append(slices.Clone(worstFirst), sqldb.SortKey{Column: "l.fingerprint"}),
}

// worstHeld is the order of the index held_packages_worst.
var worstHeld = []sqldb.SortKey{
	{Column: "h.critical", Number: true, Descending: true}, {Column: "h.high", Number: true, Descending: true},
	{Column: "h.medium", Number: true, Descending: true}, {Column: "h.low", Number: true, Descending: true}, {Column: "h.fingerprint"},
}

// packageToken is what a page token of packages belongs to.
type packageToken struct {
	List        string
	Where       store.Where
	Name, Text  string
	AnyCase     bool
	Type        string
	VersionText string
	ImageID     string
	MinSeverity model.Severity
	Vulnerable  bool
	Overdue     bool
	DueBefore   int64
	Sort        store.PackageSort
}

// packageEntry is a package with all that it is sorted by.
type packageEntry struct {
	ID                               int64
	Name, Version, Type, Fingerprint string
	Counts                           countsRow `gorm:"embedded"`
}

func (r *packageEntry) value(column string) string {
	if value, found := r.Counts.value(column); found {
		return value
	}
	switch column {
	case "p.name":
		return r.Name
	case "p.version":
		return r.Version
	case "p.type":
		return r.Type
	default:
		return r.Fingerprint
	}
}

// packageSearch is a store.PackageQuery in the words of the database.
type packageSearch struct {
	store.PackageQuery
	chosen  place
	dialect sqldb.Dialect
	// ids are the packages with a version that is asked for, as a list in a statement; "" when all are.
	ids string
	s   *Store
	// divided are the reaches that suppress findings in some of the chosen images. current is the current result set.
	divided dividing
	current int64
	view    seen
	// sets has what the chosen images hold; nil if all are chosen, if packages are chosen by name, or if the images are too many.
	sets *heldSets
	// manyHeld are the packages of sets, if they are so many that all packages are compared with them; with fewer, and without sets, statements ask what images hold.
	manyHeld []int64
	// due selects the packages with a finding that is due as asked for; nil when all are.
	due *gorm.DB
}

// ListPackages implements store.Reader.
func (s *Store) ListPackages(ctx context.Context, in store.Namespaces, query store.PackageQuery) (store.PackagePage, error) {
	const what = "list packages"
	if query.Sort == "" {
		query.Sort = store.SortPackageName
	}
	keys, known := packageSorts[query.Sort]
	if !known {
		return store.PackagePage{}, fmt.Errorf("%s: unknown sort order %q", what, query.Sort)
	}
	if query.Version != nil && query.Name == "" {
		return store.PackagePage{}, fmt.Errorf("%s: a version can be requested only together with a package name", what)
	}
	token := packageToken{
		"packages", query.Where, query.Name, query.Text, query.AnyCase, query.Type, query.VersionText, query.ImageID, query.MinSeverity, query.Vulnerable,
		query.Overdue, micros(query.DueBefore), query.Sort,
	}
	var page store.PackagePage
	err := s.read(ctx, what, func(tx *gorm.DB) error {
		page = store.PackagePage{}
		search := packageSearch{PackageQuery: query, chosen: place{query.Where, in}, dialect: s.db.Dialect(), s: s}
		if err := search.chooseVersions(tx); err != nil {
			return err
		}
		known, err := search.readSets(tx)
		if err != nil {
			return err
		}
		var places map[int64]int
		if query.ImageID == "" {
			places = known.places(search.chosen)
		}
		if search.view, err = seenOf(tx, in, "", places); err != nil {
			return err
		}
		if search.divided, err = search.view.dividing(tx, search.chosen, known.all()); err != nil {
			return err
		}
		if search.current, err = currentNumber(tx); err != nil {
			return err
		}
		if !search.unfiltered() {
			if err := search.divided.hide(tx, search.dialect, search.sets, search.counting(tx), !in.All(), search.current); err != nil {
				return err
			}
		}
		if err := search.chooseDue(tx, s.now()); err != nil {
			return err
		}
		var rows []packageEntry
		done := false
		if !search.unfiltered() {
			if rows, page.NextToken, page.Total, done, err = search.ofImages(tx, token); err != nil {
				return err
			}
		}
		switch {
		case done:
		case query.Sort == store.SortPackageName:
			rows, page.NextToken, page.Total, err = search.inOrder(tx, keys, token)
		case search.unfiltered():
			rows, page.NextToken, page.Total, err = search.inOrder(tx, worstHeld, token)
		default:
			rows, page.NextToken, page.Total, err = readEntries(tx, search.entries(search.filter(tx)), keys, query.Page, token, (*packageEntry).value)
		}
		if err != nil {
			return err
		}
		page.Packages, err = search.read(tx, rows)
		return err
	})
	if err != nil {
		return store.PackagePage{}, err
	}
	return page, nil
}

// named keeps packages p of the name that is asked for.
func (q *packageSearch) named(packages *gorm.DB) *gorm.DB {
	if !q.AnyCase {
		return equals(packages, "p.name", q.Name)
	}
	return equals(packages, q.dialect.Lower("p.name"), sqldb.ASCIILower(q.Name))
}

// chooseVersions asks about the versions of the package and notes the packages that have one that is asked for.
func (q *packageSearch) chooseVersions(tx *gorm.DB) error {
	if q.Version == nil {
		return nil
	}
	named := equals(q.named(tx.Table("packages AS p")), "p.type", q.Type)
	if !q.chosen.in.All() {
		held := tx.Table("image_packages AS ip").Select("ip.package_pk").Where("ip.image_pk IN (?)", visibleImages(tx, q.chosen.in))
		named = named.Where("p.id IN (?)", held)
	}
	rows, err := named.Select("p.id, p.type, p.version").Order("p.version, p.type").Limit(maxNamed + 1).Rows()
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // Err tells whether all rows were read.
	var ids []byte
	var last struct{ version, packageType string }
	versions, packages, matching, accepted := 0, 0, 0, false
	for rows.Next() {
		var id int64
		var version, packageType string
		if err := rows.Scan(&id, &packageType, &version); err != nil {
			return err
		}
		if packages++; packages == 1 || last.version != version || last.packageType != packageType {
			versions++
			last.version, last.packageType = version, packageType
			if versions > store.MaxVersions || packages > maxNamed {
				break
			}
			accepted = q.Version(packageType, version)
		}
		if accepted {
			if matching++; matching > store.MaxVersioned {
				return &store.LimitError{Detail: fmt.Sprintf("more than %d packages named %q have such a version: ask for fewer versions, or for one type",
					store.MaxVersioned, q.Name)}
			}
			ids = strconv.AppendInt(append(ids, ','), id, 10)
		}
	}
	if versions > store.MaxVersions || packages > maxNamed {
		return &store.LimitError{Detail: fmt.Sprintf("there are more than %d versions or %d packages named %q: ask for one type, or without a version",
			store.MaxVersions, maxNamed, q.Name)}
	}
	if q.ids = "0"; len(ids) > 0 {
		q.ids = string(ids[1:])
	}
	return rows.Err()
}

// chooseDue notes the packages with a finding that is due as asked for.
func (q *packageSearch) chooseDue(tx *gorm.DB, now int64) error {
	until, filters := dueFilter{q.Overdue, q.DueBefore}.until(now)
	if !filters {
		return nil
	}
	due, err := dueFindings(tx, q.holders(tx), q.chosen, q.current, until)
	if err == nil {
		// Each package is in the list once: a test on MariaDB got one twice when the server was busy, as from a join in place of IN.
		q.due = tx.Table("(?) AS due", due.Distinct("f.package_pk")).Select("due.package_pk")
	}
	return err
}

// inOrder reads a page in the order of an index.
func (q *packageSearch) inOrder(tx *gorm.DB, keys []sqldb.SortKey, token packageToken) (rows []packageEntry, next string, total int, err error) {
	filtered := q.filter(tx).Session(&gorm.Session{})
	if err := filtered.Select("COUNT(*)").Scan(&total).Error; err != nil {
		return nil, "", 0, err
	}
	behind, err := fromToken(filtered, q.Token, token, keys)
	if err != nil {
		return nil, "", 0, err
	}
	err = q.entries(behind).Order(sqldb.OrderBy(keys)).Limit(q.Limit() + 1).Scan(&rows).Error
	if err != nil {
		return nil, "", 0, err
	}
	rows, next, err = cutPage(rows, q.Limit(), token, keys, (*packageEntry).value)
	return rows, next, total, err
}

// read reads all about the packages of a page.
func (q *packageSearch) read(tx *gorm.DB, entries []packageEntry) ([]store.PackageSummary, error) {
	summaries := make([]store.PackageSummary, len(entries))
	byID := make(map[int64]*store.PackageSummary, len(entries))
	ids := make([]int64, len(entries))
	for i := range entries {
		ids[i], byID[entries[i].ID] = entries[i].ID, &summaries[i]
		summaries[i].Counts = entries[i].Counts.counts()
	}
	err := inParts(ids, func(part []int64) error {
		for _, read := range []func(*gorm.DB, []int64, map[int64]*store.PackageSummary) error{readPackages, q.readHolders} {
			if err := read(tx, part, byID); err != nil {
				return err
			}
		}
		return nil
	})
	return summaries, err
}

func readPackages(tx *gorm.DB, ids []int64, byID map[int64]*store.PackageSummary) error {
	var rows []struct {
		ID      int64
		Package packageRow `gorm:"embedded"`
	}
	if err := tx.Raw("SELECT p.id, "+distinctColumns+" FROM packages p WHERE p.id IN ?", ids).Scan(&rows).Error; err != nil {
		return err
	}
	for i := range rows {
		held, err := rows[i].Package.held()
		if err != nil {
			return err
		}
		byID[rows[i].ID].Package = held.Package
	}
	return nil
}

// readHolders reads how many images hold each package and how many workloads run these, and the images that are known longest.
func (q *packageSearch) readHolders(tx *gorm.DB, ids []int64, byID map[int64]*store.PackageSummary) error {
	members := make(map[int64][]*groupMember, len(ids))
	for i, id := range ids {
		members[id] = []*groupMember{{group: i}}
	}
	holders := &holdersOf{rows: q.holders(tx), excluded: true}
	if q.sets != nil {
		holders.lists = q.sets.lists
	}
	if holders.lists == nil && q.ImageID == "" && !q.chosen.everywhere() {
		holders.rows = tx.Table("image_packages AS ip")
		if err := holders.limit(tx, q.chosen.images(tx), q.s.fewChosen); err != nil {
			return err
		}
	}
	reached, err := reachOfGroups(tx, q.dialect, len(ids), members, holders, q.chosen, q.view)
	if err != nil {
		return err
	}
	if err := q.describe(tx, ids, reached, byID); err != nil {
		return err
	}
	if q.Owners {
		owners, err := reached.owners(tx, q.chosen)
		if err != nil {
			return err
		}
		for i, id := range ids {
			byID[id].Owners = owners[i]
		}
	}
	var first []int64
	for _, images := range reached.images {
		first = append(first, images[:min(len(images), store.MaxReach)]...)
	}
	names, err := namesOfImages(tx, first)
	if err != nil {
		return err
	}
	for i, id := range ids {
		summary, images := byID[id], reached.images[i]
		summary.Images, summary.Workloads = len(images), reached.workloads[i]
		for _, image := range images[:min(len(images), store.MaxReach)] {
			summary.ImageIDs = append(summary.ImageIDs, names[image])
		}
		slices.Sort(summary.ImageIDs)
		summary.ImageIDs = slices.Compact(summary.ImageIDs) // One image ID may stand for several platforms.
	}
	return nil
}

// describe replaces what images say differently of packages by what the first visible one says: what is stored with a package comes from the image that
// was known first, wherever that is.
func (q *packageSearch) describe(tx *gorm.DB, ids []int64, reached *groupReach, byID map[int64]*store.PackageSummary) error {
	if q.chosen.in.All() {
		return nil
	}
	var first []heldPackage
	for i, id := range ids {
		if images := reached.images[i]; len(images) > 0 {
			first = append(first, heldPackage{id, images[0]})
		}
	}
	return eachOwn(tx, first, func(id int64, own string) error { return applyOverrides(own, &byID[id].Package) })
}

// maxPairs bounds the packages of one statement that ownOf makes.
const maxPairs = 100

// heldPackage is a package in an image.
type heldPackage struct{ packagePk, imagePk int64 }

// eachOwn calls visit with what images say differently of packages.
func eachOwn(tx *gorm.DB, held []heldPackage, visit func(id int64, own string) error) error {
	for part := range slices.Chunk(held, maxPairs) {
		var rows []struct {
			PackagePk int64
			Own       string
		}
		if err := ownOf(tx, part).Scan(&rows).Error; err != nil {
			return err
		}
		for _, row := range rows {
			if err := visit(row.PackagePk, row.Own); err != nil {
				return fmt.Errorf("package %d in the database: %w", row.PackagePk, err)
			}
		}
	}
	return nil
}

// ownOf selects what images say differently of packages, at least one. Each is looked up by the primary key.
func ownOf(tx *gorm.DB, held []heldPackage) *gorm.DB {
	pairs := make([]string, len(held))
	for i, one := range held {
		pairs[i] = fmt.Sprintf("ip.image_pk = %d AND ip.package_pk = %d", one.imagePk, one.packagePk)
	}
	return tx.Table("image_packages AS ip").Select("ip.package_pk, ip.own").Where(strings.Join(pairs, " OR "))
}
