package sqlstore

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// Who sees some namespaces sees the changes of a result set in packages of images that were visible and matched when it became current. Databases ask that of each
// change, and may look at all images that hold its package. It is known from what the visible images hold.

// changeView is which changes are visible in some namespaces.
type changeView struct {
	in      store.Namespaces
	dialect sqldb.Dialect
	// found is since when the visible images have findings, nil if they are too many: then statements ask. lists has what all visible images hold, as eachPackageList
	// has it, nil if that is too much.
	found map[int64]int64
	lists map[int64][]int64
	// first is since when the packages in these images have findings there.
	first map[int64]int64
	// since is when result sets became current, by their number, 0 of those that did not.
	since map[int64]int64
	// number is how many changes they have.
	number map[int64]int
	// steps are the packages whose changes are visible from a time on. variants says that there are changes that are about some of the images that hold a package.
	steps    []changeStep
	variants bool
	// maxSteps is that of the store.
	maxSteps int
}

// changeStep has the packages of which changes are visible in result sets that became current at a time or later, in order.
type changeStep struct {
	from     int64
	packages []int64
}

// maxSteps is how many of them a statement has. Of the packages of all others, it asks whether a change is visible.
const maxSteps = 8

// changesIn reads which changes are visible in some namespaces.
func (s *Store) changesIn(tx *gorm.DB, in store.Namespaces) (*changeView, error) {
	v := &changeView{in: in, dialect: s.db.Dialect(), maxSteps: s.maxSteps}
	if in.All() {
		return v, nil
	}
	var err error
	if v.since, v.number, err = readResultSets(tx); err != nil {
		return v, err
	}
	images, err := readImages(tx, tx.Table("(?) AS c", visibleImages(tx, in)))
	if err != nil || images == nil {
		return v, err
	}
	found := make(map[int64]int64, len(images.ids))
	err = eachSince(tx, in, images.ids, func(image, since int64) {
		if at := images.matchedAt[image]; at > 0 {
			found[image] = max(since, at)
		}
	})
	if err != nil {
		return v, err
	}
	lists, number := map[int64][]int64{}, 0
	v.first = map[int64]int64{}
	err = eachPackageList(tx, v.dialect, images.ids, func(image int64, list []int64) {
		if from := found[image]; from > 0 {
			for _, one := range list {
				if known, found := v.first[one/2]; one%2 == 0 && (!found || from < known) {
					v.first[one/2] = from
				}
			}
		}
		if number += len(list); number <= s.keptNumbers {
			lists[image] = slices.Clone(list)
		}
	})
	if err != nil {
		return v, err
	}
	if number > s.keptNumbers {
		lists = nil
	}
	if v.variants, err = anyVariants(tx); err != nil {
		return v, err
	}
	v.found, v.lists = found, lists
	v.step()
	return v, nil
}

// anyVariants reports whether there are changes that are about some of the images that hold a package.
func anyVariants(tx *gorm.DB) (bool, error) {
	var some []int64
	err := tx.Raw("SELECT cv.change_id FROM change_variants cv LIMIT 1").Scan(&some).Error
	return len(some) > 0, err
}

// readResultSets reads when result sets became current, by their number, 0 of those that did not, and how many changes they have.
func readResultSets(tx *gorm.DB) (since map[int64]int64, number map[int64]int, err error) {
	since, number = map[int64]int64{}, map[int64]int{}
	rows := tx.Table("generations AS g").Select("g.number, g.current_since, g.opened + g.closed + g.changed")
	err = eachRow(rows, func(scan func(...any) error) error {
		var resultSet, at int64
		var changes int
		err := scan(&resultSet, &at, &changes)
		since[resultSet], number[resultSet] = at, changes
		return err
	})
	return since, number, err
}

// step makes the steps.
func (v *changeView) step() {
	became := slices.Compact(slices.Sorted(maps.Values(v.since)))
	packages := map[int64][]int64{}
	for id, from := range v.first {
		if at, _ := slices.BinarySearch(became, from+1); at < len(became) {
			packages[became[at]] = append(packages[became[at]], id)
		}
	}
	for _, from := range slices.Sorted(maps.Keys(packages)) {
		slices.Sort(packages[from])
		v.steps = append(v.steps, changeStep{from, packages[from]})
	}
}

// keep keeps changes c that are visible.
func (v *changeView) keep(changes *gorm.DB) *gorm.DB {
	if v.in.All() {
		return changes
	}
	// An image is visible by a row m of image_namespaces.
	asked := `EXISTS (SELECT 1 FROM image_packages ip JOIN images i ON i.id = ip.image_pk JOIN image_namespaces m ON m.image_pk = i.id
		JOIN generations g ON g.number = c.generation WHERE ip.package_pk = c.package_pk AND ip.excluded = 0 AND ` + isWithin("m.namespace", v.in) + " AND " + foundBefore + " AND " + aboutImage + ")"
	if v.found == nil {
		return changes.Where(asked)
	}
	largest := slices.SortedFunc(slices.Values(v.steps), func(a, b changeStep) int {
		return cmp.Or(cmp.Compare(len(b.packages), len(a.packages)), cmp.Compare(a.from, b.from))
	})
	conditions, values := []string{"1 = 0"}, []any{}
	for _, step := range largest[:min(len(largest), v.maxSteps)] {
		conditions = append(conditions, "? AND ?")
		values = append(values, v.inResultSets("c.generation", step), v.dialect.Among("c.package_pk", step.packages))
	}
	if len(largest) > v.maxSteps {
		var rest []int64
		for _, step := range largest[v.maxSteps:] {
			rest = append(rest, step.packages...)
		}
		slices.Sort(rest)
		conditions = append(conditions, "? AND "+asked)
		values = append(values, v.dialect.Among("c.package_pk", rest))
	}
	changes = changes.Where("("+strings.Join(conditions, " OR ")+")", values...)
	if v.variants {
		changes = changes.Where("(NOT EXISTS (SELECT 1 FROM change_variants cv WHERE cv.change_id = c.id) OR " + asked + ")")
	}
	return changes
}

// inResultSets is the condition that a column is one of the result sets of a step. Mostly these are all from one number on.
func (v *changeView) inResultSets(column string, step changeStep) clause.Expr {
	var numbers []int64
	for number, since := range v.since {
		if since >= step.from {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	first, last, between := numbers[0], numbers[len(numbers)-1], 0
	for number := range v.since {
		if number >= first && number <= last {
			between++
		}
	}
	if between == len(numbers) {
		return gorm.Expr(column+" BETWEEN ? AND ?", first, last)
	}
	return v.dialect.Among(column, numbers)
}

// findings is the condition that a visible image has finding f, or had it until another result set became current. known is false if that is too much for one.
func (v *changeView) findings(current int64) (condition clause.Expr, known bool) {
	if v.found == nil || len(v.steps) > v.maxSteps {
		return clause.Expr{}, false
	}
	conditions, values := []string{"f.until_gen > ? AND ?"}, []any{current, v.dialect.Among("f.package_pk", slices.Sorted(maps.Keys(v.first)))}
	for _, step := range v.steps {
		conditions = append(conditions, "f.until_gen <= ? AND ? AND ?")
		values = append(values, current, v.inResultSets("f.until_gen", step), v.dialect.Among("f.package_pk", step.packages))
	}
	return gorm.Expr("("+strings.Join(conditions, " OR ")+")", values...), true
}

// images counts the images in which changes c are visible, by the number of the result set. packages has the packages of the changes, nil if they are not known.
func (v *changeView) images(changes *gorm.DB, packages map[int64]*numberSet) (map[int64]int, error) {
	counts := map[int64]int{}
	if v.lists == nil {
		var reached []struct {
			Number int64
			Images int
		}
		err := changes.Joins("JOIN generations g ON g.number = c.generation").Joins("JOIN image_packages ip ON ip.package_pk = c.package_pk AND ip.excluded = 0").Joins("JOIN images i ON i.id = ip.image_pk").
			Joins("JOIN image_namespaces m ON m.image_pk = i.id").Where(isWithin("m.namespace", v.in) + " AND " + foundBefore + " AND " + aboutImage).
			Select("c.generation AS number, COUNT(DISTINCT i.id) AS images").Group("c.generation").Scan(&reached).Error
		for _, r := range reached {
			counts[r.Number] = r.Images
		}
		return counts, err
	}
	reached := map[int64]map[int64]bool{}
	reach := func(number, image int64) {
		if reached[number] == nil {
			reached[number] = map[int64]bool{}
		}
		reached[number][image] = true
	}
	if packages == nil {
		// Of changes that are about all images which hold a package, the packages are enough.
		const ofAll = "NOT EXISTS (SELECT 1 FROM change_variants cv WHERE cv.change_id = c.id)"
		changed := v.keep(changes).Where(ofAll).Distinct("c.generation, c.package_pk")
		packages = map[int64]*numberSet{}
		err := eachList(changes.Session(&gorm.Session{NewDB: true}).Table("(?) AS d", changed), v.dialect, "d.generation", "d.package_pk", func(number int64, list []int64) {
			packages[number] = &numberSet{}
			for _, id := range list {
				packages[number].add(id)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	for number, changed := range packages {
		for image, from := range v.found {
			if from < v.since[number] && slices.ContainsFunc(v.lists[image], func(one int64) bool { return one%2 == 0 && changed.has(one/2) }) {
				reach(number, image)
			}
		}
	}
	var err error
	if v.variants {
		of := changes.Joins("JOIN change_images ci ON ci.change_id = c.id").Joins("JOIN image_packages ip ON ip.image_pk = ci.image_pk AND ip.package_pk = c.package_pk AND ip.excluded = 0").
			Where("ci.image_pk IN (?)", numberList(slices.Sorted(maps.Keys(v.found)))).Distinct("c.generation, ci.image_pk")
		err = eachRow(of, func(scan func(...any) error) error {
			var number, image int64
			if err := scan(&number, &image); err != nil {
				return err
			}
			if v.found[image] < v.since[number] {
				reach(number, image)
			}
			return nil
		})
	}
	for number, images := range reached {
		counts[number] = len(images)
	}
	return counts, err
}

// holding lists the visible images that hold each of some packages, in order, unless they exclude it.
func (v *changeView) holding(tx *gorm.DB, packages []int64) (map[int64][]int64, error) {
	holding := make(map[int64][]int64, len(packages))
	if v.lists != nil {
		holding = holdersIn(v.lists, slices.Values(packages), nil)
		for _, images := range holding {
			slices.Sort(images)
		}
		return holding, nil
	}
	return holding, inParts(packages, func(part []int64) error {
		holders := tx.Table("image_packages AS ip").Where("ip.package_pk IN ? AND ip.excluded = 0", part)
		if !v.in.All() {
			holders = holders.Where("ip.image_pk IN (?)", visibleImages(tx, v.in))
		}
		return eachList(holders, v.dialect, "ip.package_pk", "ip.image_pk", func(id int64, images []int64) {
			slices.Sort(images)
			holding[id] = images
		})
	})
}
