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

// ownersOfUses joins uses u with the owners w of their workloads.
const ownersOfUses = "JOIN workload_owners w ON w.namespace = u.namespace AND w.kind = u.kind AND w.name = u.name"

// ownedBy adds the condition that the workload in a table has the owner that is chosen.
func ownedBy(tx *gorm.DB, table string, chosen store.Ownership) *gorm.DB {
	owners := strings.ReplaceAll("SELECT 1 FROM workload_owners wo WHERE wo.namespace = t.namespace AND wo.kind = t.kind AND wo.name = t.name", "t.", table+".")
	switch owner := chosen.Owner; {
	case owner == "":
	case owner != sqldb.Clean(owner) || len(owner) > store.MaxOwner:
		tx = tx.Where("1 = 0") // No owner has such a name.
	default:
		tx = tx.Where("EXISTS ("+owners+" AND wo.owner = ?)", owner)
	}
	if chosen.None {
		tx = tx.Where("NOT EXISTS (" + owners + ")")
	}
	return tx
}

// unowned is a workload without its owner, and with its names as they are stored.
func unowned(w store.Workload) store.Workload {
	return store.Workload{
		Namespace: sqldb.Truncate(w.Namespace, maxIdentifier), Kind: sqldb.Truncate(w.Kind, maxIdentifier), Name: sqldb.Truncate(w.Name, maxIdentifier),
	}
}

// readOwners reads the owners of workloads. It may return those of other workloads, too.
func readOwners(tx *gorm.DB, workloads []store.Workload) (map[store.Workload]string, error) {
	owners := map[store.Workload]string{}
	read := func(condition string, values ...any) error {
		var rows []struct {
			Workload store.Workload `gorm:"embedded"`
			Owner    string
		}
		err := tx.Raw("SELECT namespace, kind, name, owner FROM workload_owners WHERE "+condition, values...).Scan(&rows).Error
		for _, row := range rows {
			owners[row.Workload] = row.Owner
		}
		return err
	}
	if len(workloads) > maxWorkloads {
		namespaces := make([]string, len(workloads))
		for i := range workloads {
			namespaces[i] = workloads[i].Namespace
		}
		slices.Sort(namespaces)
		return owners, inParts(slices.Compact(namespaces), func(part []string) error { return read("namespace IN ?", part) })
	}
	if len(workloads) == 0 {
		return owners, nil
	}
	condition, values := anyOf(workloads)
	return owners, read(condition, values...)
}

// anyOf is the condition that a row is of one of at most maxWorkloads workloads.
func anyOf(workloads []store.Workload) (condition string, values []any) {
	for _, w := range workloads {
		values = append(values, w.Namespace, w.Kind, w.Name)
	}
	return strings.TrimSuffix(strings.Repeat("namespace = ? AND kind = ? AND name = ? OR ", len(workloads)), " OR "), values
}

// setOwners sets the owners of workloads.
func setOwners(tx *gorm.DB, workloads []*store.Workload) error {
	distinct := map[store.Workload]bool{}
	for _, w := range workloads {
		distinct[*w] = true
	}
	owners, err := readOwners(tx, slices.Collect(maps.Keys(distinct)))
	for _, w := range workloads {
		w.Owner = owners[*w]
	}
	return err
}

// imageOwners has the owners of the workloads that run images, by name, at most store.MaxImageOwners of each.
type imageOwners map[int64][]string

// of returns the owners of the workloads that run any of some images, in the same order and with the same bound.
func (o imageOwners) of(images []int64) []string {
	if len(o) == 0 {
		return nil
	}
	found := map[string]bool{}
	for _, image := range images {
		for _, owner := range o[image] {
			found[owner] = true
		}
	}
	owners := slices.Sorted(maps.Keys(found))
	return owners[:min(len(owners), store.MaxImageOwners)]
}

// visibleUses selects the uses u of images in some namespaces.
func visibleUses(tx *gorm.DB, in store.Namespaces) *gorm.DB {
	return within(tx.Table("image_uses AS u"), "u.namespace", in)
}

// ownersOfImages reads the owners of the workloads among uses u that run images; nil stands for all images.
func ownersOfImages(tx, used *gorm.DB, images []int64) (imageOwners, error) {
	return ownersBy(tx, used, "u.image_pk", images)
}

// ownersBy reads the owners of the workloads among uses u, at most store.MaxImageOwners of each number in a column; nil stands for all numbers.
func ownersBy(tx, used *gorm.DB, column string, ids []int64) (imageOwners, error) {
	owners := imageOwners{}
	var some []string
	if err := tx.Raw("SELECT owner FROM workload_owners LIMIT 1").Scan(&some).Error; err != nil || len(some) == 0 {
		return owners, err
	}
	used = used.Joins(ownersOfUses).Session(&gorm.Session{})
	return owners, eachPart(ids, func(part []int64) error {
		chosen := of(used, column, part).Distinct(column + ", w.owner").Order(column + ", w.owner")
		return eachRow(chosen, func(scan func(...any) error) error {
			var id int64
			var owner string
			err := scan(&id, &owner)
			if len(owners[id]) < store.MaxImageOwners {
				owners[id] = append(owners[id], owner)
			}
			return err
		})
	})
}

// addOwners adds their owners to images.
func addOwners(tx *gorm.DB, in store.Namespaces, rows []imageRow, images []store.Image) error {
	ids := make([]int64, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	owners, err := ownersOfImages(tx, visibleUses(tx, in), ids)
	for i := range images {
		images[i].Owners = owners[rows[i].ID]
	}
	return err
}

func pointersTo(workloads []store.Workload) []*store.Workload {
	return workloadsIn(workloads, func(w *store.Workload) *store.Workload { return w })
}

// workloadsIn lists the workloads in some entries for setOwners.
func workloadsIn[T any](entries []T, workload func(*T) *store.Workload) []*store.Workload {
	list := make([]*store.Workload, len(entries))
	for i := range entries {
		list[i] = workload(&entries[i])
	}
	return list
}

// ownerChange is a workload whose owner has to be written; without one it has none any more.
type ownerChange = store.Workload

// compareOwners finds the workloads whose owners are not those that are recorded.
func compareOwners(tx *gorm.DB, workloads []store.Workload) ([]ownerChange, error) {
	wanted := make(map[store.Workload]string, len(workloads))
	for _, w := range workloads {
		wanted[unowned(w)] = sqldb.Truncate(w.Owner, store.MaxOwner)
	}
	known, err := readOwners(tx, slices.Collect(maps.Keys(wanted)))
	if err != nil {
		return nil, err
	}
	var changes []ownerChange
	for w, owner := range wanted {
		if known[w] != owner {
			w.Owner = owner
			changes = append(changes, w)
		}
	}
	slices.SortFunc(changes, func(a, b ownerChange) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return changes, nil
}

// recordOwners records the owners of workloads.
func recordOwners(tx *txn, workloads []store.Workload) error {
	changes, err := compareOwners(tx.DB, workloads)
	if err != nil {
		return err
	}
	var values []any
	for part := range slices.Chunk(changes, maxWorkloads) {
		condition, names := anyOf(part)
		if err := tx.Execute("DELETE FROM workload_owners WHERE "+condition, names...); err != nil {
			return err
		}
	}
	for _, w := range changes {
		if w.Owner != "" {
			values = append(values, w.Namespace, w.Kind, w.Name, w.Owner)
		}
	}
	if err := tx.movedWorkloads(changes); err != nil {
		return err
	}
	return tx.Insert("workload_owners", []string{"namespace", "kind", "name", "owner"}, values, "")
}

// forgottenOwner is the condition that nothing is recorded of a workload but its owner.
const forgottenOwner = `NOT EXISTS (SELECT 1 FROM image_uses u WHERE u.namespace = workload_owners.namespace AND u.name = workload_owners.name
		AND u.kind = workload_owners.kind)
	AND NOT EXISTS (SELECT 1 FROM image_presences p WHERE p.namespace = workload_owners.namespace AND p.name = workload_owners.name
		AND p.kind = workload_owners.kind)
	AND NOT EXISTS (SELECT 1 FROM container_coverage c WHERE c.namespace = workload_owners.namespace AND c.kind = workload_owners.kind
		AND c.name = workload_owners.name)`
