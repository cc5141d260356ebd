package storetest

import (
	"cmp"
	"slices"
	"strings"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// checkGroups expects that the lists of owners and namespaces count each finding once in each image, on the earliest date of the group's workloads.
func (m *policyModel) checkGroups(in store.Namespaces, found map[int][]model.Finding) {
	m.t.Helper()
	type numbers struct{ Due, Overdue int }
	where := store.Where{Namespace: []string{"", "dev"}[m.queries.IntN(2)]}
	by := []store.GroupBy{store.ByOwner, store.ByNamespace}[m.queries.IntN(2)]
	want := map[string]numbers{}
	for i, findings := range found {
		groups := map[string][]store.Use{}
		for _, use := range m.usesIn(i, in, where) {
			name := use.Workload.Owner
			if by == store.ByNamespace {
				name = use.Workload.Namespace
			}
			groups[name] = append(groups[name], use)
		}
		for name, uses := range groups {
			n := want[name]
			for j := range findings {
				if d := m.deadline(&findings[j], uses); d != nil {
					n.Due++
					if d.Overdue {
						n.Overdue++
					}
				}
			}
			want[name] = n
		}
	}
	got := map[string]numbers{}
	page, err := m.ListGroups(m.t.Context(), in, store.GroupQuery{By: by, Where: where, Due: true})
	must(m.t, err)
	for _, one := range page.Groups {
		got[one.Name] = numbers{one.Due, one.Overdue}
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		m.t.Errorf("due findings of groups by %d, %+v, seen by %v (-want +got):\n%s", by, where, in, diff)
	}
}

// checkSummary expects that a summary counts each finding once in each image, on the earliest date of the workloads that are chosen, and lists the first ones.
func (m *policyModel) checkSummary(in store.Namespaces, found map[int][]model.Finding) {
	m.t.Helper()
	query := store.SummaryQuery{
		Ownership: []store.Ownership{{}, {Owner: "red"}, {Owner: "blue"}, {None: true}}[m.queries.IntN(4)], Since: m.now,
		DueWithin: time.Duration(m.queries.IntN(4*24)) * time.Hour, Limit: store.MaxSummaryRows,
	}
	type key struct{ vulnerability, pkg string }
	var counted [2]model.SeverityCounts // Overdue, and due soon.
	sums := map[key]*store.DueFinding{}
	for i, findings := range found {
		for j := range findings {
			f := &findings[j]
			d := m.deadline(f, m.usesIn(i, in, store.Where{Ownership: query.Ownership}))
			if d == nil || d.At.After(m.now.Add(query.DueWithin)) {
				continue
			}
			if d.Overdue {
				counted[0].Add(f.Vulnerability.Severity)
			} else {
				counted[1].Add(f.Vulnerability.Severity)
			}
			one := sums[key{f.Vulnerability.ID, f.Package.Name}]
			if one == nil {
				one = &store.DueFinding{
					VulnerabilityID: f.Vulnerability.ID, Severity: f.Vulnerability.Severity, Package: f.Package.Name, Version: f.Package.Version, Fixes: f.Fix.Versions,
					DueAt: d.At, Policy: d.Policy,
				}
				sums[key{f.Vulnerability.ID, f.Package.Name}] = one
			}
			if cmp.Or(d.At.Compare(one.DueAt), strings.Compare(d.Policy, one.Policy)) < 0 {
				one.DueAt, one.Policy = d.At, d.Policy
			}
			one.Images++
		}
	}
	var lists [2][]store.DueFinding
	for _, one := range sums {
		at := 1
		if !one.DueAt.After(m.now) {
			at = 0
		}
		lists[at] = append(lists[at], *one)
	}
	names := func(a, b *store.DueFinding) int {
		return cmp.Or(strings.Compare(a.VulnerabilityID, b.VulnerabilityID), strings.Compare(a.Package, b.Package))
	}
	slices.SortFunc(lists[0], func(a, b store.DueFinding) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), a.DueAt.Compare(b.DueAt), names(&a, &b))
	})
	slices.SortFunc(lists[1], func(a, b store.DueFinding) int {
		return cmp.Or(a.DueAt.Compare(b.DueAt), cmp.Compare(b.Severity, a.Severity), names(&a, &b))
	})
	got, err := m.Summary(m.t.Context(), in, query)
	must(m.t, err)
	want := [2]store.DueFindings{{Counts: counted[0], First: lists[0]}, {Counts: counted[1], First: lists[1]}}
	if diff := gocmp.Diff(want, [2]store.DueFindings{got.Overdue, got.DueSoon}, searchOptions); diff != "" {
		m.t.Errorf("what is due in the summary %+v, seen by %v (-want +got):\n%s", query, in, diff)
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
