package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// checkDueLists expects that vulnerabilities and packages can be listed by the dates of their findings.
func (m *policyModel) checkDueLists(in store.Namespaces, found map[int][]model.Finding) {
	m.t.Helper()
	where := store.Where{Namespace: []string{"", "dev"}[m.random.IntN(2)]}
	overdue := m.random.IntN(2) == 0
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
	order := []store.PackageSort{store.SortPackageName, store.SortPackageSeverity}[m.random.IntN(2)]
	packagePage, err := m.ListPackages(m.t.Context(), in, store.PackageQuery{Where: where, Sort: order, Overdue: overdue, DueBefore: before})
	must(m.t, err)
	got = nil
	for i := range packagePage.Packages {
		got = append(got, packagePage.Packages[i].Package.Name)
	}
	expectTexts(m.t, fmt.Sprint("packages ", name, " by ", order), inOrderOnce(got), inOrderOnce(packages)...)
}

// inOrderOnce has each text once, in order.
func inOrderOnce(texts []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(texts)))
}
