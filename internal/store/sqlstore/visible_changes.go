package sqlstore

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// Who sees some namespaces sees the changes of a result set in packages of images that were visible and matched when it became current. Databases ask that of each
// change, and may look at all images that hold its package. It is known from what the visible images hold.

// changeView is which changes are visible in some namespaces.
type changeView struct {
	in      store.Namespaces
	dialect sqldb.Dialect
	// found is since when the visible images have findings, nil if they are too many: then statements ask. lists has what they hold, nil if that is too much.
	found map[int64]int64
	lists map[int64][]int64
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
	first, lists, number := map[int64]int64{}, map[int64][]int64{}, 0
	err = eachPackageList(tx, v.dialect, images.matched(), func(image int64, list []int64) {
		from := found[image]
		for _, one := range list {
			if known, found := first[one/2]; one%2 == 0 && (!found || from < known) {
				first[one/2] = from
			}
		}
		if number += len(list); number <= s.keptNumbers {
			lists[image] = list
		}
	})
	if err != nil {
		return v, err
	}
	if number > s.keptNumbers {
		lists = nil
	}
	var became, some []int64
	if err := tx.Raw("SELECT DISTINCT g.current_since FROM generations g WHERE g.current_since > 0 ORDER BY g.current_since").Scan(&became).Error; err != nil {
		return v, err
	}
	if err := tx.Raw("SELECT cv.change_id FROM change_variants cv LIMIT 1").Scan(&some).Error; err != nil {
		return v, err
	}
	v.variants = len(some) > 0
	v.found, v.lists = found, lists
	v.step(first, became)
	return v, nil
}

// step makes the steps from the times at which result sets became current, in order, and those since when packages are in an image with findings.
func (v *changeView) step(first map[int64]int64, became []int64) {
	steps := map[int64][]int64{}
	for id, from := range first {
		if at, _ := slices.BinarySearch(became, from+1); at < len(became) {
			steps[became[at]] = append(steps[became[at]], id)
		}
	}
	for _, from := range slices.Sorted(maps.Keys(steps)) {
		slices.Sort(steps[from])
		v.steps = append(v.steps, changeStep{from, steps[from]})
	}
}

// keep keeps changes c of result sets g that are visible.
func (v *changeView) keep(changes *gorm.DB) *gorm.DB {
	if v.in.All() {
		return changes
	}
	// An image is visible by a row m of image_namespaces.
	asked := `EXISTS (SELECT 1 FROM image_packages ip JOIN images i ON i.id = ip.image_pk JOIN image_namespaces m ON m.image_pk = i.id
		WHERE ip.package_pk = c.package_pk AND ip.excluded = 0 AND ` + isWithin("m.namespace", v.in) + " AND " + foundBefore + " AND " + aboutImage + ")"
	if v.found == nil {
		return changes.Where(asked)
	}
	largest := slices.SortedFunc(slices.Values(v.steps), func(a, b changeStep) int {
		return cmp.Or(cmp.Compare(len(b.packages), len(a.packages)), cmp.Compare(a.from, b.from))
	})
	conditions, values := []string{"1 = 0"}, []any{}
	for _, step := range largest[:min(len(largest), v.maxSteps)] {
		conditions = append(conditions, "g.current_since >= ? AND ?")
		values = append(values, step.from, v.dialect.Among("c.package_pk", step.packages))
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

// images counts the images in which changes c of result sets g are visible, by the number of the result set.
func (v *changeView) images(changes *gorm.DB) (map[int64]int, error) {
	counts := map[int64]int{}
	if v.lists == nil {
		var reached []struct {
			Number int64
			Images int
		}
		err := changes.Joins("JOIN image_packages ip ON ip.package_pk = c.package_pk AND ip.excluded = 0").Joins("JOIN images i ON i.id = ip.image_pk").
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
	// Of changes that are about all images which hold a package, the packages are enough.
	const ofAll = "NOT EXISTS (SELECT 1 FROM change_variants cv WHERE cv.change_id = c.id)"
	current, changed := map[int64]int64{}, map[int64]*numberSet{}
	err := eachRow(v.keep(changes).Where(ofAll).Distinct("c.generation, g.current_since, c.package_pk"), func(scan func(...any) error) error {
		var number, since, id int64
		if err := scan(&number, &since, &id); err != nil {
			return err
		}
		if changed[number] == nil {
			current[number], changed[number] = since, &numberSet{}
		}
		changed[number].add(id)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for number, packages := range changed {
		for image, list := range v.lists {
			if v.found[image] < current[number] && slices.ContainsFunc(list, func(one int64) bool { return one%2 == 0 && packages.has(one/2) }) {
				reach(number, image)
			}
		}
	}
	if v.variants {
		of := changes.Joins("JOIN change_images ci ON ci.change_id = c.id").Joins("JOIN image_packages ip ON ip.image_pk = ci.image_pk AND ip.package_pk = c.package_pk AND ip.excluded = 0").
			Where("ci.image_pk IN (?)", numberList(slices.Sorted(maps.Keys(v.found)))).Distinct("c.generation, g.current_since, ci.image_pk")
		err = eachRow(of, func(scan func(...any) error) error {
			var number, since, image int64
			if err := scan(&number, &since, &image); err != nil {
				return err
			}
			if v.found[image] < since {
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
