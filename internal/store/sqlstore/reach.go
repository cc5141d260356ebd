package sqlstore

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// groupReach is what groups of packages reach. It is counted here: to count what differs, databases sort all rows, with the names of the workloads.
type groupReach struct {
	// images holds the images of each group, in order and each once; workloads counts those that run them.
	images    [][]int64
	workloads []int
}

// owners reads the owners of the workloads that run the images of each group.
func (r *groupReach) owners(tx *gorm.DB, chosen place) ([][]string, error) {
	all := slices.Concat(r.images...)
	slices.Sort(all)
	owned, err := ownersOfImages(tx, uses(tx.Table("image_uses AS u"), chosen), append([]int64{}, slices.Compact(all)...))
	owners := make([][]string, len(r.images))
	for group, images := range r.images {
		owners[group] = owned.of(images)
	}
	return owners, err
}

// groupMember is a package, or a finding in it, in a group.
type groupMember struct {
	group int
	// suppressed is where the finding does not count.
	suppressed reachSet
	// held says that an image holds the package in which it counts. since is from when on it was in such an image that is visible in some namespaces
	// and matched; 0 of all namespaces.
	held  bool
	since int64
}

// reachedImage is an image that is reached, and from when on it is visible and has findings.
type reachedImage struct {
	ID, Since, FoundSince int64
	ImageID, Platform     string
}

// allUses is how many images are looked up by ID; where there are more, the list of all is read.
const allUses = 4 * store.MaxPageSize

// unmatchedImages has the images that are not matched: nearly all are.
func unmatchedImages(tx *gorm.DB) (map[int64]bool, error) {
	var ids []int64
	err := tx.Raw("SELECT id FROM images WHERE matched_at = 0").Scan(&ids).Error
	unmatched := make(map[int64]bool, len(ids))
	for _, id := range ids {
		unmatched[id] = true
	}
	return unmatched, err
}

// fewChosen is up to how many images packages are looked up in. Of more, databases return all images that hold a package in less time.
const fewChosen = 100

// holdersOf are the rows ip that hold packages.
type holdersOf struct {
	rows *gorm.DB
	// leftOut are images that do not count. Unless it is nil, only has those that do.
	leftOut, only map[int64]bool
	// lists has what all images hold that count, nil if rows are read. excluded says that packages count which an image excludes.
	lists    map[int64][]int64
	excluded bool
}

// limit leaves the images that are selected as image_pk.
func (h *holdersOf) limit(tx, images *gorm.DB, few int) error {
	var ids []int64
	if err := tx.Table("(?) AS c", images).Distinct("c.image_pk").Scan(&ids).Error; err != nil {
		return err
	}
	if len(ids) <= few {
		h.rows = h.rows.Where("ip.image_pk IN (?)", images)
		return nil
	}
	h.only = make(map[int64]bool, len(ids))
	for _, id := range ids {
		h.only[id] = true
	}
	return nil
}

// each calls visit with packages and the images that hold them.
func (h *holdersOf) each(d sqldb.Dialect, packages []int64, visit func(id int64, images []int64)) error {
	if h.lists == nil {
		rows := h.rows.Session(&gorm.Session{})
		return inParts(packages, func(part []int64) error {
			return eachList(rows.Where("ip.package_pk IN ?", part), d, "ip.package_pk", "ip.image_pk", func(id int64, images []int64) {
				visit(id, slices.DeleteFunc(images, h.leaveOut))
			})
		})
	}
	var wanted numberSet
	for _, id := range packages {
		wanted.add(id)
	}
	holding := make(map[int64][]int64, len(packages))
	for image, list := range h.lists {
		for _, one := range list {
			if id := one / 2; (h.excluded || one%2 == 0) && wanted.has(id) {
				holding[id] = append(holding[id], image)
			}
		}
	}
	for id, images := range holding {
		visit(id, images)
	}
	return nil
}

// leaveOut reports whether an image does not count.
func (h *holdersOf) leaveOut(image int64) bool {
	return h.leftOut[image] || h.only != nil && !h.only[image]
}

// reachOfGroups reads what groups of packages reach. members has what is in groups by package, and chosen chooses the workloads.
func reachOfGroups(tx *gorm.DB, d sqldb.Dialect, groups int, members map[int64][]*groupMember, holders *holdersOf, chosen place, view seen) (*groupReach, error) {
	r := &groupReach{images: make([][]int64, groups)}
	packages := make([]int64, 0, len(members))
	var sets []reachSet
	for id, all := range members {
		packages = append(packages, id)
		for _, member := range all {
			sets = append(sets, member.suppressed)
		}
	}
	suppressed, err := readCovers(tx, view, sets)
	if err != nil {
		return nil, err
	}
	slices.Sort(packages)
	holding := map[*groupMember][]int64{}
	err = holders.each(d, packages, func(id int64, images []int64) {
		for _, member := range members[id] {
			counting := images
			if member.suppressed != "" {
				counting = slices.DeleteFunc(slices.Clone(images), func(image int64) bool { return suppressed.has(member.suppressed, image) })
			}
			member.held = len(counting) > 0
			if !chosen.in.All() {
				holding[member] = counting
			}
			r.images[member.group] = append(r.images[member.group], counting...)
		}
	})
	if err != nil {
		return nil, err
	}
	for group := range r.images {
		slices.Sort(r.images[group])
		r.images[group] = slices.Compact(r.images[group])
	}
	if err := r.limit(tx, chosen.in, holding); err != nil {
		return nil, err
	}
	r.workloads, err = countWorkloads(uses(tx.Table("image_uses AS u"), chosen), r.images)
	return r, err
}

// limit puts images in the order in which they became visible. holding has the images of members.
func (r *groupReach) limit(tx *gorm.DB, in store.Namespaces, holding map[*groupMember][]int64) error {
	if in.All() {
		return nil
	}
	known, err := reachedImages(tx, in, slices.Concat(r.images...))
	if err != nil {
		return err
	}
	for _, images := range r.images {
		known.sort(images)
	}
	for member, images := range holding {
		for i, image := range images {
			if since := known[image].FoundSince; i == 0 || since < member.since {
				member.since = since
			}
		}
	}
	return nil
}

// visibleOrder has what is known of images that are visible in some namespaces.
type visibleOrder map[int64]*reachedImage

// reachedImages reads since when images are visible in some namespaces.
func reachedImages(tx *gorm.DB, in store.Namespaces, images []int64) (visibleOrder, error) {
	slices.Sort(images)
	images = slices.Compact(images)
	read := make(visibleOrder, len(images))
	err := inParts(images, func(part []int64) error {
		var rows []reachedImage
		err := tx.Raw("SELECT id, matched_at AS found_since, image_id, platform FROM images WHERE id IN ?", part).Scan(&rows).Error
		for i := range rows {
			read[rows[i].ID] = &rows[i]
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	known := make(visibleOrder, len(images))
	return known, eachSince(tx, in, images, func(image, since int64) {
		if reached := read[image]; reached != nil {
			reached.Since, reached.FoundSince = since, max(since, reached.FoundSince)
			known[image] = reached
		}
	})
}

// sort puts images in the order in which they became visible: that of their numbers tells when they were known.
func (o visibleOrder) sort(images []int64) {
	slices.SortFunc(images, func(x, y int64) int {
		a, b := o[x], o[y]
		return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.ImageID, b.ImageID), cmp.Compare(a.Platform, b.Platform))
	})
}

// countWorkloads counts the workloads among uses u that run images of each group. Each image is in a group once.
func countWorkloads(used *gorm.DB, groups [][]int64) ([]int, error) {
	number := map[store.Workload]int{}
	running := map[int64][]int{}
	err := eachUse(used, slices.Concat(groups...), func(image int64, w store.Workload) {
		if _, known := number[w]; !known {
			number[w] = len(number)
		}
		running[image] = append(running[image], number[w])
	})
	if err != nil {
		return nil, err
	}
	workloads := make([]int, len(groups))
	counted := make([]int, len(number)) // The last group that counted each workload, from 1.
	for group, images := range groups {
		for _, image := range images {
			for _, w := range running[image] {
				if counted[w] != group+1 {
					counted[w] = group + 1
					workloads[group]++
				}
			}
		}
	}
	return workloads, nil
}

// eachUse calls visit for each use u of images, and where there are many also for uses of others.
func eachUse(used *gorm.DB, images []int64, visit func(image int64, w store.Workload)) error {
	read := func(uses *gorm.DB) error {
		return eachRow(uses.Select("u.image_pk, u.namespace, u.kind, u.name"), func(scan func(...any) error) error {
			var image int64
			var w store.Workload
			err := scan(&image, &w.Namespace, &w.Kind, &w.Name)
			if err == nil {
				visit(image, w)
			}
			return err
		})
	}
	used = used.Session(&gorm.Session{})
	slices.Sort(images)
	images = slices.Compact(images)
	if len(images) > allUses {
		return read(used)
	}
	return inParts(images, func(part []int64) error { return read(used.Where("u.image_pk IN ?", part)) })
}

// eachList calls visit for each value of column by with the values of another column, all of them numbers. Databases return a row for each group several times faster
// than a row for each value.
func eachList(query *gorm.DB, d sqldb.Dialect, by, column string, visit func(id int64, list []int64)) error {
	grouped := query.Select(by + ", COUNT(*), " + d.List(column)).Group(by)
	return eachRow(grouped, func(scan func(...any) error) error {
		var id int64
		var count int
		var text string
		if err := scan(&id, &count, &text); err != nil {
			return err
		}
		list, err := numbersOf(text)
		if err != nil {
			return fmt.Errorf("a list of %d numbers in the database: %w", count, err)
		}
		if len(list) != count {
			return errCut(len(list), count)
		}
		visit(id, list)
		return nil
	})
}

// allOf reads a column as one list, which takes less time than a row for each number.
func allOf(query *gorm.DB, d sqldb.Dialect, column string) ([]int64, error) {
	var row struct {
		Count int
		List  string
	}
	if err := query.Select("COUNT(*) AS count, COALESCE(" + d.List(column) + ", '') AS list").Scan(&row).Error; err != nil || row.Count == 0 {
		return nil, err
	}
	list, err := numbersOf(row.List)
	if err != nil {
		return nil, fmt.Errorf("a list of %d numbers in the database: %w", row.Count, err)
	}
	if len(list) != row.Count {
		return nil, errCut(len(list), row.Count)
	}
	return list, nil
}

// errCut says that a database returned some of the numbers of a list: MySQL cuts what exceeds the size of its packets.
func errCut(returned, of int) error {
	return fmt.Errorf("the database returned %d of %d numbers of a list; increase max_allowed_packet", returned, of)
}

// errEnough ends eachRow without an error.
var errEnough = errors.New("enough rows")

// eachRow calls visit for each row of a query.
func eachRow(query *gorm.DB, visit func(scan func(...any) error) error) error {
	rows, err := query.Rows()
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // Err tells whether all rows were read.
	for rows.Next() {
		if err := visit(rows.Scan); err != nil {
			if errors.Is(err, errEnough) {
				return nil
			}
			return err
		}
	}
	return rows.Err()
}
