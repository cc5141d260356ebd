package sqlstore

import (
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// matchedHolders selects the rows ip of what matched images hold and do not exclude. Nearly all images are matched, so that those which are not are
// looked up once.
func matchedHolders(tx *gorm.DB) *gorm.DB {
	return tx.Table("image_packages AS ip").Where("ip.excluded = 0 AND ip.image_pk NOT IN (SELECT n.id FROM images n WHERE n.matched_at = 0)")
}

// groupReach is what groups of packages reach. It is counted here: to count what differs, databases sort all rows, with the names of the workloads.
type groupReach struct {
	// images holds the images of each group, in order and each once; workloads counts those that run them.
	images    [][]int64
	workloads []int
	// held has the packages that some image holds.
	held map[int64]bool
}

// allUses is how many images are looked up for the workloads that run them; where there are more, all uses are read.
const allUses = 4 * store.MaxPageSize

// reachOfGroups reads what groups of packages reach. members has the groups of each package, holders selects the rows ip that count, and where the
// workloads.
func reachOfGroups(tx *gorm.DB, groups int, members map[int64][]int, holders *gorm.DB, where store.Where) (*groupReach, error) {
	r := &groupReach{images: make([][]int64, groups), workloads: make([]int, groups), held: map[int64]bool{}}
	packages := make([]int64, 0, len(members))
	for id := range members {
		packages = append(packages, id)
	}
	slices.Sort(packages)
	holders = holders.Session(&gorm.Session{})
	err := inParts(packages, func(part []int64) error {
		return eachRow(holders.Where("ip.package_pk IN ?", part).Select("ip.package_pk, ip.image_pk"), func(scan func(...any) error) error {
			var id, image int64
			if err := scan(&id, &image); err != nil {
				return err
			}
			r.held[id] = true
			for _, group := range members[id] {
				r.images[group] = append(r.images[group], image)
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	for group := range r.images {
		slices.Sort(r.images[group])
		r.images[group] = slices.Compact(r.images[group])
	}
	return r, r.countWorkloads(tx, where)
}

// countWorkloads counts the workloads that run the images of each group.
func (r *groupReach) countWorkloads(tx *gorm.DB, where store.Where) error {
	number := map[store.Workload]int{}
	running := map[int64][]int{}
	read := func(uses *gorm.DB) error {
		return eachRow(uses.Select("u.image_pk, u.namespace, u.kind, u.name"), func(scan func(...any) error) error {
			var image int64
			var w store.Workload
			if err := scan(&image, &w.Namespace, &w.Kind, &w.Name); err != nil {
				return err
			}
			if _, known := number[w]; !known {
				number[w] = len(number)
			}
			running[image] = append(running[image], number[w])
			return nil
		})
	}
	used := uses(tx.Table("image_uses AS u"), where).Session(&gorm.Session{})
	all := slices.Concat(r.images...)
	slices.Sort(all)
	all = slices.Compact(all)
	var err error
	if len(all) > allUses {
		err = read(used)
	} else {
		err = inParts(all, func(part []int64) error { return read(used.Where("u.image_pk IN ?", part)) })
	}
	if err != nil {
		return err
	}
	counted := make([]int, len(number)) // The last group that counted each workload, from 1.
	for group, images := range r.images {
		for _, image := range images {
			for _, w := range running[image] {
				if counted[w] != group+1 {
					counted[w] = group + 1
					r.workloads[group]++
				}
			}
		}
	}
	return nil
}

// eachRow calls visit for each row of a query.
func eachRow(query *gorm.DB, visit func(scan func(...any) error) error) error {
	rows, err := query.Rows()
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // Err tells whether all rows were read.
	for rows.Next() {
		if err := visit(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
