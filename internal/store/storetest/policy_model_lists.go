package storetest

import (
	"fmt"
	"slices"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// checkDueLists expects that vulnerabilities and packages can be listed by the dates of their findings.
func (m *policyModel) checkDueLists(in store.Namespaces, found map[int][]model.Finding) {
	m.t.Helper()
	where := store.Where{Namespace: []string{"", "dev"}[m.queries.IntN(2)]}
	overdue := m.queries.IntN(2) == 0
	until, before := m.now, time.Time{}
	if !overdue {
		before = m.now.AddDate(0, 0, 1)
		until = before.Add(-time.Microsecond)
	}
	var vulnerabilities, packages []string
	for i, findings := range found {
		for j := range findings {
			if d := m.deadline(&findings[j], m.usesIn(i, in, where)); d != nil && !d.At.After(until) {
				vulnerabilities = append(vulnerabilities, findings[j].Vulnerability.ID)
				packages = append(packages, findings[j].Package.Name)
			}
		}
	}
	name := fmt.Sprintf("due until %v, %+v, seen by %v", until, where, in)
	vulnerabilityPage, err := m.ListVulnerabilities(m.t.Context(), in, store.VulnerabilityQuery{
		Where: where, Sort: store.SortVulnerabilityID, Overdue: overdue, DueBefore: before,
	})
	must(m.t, err)
	var got []string
	for _, one := range vulnerabilityPage.Vulnerabilities {
		got = append(got, one.ID)
	}
	expectTexts(m.t, "vulnerabilities "+name, got, inOrderOnce(vulnerabilities)...)
	order := []store.PackageSort{store.SortPackageName, store.SortPackageSeverity}[m.queries.IntN(2)]
	packagePage, err := m.ListPackages(m.t.Context(), in, store.PackageQuery{Where: where, Sort: order, Overdue: overdue, DueBefore: before})
	must(m.t, err)
	got = nil
	for i := range packagePage.Packages {
		got = append(got, packagePage.Packages[i].Package.Name)
	}
	expectTexts(m.t, fmt.Sprint("packages ", name, " by ", order), inOrderOnce(got), inOrderOnce(packages)...)
}

// checkFixes expects that fixes count findings that are overdue for the workloads that are chosen, and that those with some can be listed, as they are among all.
func (m *policyModel) checkFixes(in store.Namespaces, found map[int][]model.Finding) {
	m.t.Helper()
	where := store.Where{
		Namespace: []string{"", "", "dev"}[m.queries.IntN(3)], Ownership: []store.Ownership{{}, {Owner: "red"}, {Owner: "blue"}, {None: true}}[m.queries.IntN(4)],
	}
	want := map[string]int{}
	for i, findings := range found {
		for j := range findings {
			if d := m.deadline(&findings[j], m.usesIn(i, in, where)); d != nil && d.Overdue {
				want[overdueFix(m.images[i], &findings[j])]++
			}
		}
	}
	for _, only := range []bool{false, true} {
		page, err := m.ListFixes(m.t.Context(), in, store.FixQuery{Where: where, Overdue: only, Page: store.Page{Size: store.MaxPageSize}})
		must(m.t, err)
		got := map[string]int{}
		for i := range page.Fixes {
			fix := &page.Fixes[i]
			name := fmt.Sprint(fix.Image.ImageID, " ", fix.Kind)
			if fix.Kind == store.FixUpdate {
				name += " " + fix.Packages[0].Package.Name
			}
			if fix.Overdue > 0 || only {
				got[name] = fix.Overdue
			}
		}
		if diff := gocmp.Diff(want, got); diff != "" || only && page.Total != len(want) {
			m.t.Errorf("overdue findings of fixes, seen by %v, %+v, only overdue %t (-want +got):\n%s", in, where, only, diff)
		}
	}
	query := store.FixQuery{
		Where: store.Where{Namespace: []string{"", "dev", "prod"}[m.queries.IntN(3)], Ownership: where.Ownership}, KEV: m.queries.IntN(4) == 0,
		Kind: []store.FixKind{"", "", store.FixUpdate, store.FixRebuild, store.FixWait}[m.queries.IntN(5)],
	}
	if m.queries.IntN(4) == 0 {
		query.ImageID = m.images[m.queries.IntN(len(m.images))].ImageID
	}
	all := query
	all.Size = store.MaxPageSize
	page, err := m.ListFixes(m.t.Context(), in, all)
	must(m.t, err)
	overdue := slices.DeleteFunc(page.Fixes, func(fix store.Fix) bool { return fix.Overdue == 0 })
	query.Overdue = true
	comparePages(m.t, fmt.Sprintf("overdue fixes, seen by %v, %+v", in, query), overdue, func(page store.Page) ([]store.Fix, string, int, error) {
		query.Page = page
		got, err := m.ListFixes(m.t.Context(), in, query)
		return got.Fixes, got.NextToken, got.Total, err
	})
}

// inOrderOnce has each text once, in order.
func inOrderOnce(texts []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(texts)))
}
