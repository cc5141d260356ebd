package sqlstore

import (
	"maps"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// addDueOwners adds the numbers of findings that are due to owners. used are the uses u of images that count, with the owners w of their workloads.
func (s *Store) addDueOwners(tx, used *gorm.DB, in store.Namespaces, owners []store.OwnerSummary) error {
	r, err := s.dueReader(tx, in)
	if err != nil || len(r.policies) == 0 || len(owners) == 0 {
		return err
	}
	places := make(map[string]int, len(owners))
	for i := range owners {
		places[owners[i].Owner] = i
	}
	owned, running := map[store.Workload]int{}, map[int64]bool{}
	err = inParts(slices.Sorted(maps.Keys(places)), func(part []string) error {
		chosen := used.Where("COALESCE(w.owner, '') IN ?", part).Distinct("COALESCE(w.owner, '') AS owner, u.image_pk, u.namespace, u.kind, u.name")
		return eachRow(chosen, func(scan func(...any) error) error {
			var owner string
			var image int64
			var w store.Workload
			err := scan(&owner, &image, &w.Namespace, &w.Kind, &w.Name)
			owned[w], running[image] = places[owner], true
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
			_, counts := owned[t.workload]
			return !counts
		})
	}
	return s.countDueOwners(r, images, targets, owned, owners)
}

// countDueOwners counts each finding of an image once for each owner, by the earliest of the dates of the owner's workloads. owned has the place of the
// owner in owners.
func (s *Store) countDueOwners(r *dueReader, images []int64, targets map[int64][]*dueTarget, owned map[store.Workload]int, owners []store.OwnerSummary) error {
	type ownedFinding struct {
		owner   int
		finding int64
	}
	now, image, due := s.now(), int64(0), map[ownedFinding]int64{}
	count := func() {
		for one, at := range due {
			owners[one.owner].Due++
			if at <= now {
				owners[one.owner].Overdue++
			}
		}
		clear(due)
	}
	err := r.each(images, targets, func(t *dueTarget, f *dueFinding, at int64, _ int) {
		if t.image != image { // All visits about a package in an image follow each other.
			count()
			image = t.image
		}
		one := ownedFinding{owned[t.workload], f.id}
		if known, found := due[one]; !found || at < known {
			due[one] = at
		}
	})
	count()
	return err
}
