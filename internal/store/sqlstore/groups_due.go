package sqlstore

import (
	"maps"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// addDueGroups adds the numbers of findings that are due to groups of the uses that count.
func (s *Store) addDueGroups(tx *gorm.DB, grouped groupedUses, in store.Namespaces, groups []store.Group) error {
	r, err := s.dueReader(tx, in)
	if err != nil || len(r.policies) == 0 || len(groups) == 0 {
		return err
	}
	places := make(map[string]int, len(groups))
	for i := range groups {
		places[groups[i].Name] = i
	}
	members, running := map[store.Workload]int{}, map[int64]bool{}
	err = inParts(slices.Sorted(maps.Keys(places)), func(part []string) error {
		chosen := grouped.used.Where(grouped.name+" IN ?", part).Distinct(grouped.columns("u.image_pk, u.namespace, u.kind, u.name"))
		return eachRow(chosen, func(scan func(...any) error) error {
			var name string
			var image int64
			var w store.Workload
			err := scan(&name, &image, &w.Namespace, &w.Kind, &w.Name)
			members[w], running[image] = places[name], true
			return err
		})
	})
	if err != nil || len(running) == 0 {
		return err
	}
	images := slices.Sorted(maps.Keys(running))
	if len(images) > sqldb.MaxIn {
		images = nil // To read all of them once is faster.
	}
	targets, err := r.targets(images, true)
	if err != nil {
		return err
	}
	for image, list := range targets {
		targets[image] = slices.DeleteFunc(list, func(t *dueTarget) bool {
			_, counts := members[t.workload]
			return !counts
		})
	}
	return s.countDueGroups(r, images, targets, members, groups)
}

// countDueGroups counts each finding of an image once for each group, by the earliest of the dates of the group's workloads. members has the place of the
// group of each workload in groups.
func (s *Store) countDueGroups(r *dueReader, images []int64, targets map[int64][]*dueTarget, members map[store.Workload]int, groups []store.Group) error {
	type groupFinding struct {
		group   int
		finding int64
	}
	now, image, due := s.now(), int64(0), map[groupFinding]int64{}
	count := func() {
		for one, at := range due {
			groups[one.group].Due++
			if at <= now {
				groups[one.group].Overdue++
			}
		}
		clear(due)
	}
	err := r.each(images, targets, func(t *dueTarget, f *dueFinding, at int64, _ int) {
		if t.image != image { // All visits about a package in an image follow each other.
			count()
			image = t.image
		}
		one := groupFinding{members[t.workload], f.id}
		if known, found := due[one]; !found || at < known {
			due[one] = at
		}
	})
	count()
	return err
}
