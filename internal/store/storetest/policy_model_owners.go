package storetest

import (
	"slices"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// checkOwners expects that the list of owners counts each finding once in each image, on the earliest date of the owner's workloads.
func (m *policyModel) checkOwners(in store.Namespaces, found map[int][]model.Finding) {
	m.t.Helper()
	type numbers struct{ Due, Overdue int }
	where := store.Where{Namespace: []string{"", "dev"}[m.random.IntN(2)]}
	want := map[string]numbers{}
	for i, findings := range found {
		byOwner := map[string][]store.Use{}
		for _, use := range m.usesIn(i, in, where) {
			byOwner[use.Workload.Owner] = append(byOwner[use.Workload.Owner], use)
		}
		for owner, uses := range byOwner {
			n := want[owner]
			for j := range findings {
				if d := m.deadline(&findings[j], uses); d != nil {
					n.Due++
					if d.Overdue {
						n.Overdue++
					}
				}
			}
			want[owner] = n
		}
	}
	got := map[string]numbers{}
	page, err := m.ListOwners(m.t.Context(), in, store.OwnerQuery{Where: where, Due: true})
	must(m.t, err)
	for _, one := range page.Owners {
		got[one.Owner] = numbers{one.Due, one.Overdue}
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		m.t.Errorf("due findings of owners, %+v, seen by %v (-want +got):\n%s", where, in, diff)
	}
}

// ownersIn are the owners of the workloads that run an image, by name.
func (m *policyModel) ownersIn(i int, in store.Namespaces) []string {
	workloads := map[store.Workload]bool{}
	for _, use := range m.visibleUses(i, in) {
		workloads[use.Workload] = true
	}
	return ownersOf(workloads)
}

func (m *policyModel) usesIn(i int, in store.Namespaces, where store.Where) []store.Use {
	return slices.DeleteFunc(m.visibleUses(i, in), func(u store.Use) bool {
		return where.Namespace != "" && u.Workload.Namespace != where.Namespace || where.Owner != "" && u.Workload.Owner != where.Owner || where.None && u.Workload.Owner != ""
	})
}
