package storetest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

func randomSearch(t *testing.T, f *fixture, seed uint64) {
	t.Helper()
	m := newSearchModel(t, f, seed)
	for step := range searchSteps {
		m.step()
		times := 2
		if f.extent.SomeReads && step < searchSteps-1 {
			times = 1
		}
		for range times {
			m.checkVulnerabilities()
			m.checkAffected(store.AffectedQuery{})
			m.checkAffected(store.AffectedQuery{Suppressed: true})
			m.checkAffected(store.AffectedQuery{Closed: true})
			m.checkAffected(store.AffectedQuery{On: m.begin.Add(time.Duration(m.random.Int64N(int64(m.now.Sub(m.begin)) + 1)))})
			m.checkExposures()
			m.checkPackages()
			m.checkWorkloads()
			m.checkGroups()
			m.checkImages()
			m.checkFixes()
			m.checkSummary()
		}
		m.checkFindings()
		m.checkCompare()
		m.checkFindingsByOwner()
		m.checkSuppressed()
		if t.Failed() {
			t.Fatalf("after step %d", step)
		}
	}
}

func (m *searchModel) checkVulnerabilities() {
	query := store.VulnerabilityQuery{
		Where: m.randomWhere(), Text: m.randomText("cve-2021", "44228", "GHSA", "%_!", "nothing"), MinSeverity: m.randomSeverity(),
		Fixable: m.chance(), KEV: m.chance(), Suppressed: m.random.IntN(2) == 0, Owners: true,
		Sort: []store.VulnerabilitySort{"", store.SortVulnerabilitySeverity, store.SortVulnerabilityEPSS, store.SortVulnerabilityID}[m.random.IntN(4)],
	}
	if m.chance() {
		query.MinEPSS = 0.5
	}
	comparePages(m.t, fmt.Sprintf("vulnerabilities %+v", query), m.vulnerabilities(query), func(page store.Page) ([]store.VulnerabilitySummary, string, int, error) {
		query.Page = page
		got, err := m.ListVulnerabilities(m.t.Context(), store.AllNamespaces(), query)
		return got.Vulnerabilities, got.NextToken, got.Total, err
	})
}

// vulnerabilities is what ListVulnerabilities should return.
func (m *searchModel) vulnerabilities(query store.VulnerabilityQuery) []store.VulnerabilitySummary {
	byID := map[string]*store.VulnerabilitySummary{}
	named := map[string]bool{}
	images, packages := map[string]bool{}, map[string]bool{}
	workloads := map[string]map[store.Workload]bool{}
	for _, f := range m.findings {
		for _, image := range m.images {
			counts := m.counts(image, f) || query.Suppressed && f.closed.IsZero() && image.has(f.fingerprint)
			if !counts || !image.matched || !m.chooses(query.Where, image) {
				continue
			}
			v := f.last().Vulnerability
			s := byID[v.ID]
			if s == nil {
				s = &store.VulnerabilitySummary{ID: v.ID, FirstSeen: f.opened}
				byID[v.ID], workloads[v.ID] = s, map[store.Workload]bool{}
			}
			s.Severity, s.EPSS, s.Risk, s.KEV = max(s.Severity, v.Severity), max(s.EPSS, v.EPSS.Score), max(s.Risk, v.Risk), s.KEV || len(v.KEV) > 0
			s.Fixable = s.Fixable || f.last().Fix.State == model.FixStateFixed
			if f.opened.Before(s.FirstSeen) {
				s.FirstSeen = f.opened
			}
			for _, name := range append([]string{v.ID}, v.Aliases...) {
				named[v.ID] = named[v.ID] || strings.Contains(strings.ToLower(name), strings.ToLower(query.Text))
			}
			once(images, v.ID+image.key.String(), &s.Images)
			once(packages, v.ID+f.fingerprint, &s.Packages)
			maps.Copy(workloads[v.ID], m.workloads(image, query.Where))
			s.Workloads, s.Owners = len(workloads[v.ID]), ownersOf(workloads[v.ID])
		}
	}
	var all []store.VulnerabilitySummary
	for _, s := range byID {
		if named[s.ID] && s.Severity >= query.MinSeverity && s.EPSS >= query.MinEPSS && (s.KEV || !query.KEV) && (s.Fixable || !query.Fixable) {
			all = append(all, *s)
		}
	}
	slices.SortFunc(all, func(a, b store.VulnerabilitySummary) int {
		worse := map[store.VulnerabilitySort]int{
			"": cmp.Compare(b.Risk, a.Risk), store.SortVulnerabilitySeverity: cmp.Compare(b.Severity, a.Severity), store.SortVulnerabilityEPSS: cmp.Compare(b.EPSS, a.EPSS),
		}[query.Sort]
		return cmp.Or(worse, cmp.Compare(a.ID, b.ID))
	})
	return all
}

// once counts a key that was not there before.
func once(seen map[string]bool, key string, count *int) {
	if !seen[key] {
		seen[key] = true
		*count++
	}
}

func (m *searchModel) checkAffected(query store.AffectedQuery) {
	query.Where = m.randomWhere()
	query.ID = []string{"CVE-2021-44228", "cve-2021-44228", "ghsa-JFH8-c2jp-5v3q", "CVE-2021-45046", "CVE-1"}[m.random.IntN(5)]
	want := m.affected(query)
	images, workloads, running := map[model.ImageKey]bool{}, map[store.Workload]bool{}, 0
	for i := range want {
		images[want[i].Image] = true
		for _, w := range want[i].Workloads {
			workloads[w] = true
		}
	}
	running = len(workloads)
	comparePages(m.t, fmt.Sprintf("affected %+v", query), want, func(page store.Page) ([]store.Affected, string, int, error) {
		query.Page = page
		got, err := m.Affected(m.t.Context(), store.AllNamespaces(), query)
		if err == nil && (got.Images != len(images) || got.Workloads != running) {
			err = fmt.Errorf("got %d images and %d workloads, want %d and %d", got.Images, got.Workloads, len(images), running)
		}
		for i := range got.Affected {
			one := &got.Affected[i]
			want, _ := m.decisions.names(one.Image.ImageID, &one.Package, &model.PackageFinding{Vulnerability: m.vulnerability(one), Fix: one.Fix})
			if query.Closed || !query.On.IsZero() {
				want = nil
			}
			if !slices.Equal(decisionNames(one.Decisions), want) {
				err = fmt.Errorf("%s in %s has the decisions %v, want %v", one.VulnerabilityID, one.Package.Name, decisionNames(one.Decisions), want)
			}
			one.Decisions = nil
		}
		return got.Affected, got.NextToken, got.Total, err
	})
}

// vulnerability is the one of an affected package.
func (m *searchModel) vulnerability(one *store.Affected) model.Vulnerability {
	for _, f := range m.findings {
		if v := f.last().Vulnerability; f.closed.IsZero() && f.fingerprint == one.Package.Fingerprint && v.ID == one.VulnerabilityID && v.Namespace == one.Namespace {
			return v
		}
	}
	return model.Vulnerability{}
}

// affected is what Affected should return.
func (m *searchModel) affected(query store.AffectedQuery) []store.Affected {
	var all []store.Affected
	for _, image := range m.images {
		for i, f := range m.findings {
			said := f.last()
			if !query.On.IsZero() {
				said = f.before(query.On.Truncate(24 * time.Hour).Add(24 * time.Hour))
			}
			if said == nil || !image.has(f.fingerprint) || !slices.ContainsFunc(append([]string{said.Vulnerability.ID}, said.Vulnerability.Aliases...),
				func(name string) bool { return strings.EqualFold(name, query.ID) }) {
				continue
			}
			one := store.Affected{
				Image: image.key, Package: m.packageOf(f.fingerprint), VulnerabilityID: said.Vulnerability.ID, Namespace: said.Vulnerability.Namespace,
				Severity: said.Vulnerability.Severity, Fix: said.Fix,
				FirstSeen: f.opened, FixedAt: f.closed, Running: len(m.workloads(image, store.Where{})) > 0,
			}
			if image.seen.After(f.opened) {
				one.FirstSeen = image.seen
			}
			if !query.On.IsZero() {
				if !m.onDay(query, image, f, &one) {
					continue
				}
			} else if !image.matched || !m.chooses(query.Where, image) || query.Closed == f.closed.IsZero() || !query.Closed && !query.Suppressed && !m.counts(image, f) || query.Closed && (!f.closed.After(image.seen) || m.later(i)) {
				continue
			} else {
				workloads := m.workloads(image, query.Where)
				one.Workloads, one.Owners = sorted(workloads), ownersOf(workloads)
			}
			if query.On.IsZero() && !query.Closed {
				_, one.Suppressed = m.decisions.names(image.key.ImageID, &one.Package, said)
			}
			one.WorkloadCount = len(one.Workloads)
			m.expose(image, f, &one)
			all = append(all, one)
		}
	}
	// Findings of the same package and vulnerability are in the order of time already.
	slices.SortStableFunc(all, func(a, b store.Affected) int {
		return cmp.Or(cmp.Compare(a.Image.ImageID, b.Image.ImageID), cmp.Compare(a.Image.Platform.String(), b.Image.Platform.String()),
			cmp.Compare(a.Package.Name, b.Package.Name), cmp.Compare(a.Package.Version, b.Package.Version),
			cmp.Compare(a.Package.Fingerprint, b.Package.Fingerprint), cmp.Compare(a.VulnerabilityID, b.VulnerabilityID), cmp.Compare(a.Namespace, b.Namespace))
	})
	return all
}

// before is what was said last before a time, nil when nothing was.
func (f *searchFinding) before(to time.Time) *model.PackageFinding {
	var last *model.PackageFinding
	for i := range f.said {
		if f.said[i].since.Before(to) {
			last = &f.said[i].PackageFinding
		}
	}
	return last
}

// later says whether the package of a closed finding had the vulnerability again.
func (m *searchModel) later(n int) bool {
	f := m.findings[n]
	return slices.ContainsFunc(m.findings[n+1:], func(other *searchFinding) bool {
		return other.fingerprint == f.fingerprint && other.name() == f.name()
	})
}

// overlap says whether a presence and a finding have a time in common, from a time on and before another one.
func overlap(p *store.Presence, f *searchFinding, from, to time.Time) bool {
	return (p.Until.IsZero() || p.Until.After(from) && p.Until.After(f.opened)) && p.Since.Before(to) && f.opened.Before(to) &&
		(f.closed.IsZero() || f.closed.After(from) && f.closed.After(p.Since))
}

// onDay says whether the image ran on the day with the finding, and notes what ran it.
func (m *searchModel) onDay(query store.AffectedQuery, image *searchImage, f *searchFinding, one *store.Affected) bool {
	from := query.On.Truncate(24 * time.Hour)
	to := from.Add(24 * time.Hour)
	found := false
	workloads := map[store.Workload]bool{}
	for _, p := range m.ran {
		if p.Image != image.key || !m.chosen(query.Where, p.Workload) || !p.Since.Before(to) || !p.Until.IsZero() && !p.Until.After(from) {
			continue
		}
		workloads[m.owned(p.Workload)] = true
		found = found || overlap(p, f, from, to)
	}
	one.Workloads, one.Owners = sorted(workloads), ownersOf(workloads)
	return found
}

// expose notes when something ran the image with the finding.
func (m *searchModel) expose(image *searchImage, f *searchFinding, one *store.Affected) {
	open := false
	for _, p := range m.ran {
		if p.Image != image.key || !overlap(p, f, time.Time{}, m.now.Add(time.Hour)) {
			continue
		}
		since, until := p.Since, p.Until
		if f.opened.After(since) {
			since = f.opened
		}
		if until.IsZero() || !f.closed.IsZero() && f.closed.Before(until) {
			until = f.closed
		}
		if one.ExposedSince.IsZero() || since.Before(one.ExposedSince) {
			one.ExposedSince = since
		}
		if open = open || until.IsZero(); until.After(one.ExposedUntil) {
			one.ExposedUntil = until
		}
	}
	if open {
		one.ExposedUntil = time.Time{}
	}
}

func sorted(workloads map[store.Workload]bool) []store.Workload {
	return slices.SortedFunc(maps.Keys(workloads), func(a, b store.Workload) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
}
