package sqlstore

import (
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// The caller of SyncPolicies resolves the selectors of policies. policy_selected has what they select now: workloads, and namespaces as a whole, which have
// neither a kind nor a name. policy_selections has a digest of these rows for each policy with selectors.

// selection is what the selectors of a policy select.
type selection struct {
	digest string
	places []store.Workload
	// known are the places, or those of them that matter at the moment.
	known map[store.Workload]bool
}

// readSelection reads the places of a policy, nil for all.
func readSelection(named *store.DecisionPlaces) (*selection, error) {
	if named == nil {
		return nil, nil //nolint:nilnil // Everywhere is no error.
	}
	places, digest, err := readPlaces(named)
	if err != nil {
		return nil, err
	}
	s := &selection{digest: digest, places: places, known: make(map[store.Workload]bool, len(places))}
	for _, at := range places {
		s.known[at] = true
	}
	return s, nil
}

// has reports whether a workload is selected.
func (s *selection) has(w store.Workload) bool {
	return s == nil || s.known[namespacePlace(w.Namespace)] || s.known[w]
}

// readSelections reads what stored policies select in the namespaces of some places.
func readSelections(tx *gorm.DB, policies []*compiledPolicy, of []usedPlace) error {
	byID := map[int64]*selection{}
	for _, p := range policies {
		if p.selected != nil {
			p.selected.known = map[store.Workload]bool{}
			byID[p.row.ID] = p.selected
		}
	}
	if len(byID) == 0 {
		return nil
	}
	namespaces := make([]string, len(of))
	for i := range of {
		namespaces[i] = of[i].Namespace
	}
	slices.Sort(namespaces)
	return inParts(slices.Compact(namespaces), func(part []string) error {
		var rows []struct {
			PolicyPk int64
			At       store.Workload `gorm:"embedded"`
		}
		err := tx.Raw("SELECT policy_pk, namespace, kind, name FROM policy_selected WHERE namespace IN ?", part).Scan(&rows).Error
		for _, row := range rows {
			if s := byID[row.PolicyPk]; s != nil {
				s.known[row.At] = true
			}
		}
		return err
	})
}

// selectionDigests reads the digests of what policies select, by the number of the policy.
func selectionDigests(tx *gorm.DB) (map[int64]string, error) {
	var rows []struct {
		PolicyPk int64
		Digest   string
	}
	err := tx.Raw("SELECT policy_pk, digest FROM policy_selections").Scan(&rows).Error
	digests := make(map[int64]string, len(rows))
	for _, row := range rows {
		digests[row.PolicyPk] = row.Digest
	}
	return digests, err
}

// saveSelection writes what a new policy selects.
func (t *txn) saveSelection(policy int64, s *selection) error {
	if s == nil {
		return nil
	}
	if err := t.insertSelected(policy, s.places); err != nil {
		return err
	}
	return t.Insert("policy_selections", []string{"policy_pk", "digest"}, []any{policy, s.digest}, "")
}

func (t *txn) insertSelected(policy int64, places []store.Workload) error {
	values := make([]any, 0, 4*len(places))
	for _, at := range places {
		values = append(values, policy, at.Namespace, at.Kind, at.Name)
	}
	return t.Insert("policy_selected", []string{"policy_pk", "namespace", "kind", "name"}, values, "")
}

// reselect makes a stored policy select other places. Before the commit, policies are evaluated for the images that run where this differs.
func (t *txn) reselect(policy int64, s *selection) error {
	var before []store.Workload
	if err := t.Raw("SELECT namespace, kind, name FROM policy_selected WHERE policy_pk = ?", policy).Scan(&before).Error; err != nil {
		return err
	}
	stays := make(map[store.Workload]bool, len(before))
	var gone []store.Workload
	for _, at := range before {
		if stays[at] = s.known[at]; !stays[at] {
			gone = append(gone, at)
		}
	}
	added := slices.DeleteFunc(slices.Clone(s.places), func(at store.Workload) bool { return stays[at] })
	for part := range slices.Chunk(gone, maxWorkloads) {
		condition, values := anyOf(part)
		if err := t.Execute("DELETE FROM policy_selected WHERE policy_pk = ? AND ("+condition+")", append([]any{policy}, values...)...); err != nil {
			return err
		}
	}
	if err := t.insertSelected(policy, added); err != nil {
		return err
	}
	if err := t.Execute("UPDATE policy_selections SET digest = ? WHERE policy_pk = ?", s.digest, policy); err != nil {
		return err
	}
	return t.movedPlaces(slices.Concat(gone, added))
}

// movedPlaces notes the images that run in namespaces as a whole, or in workloads.
func (t *txn) movedPlaces(places []store.Workload) error {
	var namespaces []string
	var workloads []store.Workload
	for _, at := range places {
		if at == namespacePlace(at.Namespace) {
			namespaces = append(namespaces, at.Namespace)
		} else {
			workloads = append(workloads, at)
		}
	}
	err := inParts(namespaces, func(part []string) error {
		var images []int64
		err := t.Raw("SELECT DISTINCT image_pk FROM image_uses WHERE namespace IN ?", part).Scan(&images).Error
		t.moved(images...)
		return err
	})
	if err != nil {
		return err
	}
	return t.movedWorkloads(workloads)
}
