package sqlstore

import (
	"fmt"
	"maps"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/policy"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// placeRow is a row of policy_places: the policy selects the workload that runs the image. Policies without selectors whose expression is about findings
// alone have none: they select every place.
type placeRow struct {
	PolicyPk, ImagePk     int64
	Namespace, Kind, Name string
}

var placeColumns = []string{"policy_pk", "image_pk", "namespace", "kind", "name"}

// usedPlace is an image that a workload runs, with what policies see of both.
type usedPlace struct {
	ImagePk                      int64
	Namespace, Kind, Name, Owner string
	ImageID, Repository, Distro  string
}

// usedPlaces selects the images that workloads run, each once in each workload.
func usedPlaces(tx *gorm.DB) *gorm.DB {
	return tx.Table("image_uses AS u").Joins("JOIN images i ON i.id = u.image_pk").Joins("LEFT " + ownersOfUses).Where("u.namespace <> ''").
		Distinct("u.image_pk, u.namespace, u.kind, u.name, COALESCE(w.owner, '') AS owner, i.image_id, i.repository, i.distro")
}

// places evaluates policies for a place.
func (u *usedPlace) places(policies []*compiledPolicy) []placeRow {
	image := policy.Image{ID: u.ImageID, Repository: u.Repository, Distro: u.Distro}
	workload := policy.Workload{Namespace: u.Namespace, Kind: u.Kind, Name: u.Name, Owner: u.Owner}
	var rows []placeRow
	for _, p := range policies {
		if !p.selected.has(store.Workload{Namespace: u.Namespace, Kind: u.Kind, Name: u.Name}) {
			continue
		}
		selected, err := p.selector.Place(&image, &workload)
		if err != nil {
			p.note(fmt.Sprintf("%s %s/%s", u.Kind, u.Namespace, u.Name), err)
		}
		if selected {
			rows = append(rows, placeRow{p.row.ID, u.ImagePk, u.Namespace, u.Kind, u.Name})
		}
	}
	return rows
}

func placeValues(rows []placeRow) []any {
	values := make([]any, 0, 5*len(rows))
	for _, row := range rows {
		values = append(values, row.PolicyPk, row.ImagePk, row.Namespace, row.Kind, row.Name)
	}
	return values
}

// placeEverywhere evaluates a new policy for all places, unless the rows of all policies are too many then.
func (t *txn) placeEverywhere(p *compiledPolicy, bound int) (fits bool, err error) {
	var room int
	if err := t.Raw("SELECT ? - COUNT(*) FROM policy_places", bound).Scan(&room).Error; err != nil {
		return false, err
	}
	var found []usedPlace
	if err := usedPlaces(t.DB).Scan(&found).Error; err != nil {
		return false, err
	}
	var rows []placeRow
	for i := range found {
		rows = append(rows, found[i].places([]*compiledPolicy{p})...)
	}
	if len(rows) > room {
		return false, nil
	}
	return true, t.Insert("policy_places", placeColumns, placeValues(rows), "")
}

// moved notes images that run elsewhere now, or in workloads or with facts that policies may see in another way. Before the commit, policies are
// evaluated for them.
func (t *txn) moved(images ...int64) {
	if t.movedImages == nil {
		t.movedImages = map[int64]bool{}
	}
	for _, image := range images {
		t.movedImages[image] = true
	}
}

// movedWorkloads notes the images that workloads run.
func (t *txn) movedWorkloads(workloads []ownerChange) error {
	for part := range slices.Chunk(workloads, maxWorkloads) {
		condition, names := anyOf(part)
		var images []int64
		if err := t.Raw("SELECT DISTINCT image_pk FROM image_uses WHERE "+condition, names...).Scan(&images).Error; err != nil {
			return err
		}
		t.moved(images...)
	}
	return nil
}

// replace evaluates policies for the places of images that were noted.
func (t *txn) replace() error {
	if len(t.movedImages) == 0 {
		return nil
	}
	policies, err := compiledPolicies(t.DB)
	if err != nil {
		return err
	}
	policies = slices.DeleteFunc(policies, func(p *compiledPolicy) bool { return p.row.Placed == 0 })
	if len(policies) == 0 {
		return nil
	}
	return inParts(slices.Sorted(maps.Keys(t.movedImages)), func(part []int64) error {
		var before []placeRow
		err := t.Raw("SELECT policy_pk, image_pk, namespace, kind, name FROM policy_places WHERE image_pk IN ?", part).Scan(&before).Error
		if err != nil {
			return err
		}
		left := make(map[placeRow]bool, len(before))
		for _, row := range before {
			left[row] = true
		}
		var found []usedPlace
		if err := usedPlaces(t.DB).Where("u.image_pk IN ?", part).Scan(&found).Error; err != nil {
			return err
		}
		if err := readSelections(t.DB, policies, found); err != nil {
			return err
		}
		var fresh []placeRow
		for i := range found {
			for _, row := range found[i].places(policies) {
				if !left[row] {
					fresh = append(fresh, row)
				}
				delete(left, row)
			}
		}
		for row := range left {
			err := t.Execute("DELETE FROM policy_places WHERE policy_pk = ? AND image_pk = ? AND namespace = ? AND kind = ? AND name = ?",
				row.PolicyPk, row.ImagePk, row.Namespace, row.Kind, row.Name)
			if err != nil {
				return err
			}
		}
		return t.Insert("policy_places", placeColumns, placeValues(fresh), "")
	})
}
