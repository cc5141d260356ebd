package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

var imageSorts = map[store.ImageSort][]sqldb.SortKey{
	store.SortImageID: {{Column: "i.image_id"}, {Column: "i.platform"}},
	store.SortSeverity: {
		{Column: "i.critical", Number: true, Descending: true}, {Column: "i.high", Number: true, Descending: true},
		{Column: "i.medium", Number: true, Descending: true}, {Column: "i.low", Number: true, Descending: true},
		{Column: "i.image_id"}, {Column: "i.platform"},
	},
	store.SortCreated: {{Column: createdOrLast, Number: true}, {Column: "i.image_id"}, {Column: "i.platform"}},
}

// value is the sort value of a column.
func (r *imageRow) value(column string) string {
	if value, found := r.Counts.value(column); found {
		return value
	}
	switch column {
	case createdOrLast:
		return strconv.FormatInt(cmp.Or(r.CreatedAt, math.MaxInt64), 10)
	case "i.image_id":
		return r.ImageID
	}
	return r.Platform
}

// imageToken is what a page token of images belongs to.
type imageToken struct {
	List         string
	Text         string
	States       []store.State
	MinSeverity  model.Severity
	Fixable, KEV bool
	EpssMicros   int64
	Partial      bool
	Source       model.ImageSource
	EndWithin    *int
	OlderThan    int
	Overdue      bool
	Base         string
	BaseLayers   int
	Running      bool
	Platform     string
	Where        store.Where
	Sort         store.ImageSort
}

// Image implements store.Images.
func (s *Store) Image(ctx context.Context, in store.Namespaces, key model.ImageKey) (store.Image, error) {
	var image store.Image
	err := s.read(ctx, "read an image", func(tx *gorm.DB) error {
		row, err := findImage(tx, in, key)
		if err != nil {
			return err
		}
		if image, err = row.image(); err != nil {
			return err
		}
		images := []store.Image{image}
		err = errors.Join(s.addOverdue(tx, in, []imageRow{row}, images), addOwners(tx, in, []imageRow{row}, images), s.addBase(tx, in, row.ID, &images[0]))
		image = images[0]
		return err
	})
	return image, err
}

// ListImages implements store.Images.
func (s *Store) ListImages(ctx context.Context, in store.Namespaces, query store.ImageQuery) (store.ImagePage, error) {
	const what = "list images"
	if query.Sort == "" {
		query.Sort = store.SortImageID
	}
	keys, known := imageSorts[query.Sort]
	if !known {
		return store.ImagePage{}, fmt.Errorf("%s: unknown sort order %q", what, query.Sort)
	}
	token := imageToken{
		"images", query.Text, query.States, query.MinSeverity, query.Fixable, query.KEV, millionths(query.MinEPSS),
		query.Partial, query.Source, query.EndOfLifeWithin, query.OlderThan, query.Overdue, query.Base, query.BaseLayers, query.Running, query.Platform, query.Where, query.Sort,
	}
	chosen := place{query.Where, in}
	var page store.ImagePage
	err := s.read(ctx, what, func(tx *gorm.DB) error {
		page = store.ImagePage{}
		visible, places, err := s.readVisible(tx, chosen)
		if err != nil {
			return err
		}
		view, err := seenOf(tx, in, "", places)
		if err != nil {
			return err
		}
		filtered, counted, err := s.chosenImages(tx, view, chosen, visible, query)
		if err != nil {
			return err
		}
		if page.Total = len(visible); visible == nil || filters(query) {
			var total int64
			if err := counted.Count(&total).Error; err != nil {
				return err
			}
			page.Total = int(total)
		}
		if query.Sort == store.SortImageID {
			filtered = counted
		}
		behind, err := fromToken(filtered, query.Token, token, keys)
		if err != nil {
			return err
		}
		behind = behind.Order(sqldb.OrderBy(keys)).Limit(query.Limit() + 1)
		var rows []imageRow
		if chosen.everywhere() || query.Sort == store.SortCreated { // Of all images, an index has the order.
			err = behind.Joins(imageJoins).Select(imageColumns).Scan(&rows).Error
		} else {
			rows, err = sortedImages(tx, behind, view, query.Sort != store.SortImageID)
		}
		if err != nil {
			return err
		}
		if rows, page.NextToken, err = cutPage(rows, query.Limit(), token, keys, (*imageRow).value); err != nil {
			return err
		}
		if err := limitImages(tx, in, rows, visible); err != nil {
			return err
		}
		page.Images = make([]store.Image, len(rows))
		for i := range rows {
			if page.Images[i], err = rows[i].image(); err != nil {
				return err
			}
		}
		return errors.Join(s.addOverdue(tx, in, rows, page.Images), addOwners(tx, in, rows, page.Images))
	})
	if err != nil {
		return store.ImagePage{}, err
	}
	return page, nil
}

// chosenImages selects the images that the query matches, with the counts of who sees some namespaces, and the same images with the counts of all users, to be counted or sorted by other columns.
func (s *Store) chosenImages(tx *gorm.DB, view seen, chosen place, visible visibleTimes, query store.ImageQuery) (filtered, counted *gorm.DB, err error) {
	likely, err := s.exploitable(tx, view, chosen, millionths(query.MinEPSS))
	if err != nil {
		return nil, nil, err
	}
	if filtered, err = s.filterImages(tx, view.images(tx), likely, chosen, visible, query); err != nil {
		return nil, nil, err
	}
	if query.MinSeverity > model.SeverityUnknown || query.Fixable || query.KEV { // Then it depends on counts which images these are.
		return filtered, filtered, nil
	}
	counted, err = s.filterImages(tx, tx.Table("images AS i"), likely, chosen, visible, query)
	return filtered, counted, err
}

// sortedImages reads the first images of a query, sorted by their own columns. Other columns are read of these alone. ownCounts says that the query has the counts of who sees
// some namespaces.
func sortedImages(tx, filtered *gorm.DB, view seen, ownCounts bool) ([]imageRow, error) {
	counts := map[int64]countsRow{}
	var ids []int64
	if ownCounts = ownCounts && view.placed; ownCounts {
		var found []struct {
			ID     int64
			Counts countsRow `gorm:"embedded"`
		}
		if err := filtered.Select("i.id, " + perCount("i.%[1]s")).Scan(&found).Error; err != nil {
			return nil, err
		}
		for i := range found {
			ids = append(ids, found[i].ID)
			counts[found[i].ID] = found[i].Counts
		}
	} else if err := filtered.Select("i.id").Scan(&ids).Error; err != nil {
		return nil, err
	}
	rows, err := inOrderOf(ids, func(part []int64) (rows []imageRow, err error) {
		err = tx.Table("images AS i").Joins(imageJoins).Select(imageColumns).Where("i.id IN ?", part).Scan(&rows).Error
		return rows, err
	}, func(r *imageRow) int64 { return r.ID })
	switch {
	case err != nil:
		return nil, err
	case !ownCounts:
		return rows, view.limitCounts(tx, rows)
	}
	for i := range rows {
		rows[i].Counts = counts[rows[i].ID]
	}
	return rows, nil
}

// filters reports whether the query leaves out any of the chosen images.
func filters(query store.ImageQuery) bool {
	query.Where, query.Sort, query.Page = store.Where{}, "", store.Page{}
	return !reflect.ValueOf(query).IsZero()
}

// filterImages leaves the images that the query matches. likely is the condition of exploitable.
func (s *Store) filterImages(tx, images *gorm.DB, likely *clause.Expr, chosen place, visible visibleTimes, query store.ImageQuery) (*gorm.DB, error) {
	current, err := currentNumber(tx)
	if err != nil {
		return nil, err
	}
	images = contains(images, s.db.Dialect(), query.Text, "i.image_id")
	if len(query.States) > 0 {
		states := make([]string, len(query.States))
		for i, state := range query.States {
			states[i] = string(state)
		}
		images = images.Where("i.state IN ?", states)
	}
	if query.MinSeverity > model.SeverityUnknown {
		images = images.Where(orWorse("i.%[1]s", query.MinSeverity))
	}
	if query.Fixable {
		images = images.Where("i.fixable > 0")
	}
	if query.KEV {
		images = images.Where("i.kev > 0")
	}
	if query.Partial {
		images = images.Where("i.id IN (SELECT w.image_pk FROM sbom_sources w WHERE w.unreadable > 0)")
	}
	if query.Source != "" {
		images = images.Where("i.id IN (SELECT w.image_pk FROM sbom_sources w WHERE w.source = ?)", string(query.Source))
	}
	if query.Base != "" {
		images = images.Where("i.id IN (?)", onBase(tx.Table("image_layers AS b"), query.Base, query.BaseLayers).Select("b.image_pk"))
	}
	if query.Running {
		used := within(tx.Table("image_uses AS u").Select("1"), "u.namespace", chosen.in).Where("u.image_pk = i.id")
		images = images.Where("EXISTS (?)", used)
	}
	images = equals(images, "i.platform", query.Platform)
	images = s.filterAges(images, query)
	switch {
	case visible != nil:
		images = images.Where("i.id IN (?)", numberList(slices.Sorted(maps.Keys(visible))))
	case !chosen.everywhere():
		images = images.Where("i.id IN (?)", chosen.images(tx))
	}
	if likely != nil {
		images = images.Where("i.matched_at > 0 AND ?", *likely)
	}
	if query.Overdue {
		placed, err := somePlaced(tx)
		if err != nil {
			return nil, err
		}
		images = images.Where("i.id IN (?)", s.overduePlaces(tx, chosen.in, current, placed).Select("x.id"))
	}
	return images.Session(&gorm.Session{}), nil
}

// onBase keeps layers b with other layers on them that have a chain ID, and all of which below are so many; 0 stands for any number.
func onBase(layers *gorm.DB, chainID string, number int) *gorm.DB {
	layers = layers.Where("b.chain_id = ? AND b.is_top = 0", chainID)
	if number > 0 {
		layers = layers.Where("b.position = ?", number-1)
	}
	return layers
}

// exploitable is the condition that image i is one of the chosen images that hold a package with an open finding of at least this probability of exploitation. It names these images,
// because the list reads them several times. It is nil if no probability is asked for.
func (s *Store) exploitable(tx *gorm.DB, view seen, chosen place, leastMicros int64) (*clause.Expr, error) {
	if leastMicros <= 0 {
		return nil, nil //nolint:nilnil // There is nothing to filter then.
	}
	current, err := currentNumber(tx)
	if err != nil {
		return nil, err
	}
	images := func() *gorm.DB { return tx.Table("(?) AS c", chosen.images(tx)).Distinct("c.image_pk") }
	var few, known []int64
	if !chosen.everywhere() {
		if err := images().Limit(allUses + 1).Scan(&few).Error; err != nil {
			return nil, err
		}
		if len(few) <= allUses {
			known = few
		}
	}
	reaches, err := view.dividing(tx, chosen, known)
	if err != nil {
		return nil, err
	}
	if s.db.Dialect().Type() != sqldb.TypePostgres { // It expects too many packages then.
		if err := reaches.readFindings(tx); err != nil {
			return nil, err
		}
	}
	// Where a divided finding counts is asked of each image; of the others, each package is looked up once.
	packages := tx.Table("vulnerabilities AS v").Joins("CROSS JOIN findings f").
		Where("v.epss_micros >= ? AND f.vulnerability_pk = v.id AND "+shown+" AND "+unsuppressed, leastMicros, current, current).
		Distinct("f.package_pk, CASE WHEN " + reaches.divides() + " THEN f.id ELSE 0 END AS divided")
	held := tx.Table("(?) AS e", packages).Joins("CROSS JOIN image_packages ip")
	if !chosen.everywhere() {
		switch { // What they hold is less than what holds these packages.
		case len(few) > allUses:
		case s.db.Dialect().Type() == sqldb.TypePostgres: // If it does not know which images these are, it may read what all images hold.
			held = tx.Table("image_packages AS ip").Joins("CROSS JOIN (?) e", packages).Where("ip.image_pk IN (?)", numberList(few))
		default:
			held = tx.Table("(?) AS c", images()).Joins("CROSS JOIN image_packages ip").Joins("CROSS JOIN (?) e", packages).Where("ip.image_pk = c.image_pk")
		}
	}
	held = held.Where("ip.package_pk = e.package_pk AND ip.excluded = 0 AND (e.divided = 0 OR NOT " + view.suppressedIn("e.divided", reaches) + ")").
		Distinct("ip.image_pk") // Otherwise PostgreSQL can ask for each image again, which takes minutes.
	ids, err := allOf(tx.Table("(?) AS h", held), s.db.Dialect(), "h.image_pk")
	if err != nil {
		return nil, err
	}
	slices.Sort(ids)
	condition := s.db.Dialect().Among("i.id", ids)
	if len(ids) <= allUses { // They are looked up.
		condition = gorm.Expr("i.id IN (?)", numberList(ids))
	}
	return &condition, nil
}

// numberList is a list of numbers for the parentheses of IN.
func numberList(numbers []int64) clause.Expr {
	if len(numbers) == 0 {
		return gorm.Expr("NULL")
	}
	return gorm.Expr(sqldb.JoinNumbers(numbers))
}

// Overview implements store.Images.
func (s *Store) Overview(ctx context.Context, in store.Namespaces) (store.Overview, error) {
	overview := store.Overview{}
	err := s.read(ctx, "count images", func(tx *gorm.DB) error {
		overview = store.Overview{Images: map[store.State]int{}}
		var rows []struct {
			State  string
			Runs   bool
			Images int
			Counts countsRow `gorm:"embedded"`
		}
		sums := make([]string, len(countColumns))
		for i, column := range countColumns {
			sums[i] = "SUM(" + column + ") AS " + column
		}
		chosen := place{in: in}
		var known *someImages
		var err error
		if !chosen.everywhere() {
			if known, err = readImages(tx, tx.Table("(?) AS c", chosen.images(tx))); err != nil {
				return err
			}
		}
		view, err := seenOf(tx, in, "", known.places(chosen))
		if err != nil {
			return err
		}
		current, err := currentNumber(tx)
		if err != nil {
			return err
		}
		images, used := view.images(tx), within(tx.Table("image_uses AS u"), "u.namespace", in)
		switch {
		case known != nil:
			images = images.Where("i.id IN (?)", numberList(known.ids))
		case !chosen.everywhere():
			images = images.Where("i.id IN (?)", chosen.images(tx))
		}
		runs := within(tx.Table("image_uses AS u"), "u.namespace", in).Distinct("u.image_pk")
		err = images.Joins("LEFT JOIN (?) r ON r.image_pk = i.id", runs).
			Select("i.state, r.image_pk IS NOT NULL AS runs, COUNT(*) AS images, " + strings.Join(sums, ", ")).Group("i.state, r.image_pk IS NOT NULL").Scan(&rows).Error
		if err != nil {
			return err
		}
		for _, row := range rows {
			counts := row.Counts.counts()
			overview.Images[store.State(row.State)] += row.Images
			addCounts(&overview.Counts, counts)
			if row.Runs {
				addCounts(&overview.RunningCounts, counts)
			}
		}
		if err := used.Select("COUNT(DISTINCT u.image_pk)").Scan(&overview.Running).Error; err != nil {
			return err
		}
		if overview.Suppressed, err = s.suppressedIn(tx, view, known, current); err != nil {
			return err
		}
		overview.Packages, err = s.countPackages(tx, chosen, known)
		return err
	})
	return overview, err
}

// countPackages counts the packages that the chosen images hold. images are these, nil if they are all or too many.
func (s *Store) countPackages(tx *gorm.DB, chosen place, images *someImages) (int, error) {
	var number int
	if chosen.everywhere() {
		err := tx.Table("held_packages AS h").Select("COUNT(*)").Scan(&number).Error
		return number, err
	}
	if images == nil {
		held := tx.Table("image_packages AS ip").Where("ip.image_pk IN (?)", chosen.images(tx))
		err := held.Select("COUNT(DISTINCT ip.package_pk)").Scan(&number).Error
		return number, err
	}
	sets, err := s.readHeld(tx, images.ids, images.isMatched)
	if err != nil {
		return 0, err
	}
	return sets.held.number, nil
}

func addCounts(sum *store.Counts, counts store.Counts) {
	sum.SeverityCounts = sum.Plus(counts.SeverityCounts)
	sum.KEV += counts.KEV
	sum.Fixable += counts.Fixable
}
