package sqlstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// changeOrder is that of the index finding_changes_worst.
var changeOrder = []sqldb.SortKey{
	{Column: "c.generation", Number: true, Descending: true}, {Column: "c.severity", Number: true, Descending: true},
	{Column: "c.kev", Number: true, Descending: true}, {Column: "c.kind", Number: true}, {Column: "c.id", Number: true},
}

// visibleChangeOrder is the order for some namespaces: the IDs follow from when packages were known first, wherever that was.
var visibleChangeOrder = append(slices.Clone(changeOrder[:indexedOrder]), sqldb.SortKey{Column: "c.vulnerability_id"}, sqldb.SortKey{Column: "c.namespace"},
	sqldb.SortKey{Column: "p.fingerprint"}, sqldb.SortKey{Column: variantOf})

// changeToken is what a page token of changes belongs to.
type changeToken struct {
	List        string
	Build       string
	ResultSet   int64
	Kinds       []store.ChangeKind
	MinSeverity model.Severity
	KEV         bool
	ImageID     string
	Scope       string
	Text        string
}

// changeRow is a change with its package and result set.
type changeRow struct {
	ID, PackagePk              int64
	ResultSet                  int64 `gorm:"column:generation"`
	VulnerabilityID, Namespace string
	Severity, Kev              int64
	Kind                       int
	Reasons                    string
	BeforeSide, AfterSide      string
	BuildID, PreviousBuild     string
	CurrentSince               int64
	Variant                    string
	Package                    packageRow `gorm:"embedded"`
}

// variantOf tells changes of the same vulnerability of a package apart, by what they are.
const variantOf = "COALESCE((SELECT cv.variant FROM change_variants cv WHERE cv.change_id = c.id), '')"

const changeColumns = `c.id, c.generation, c.package_pk, c.vulnerability_id, c.namespace, c.severity, c.kev, c.kind, c.reasons,
	c.before_side, c.after_side, g.build_id, g.previous_build, g.current_since, ` + variantOf + ` AS variant, ` + distinctColumns

// Changes implements store.Reader.
func (s *Store) Changes(ctx context.Context, in store.Namespaces, query store.ChangeQuery) (store.ChangePage, error) {
	const what = "list changes between vulnerability databases"
	for _, kind := range query.Kinds {
		if !slices.Contains(changeKinds, kind) {
			return store.ChangePage{}, fmt.Errorf("%s: unknown kind %q", what, kind)
		}
	}
	token := changeToken{
		"changes", query.Build, query.ResultSet, query.Kinds, query.MinSeverity, query.KEV, query.ImageID, query.Scope, query.Text,
	}
	var page store.ChangePage
	err := s.read(ctx, what, func(tx *gorm.DB) error {
		page = store.ChangePage{Changes: []store.Change{}}
		const withPackages = "JOIN packages p ON p.id = c.package_pk"
		const withResultSets = "JOIN generations g ON g.number = c.generation"
		single := query.ResultSet != 0
		order, changes := changeOrder, tx.Table("finding_changes AS c")
		view, err := s.changesIn(tx, in)
		if err != nil {
			return err
		}
		if !in.All() {
			order, changes = visibleChangeOrder, view.keep(changes)
		}
		filtered, err := s.aboutChosen(tx, in, filterChanges(changes, s.db.Dialect(), query), query)
		if err != nil {
			return err
		}
		if query.Build != "" {
			var numbers []int64
			if err := tx.Raw("SELECT g.number FROM generations g WHERE g.build_id = ?", query.Build).Scan(&numbers).Error; err != nil {
				return err
			}
			if single = single || len(numbers) == 1; len(numbers) == 1 { // An index has most of the order then.
				filtered = filtered.Where("c.generation = ?", numbers[0])
			} else {
				filtered = filtered.Where("c.generation IN (?)", numberList(numbers))
			}
		}
		filtered = filtered.Session(&gorm.Session{})
		counted := filtered
		if query.Text != "" {
			counted = filtered.Joins(withPackages)
		}
		var total int64
		if err := counted.Count(&total).Error; err != nil {
			return err
		}
		page.Total = int(total)
		behind, err := fromToken(filtered, query.Token, token, order)
		if err != nil {
			return err
		}
		behind = behind.Joins(withPackages).Session(&gorm.Session{})
		var rows []changeRow
		if in.All() { // An index has the order.
			err = behind.Joins(withResultSets).Select(changeColumns).Order(sqldb.OrderBy(order)).Limit(query.Limit() + 1).Scan(&rows).Error
		} else {
			rows, err = sortedChanges(behind, tx.Table("finding_changes AS c").Joins(withResultSets).Joins(withPackages), single, query.Limit()+1)
		}
		if err != nil {
			return err
		}
		if rows, page.NextToken, err = cutPage(rows, query.Limit(), token, order, (*changeRow).value); err != nil {
			return err
		}
		page.Changes, err = changesWithReach(tx, view, rows)
		return err
	})
	if err != nil {
		return store.ChangePage{}, err
	}
	return page, nil
}

// indexedOrder are the columns of visibleChangeOrder that an index has in order.
const indexedOrder = 4

// sortedChanges reads the first changes of a query in the visibleChangeOrder. An index finds the last row that they can have, only rows up to it are sorted, and
// columns that they are not sorted by are read of the first alone. single says that they are of one result set.
func sortedChanges(found, changes *gorm.DB, single bool, limit int) ([]changeRow, error) {
	indexed := visibleChangeOrder[:indexedOrder]
	var last []changeRow
	err := found.Select("c.generation, c.severity, c.kev, c.kind").Order(sqldb.OrderBy(indexed)).Offset(limit - 1).Limit(1).Scan(&last).Error
	if err != nil {
		return nil, err
	}
	if len(last) > 0 {
		values := make([]string, indexedOrder)
		for i, key := range indexed {
			values[i] = last[0].value(key.Column)
		}
		behind, arguments, err := sqldb.After(indexed, values)
		if err != nil {
			return nil, err
		}
		found = found.Where("NOT ("+behind+")", arguments...)
		if single { // A part of the index is enough.
			found = found.Where("c.severity >= ?", last[0].Severity)
		}
	}
	var ids []int64
	if err := found.Select("c.id").Order(sqldb.OrderBy(visibleChangeOrder)).Limit(limit).Scan(&ids).Error; err != nil {
		return nil, err
	}
	return inOrderOf(ids, func(part []int64) (rows []changeRow, err error) {
		err = changes.Session(&gorm.Session{}).Select(changeColumns).Where("c.id IN ?", part).Scan(&rows).Error
		return rows, err
	}, func(r *changeRow) int64 { return r.ID })
}

func filterChanges(tx *gorm.DB, d sqldb.Dialect, query store.ChangeQuery) *gorm.DB {
	tx = contains(tx, d, query.Text, "c.vulnerability_id", "p.name")
	if query.ResultSet != 0 {
		tx = tx.Where("c.generation = ?", query.ResultSet)
	}
	if len(query.Kinds) > 0 {
		kinds := make([]int, len(query.Kinds))
		for i, kind := range query.Kinds {
			kinds[i] = slices.Index(changeKinds, kind)
		}
		tx = tx.Where("c.kind IN ?", kinds)
	}
	if query.MinSeverity > model.SeverityUnknown {
		tx = tx.Where("c.severity >= ?", int64(query.MinSeverity))
	}
	if query.KEV {
		tx = tx.Where("c.kev = 1")
	}
	return tx
}

// aboutChosen keeps changes c that are about the image and the scope of a query. Only visible images count: nobody learns what others hold.
func (s *Store) aboutChosen(tx *gorm.DB, in store.Namespaces, changes *gorm.DB, query store.ChangeQuery) (*gorm.DB, error) {
	for _, one := range []struct {
		chosen string
		images *gorm.DB
	}{
		{query.ImageID, visibleOnly(tx, tx.Table("images AS i").Select("i.id").Where("i.image_id = ?", query.ImageID), "i.id", in)},
		{query.Scope, within(tx.Table("image_uses AS u").Distinct("u.image_pk").Where("u.scope = ?", query.Scope), "u.namespace", in)},
	} {
		if one.chosen == "" {
			continue
		}
		var err error
		if changes, err = s.aboutSome(tx, changes, one.images); err != nil {
			return nil, err
		}
	}
	return changes, nil
}

// aboutSome keeps changes c that are about one of some images. Such a change is in a package that one of these images holds. If there are changes that are about only some of the images
// that hold their package, or if there are more than keptNumbers packages, the database checks each change.
func (s *Store) aboutSome(tx, changes, images *gorm.DB) (*gorm.DB, error) {
	var ids []int64
	if err := images.Session(&gorm.Session{}).Scan(&ids).Error; err != nil {
		return nil, err
	}
	var packages numberSet
	err := eachPackageList(tx, s.db.Dialect(), ids, func(_ int64, list []int64) { packages.addIncluded(list) })
	if err != nil {
		return nil, err
	}
	variants, err := anyVariants(tx)
	if err != nil {
		return nil, err
	}
	few := packages.number <= s.keptNumbers
	switch ids := packages.sorted(nil); {
	case len(ids) <= allUses && s.db.Dialect().Type() != sqldb.TypeSQLite: // The others find them faster in a list. The sum keeps them from looking up each package from an index.
		changes = changes.Where("c.package_pk + 0 IN (?)", numberList(ids))
	case few:
		changes = changes.Where("?", s.db.Dialect().Among("c.package_pk", ids))
	}
	if few && !variants {
		return changes, nil
	}
	return changes.Where("EXISTS (SELECT 1 FROM image_packages ip WHERE ip.package_pk = c.package_pk AND ip.excluded = 0 AND ip.image_pk IN (?) AND "+aboutImage+")", images), nil
}

func (r *changeRow) value(column string) string {
	switch column {
	case "c.generation":
		return strconv.FormatInt(r.ResultSet, 10)
	case "c.severity":
		return strconv.FormatInt(r.Severity, 10)
	case "c.kev":
		return strconv.FormatInt(r.Kev, 10)
	case "c.kind":
		return strconv.Itoa(r.Kind)
	case "c.vulnerability_id":
		return r.VulnerabilityID
	case "c.namespace":
		return r.Namespace
	case "p.fingerprint":
		return r.Package.Fingerprint
	case variantOf:
		return r.Variant
	default:
		return strconv.FormatInt(r.ID, 10)
	}
}

func (r *changeRow) change() (store.Change, error) {
	held, err := r.Package.held()
	if err != nil {
		return store.Change{}, err
	}
	c := store.Change{
		ID: r.ID, ResultSet: r.ResultSet, Build: r.BuildID, PreviousBuild: r.PreviousBuild, At: fromMicros(r.CurrentSince),
		Kind: changeKinds[min(max(r.Kind, 0), len(changeKinds)-1)], Package: held.Package,
		VulnerabilityID: r.VulnerabilityID, Namespace: r.Namespace,
	}
	if r.Reasons != "" {
		for reason := range strings.SplitSeq(r.Reasons, ",") {
			c.Reasons = append(c.Reasons, store.ChangeReason(reason))
		}
	}
	for content, side := range map[*string]**store.ChangeSide{&r.BeforeSide: &c.Before, &r.AfterSide: &c.After} {
		if *content == "" {
			continue
		}
		if err := json.Unmarshal([]byte(*content), side); err != nil {
			return store.Change{}, fmt.Errorf("change %d in the database: %w", r.ID, err)
		}
	}
	return c, nil
}

// foundBefore is the condition that image i was visible, by row m of image_namespaces, and matched before result set g.
const foundBefore = "m.since < g.current_since AND i.matched_at > 0 AND i.matched_at < g.current_since"

// ofVisible is the condition, behind others, that a column is an image that is visible in some namespaces.
func ofVisible(column string, in store.Namespaces) string {
	if in.All() {
		return ""
	}
	return " AND " + column + " IN (SELECT m.image_pk FROM image_namespaces m WHERE " + isWithin("m.namespace", in) + ")"
}

// packageReach is which images hold a package and what runs them.
type packageReach struct {
	images    int
	imageIDs  []string
	workloads []store.Workload
}

func changesWithReach(tx *gorm.DB, view *changeView, rows []changeRow) ([]store.Change, error) {
	reached, err := reachOf(tx, view, rows)
	if err != nil {
		return nil, err
	}
	changes := make([]store.Change, len(rows))
	for i := range rows {
		if changes[i], err = rows[i].change(); err != nil {
			return nil, err
		}
		if reach := reached[rows[i].ID]; reach != nil {
			changes[i].Images, changes[i].ImageIDs, changes[i].Workloads = reach.images, slices.Clone(reach.imageIDs), slices.Clone(reach.workloads)
		}
	}
	var workloads []*store.Workload
	for i := range changes {
		workloads = append(workloads, pointersTo(changes[i].Workloads)...)
	}
	return changes, setOwners(tx, workloads)
}

// aboutOf returns the images that changes are about, by change, and all images that hold their packages. To who sees some namespaces, packages are what the first of
// these says of them.
func aboutOf(tx *gorm.DB, view *changeView, rows []changeRow) (about map[int64][]int64, all []int64, err error) {
	ids := make([]int64, len(rows))
	for i := range rows {
		ids[i] = rows[i].PackagePk
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	holding, err := view.holding(tx, ids)
	for _, images := range holding {
		all = append(all, images...)
	}
	if err == nil && !view.in.All() {
		var known visibleOrder
		if known, err = reachedImages(tx, view.in, slices.Clone(all)); err == nil {
			for _, images := range holding {
				known.sort(images)
			}
			err = describeChanges(tx, rows, holding)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	about, err = imagesOfChanges(tx, rows, holding)
	return about, all, err
}

// describeChanges replaces what images say differently of packages by what the first that holds each of them says.
func describeChanges(tx *gorm.DB, rows []changeRow, holding map[int64][]int64) error {
	first := make([]heldPackage, 0, len(holding))
	for id, images := range holding {
		first = append(first, heldPackage{id, images[0]})
	}
	own := make(map[int64]string, len(first))
	err := eachOwn(tx, first, func(id int64, said string) error {
		own[id] = said
		return nil
	})
	for i := range rows {
		rows[i].Package.Own = own[rows[i].PackagePk]
	}
	return err
}

// reachOf returns what the packages of changes reach, by change, in a number of statements that does not follow from how many images hold them.
func reachOf(tx *gorm.DB, view *changeView, rows []changeRow) (map[int64]*packageReach, error) {
	about, all, err := aboutOf(tx, view, rows)
	if err != nil {
		return nil, err
	}
	var first []int64
	for _, images := range about {
		first = append(first, images[:min(len(images), store.MaxReach)]...)
	}
	names, err := namesOfImages(tx, first)
	if err != nil {
		return nil, err
	}
	running := map[int64][]store.Workload{}
	err = eachUse(within(tx.Table("image_uses AS u"), "u.namespace", view.in), all, func(image int64, w store.Workload) { running[image] = append(running[image], w) })
	if err != nil {
		return nil, err
	}
	reached := make(map[int64]*packageReach, len(about))
	for id, images := range about {
		reach := &packageReach{images: len(images)}
		for _, image := range images[:min(len(images), store.MaxReach)] {
			reach.imageIDs = append(reach.imageIDs, names[image])
		}
		slices.Sort(reach.imageIDs)
		reach.imageIDs = slices.Compact(reach.imageIDs) // One image ID may stand for several platforms.
		for _, image := range images {
			reach.workloads = append(reach.workloads, running[image]...)
		}
		slices.SortFunc(reach.workloads, func(a, b store.Workload) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
		})
		reach.workloads = slices.Compact(reach.workloads)
		reach.workloads = reach.workloads[:min(len(reach.workloads), store.MaxReach)]
		reached[id] = reach
	}
	return reached, nil
}

// namesOfImages reads image IDs.
func namesOfImages(tx *gorm.DB, ids []int64) (map[int64]string, error) {
	slices.Sort(ids)
	names := map[int64]string{}
	err := inParts(slices.Compact(ids), func(part []int64) error {
		var rows []imageRow
		err := tx.Raw("SELECT id, image_id FROM images WHERE id IN ?", part).Scan(&rows).Error
		for i := range rows {
			names[rows[i].ID] = rows[i].ImageID
		}
		return err
	})
	return names, err
}
