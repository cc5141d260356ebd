package storetest

import (
	"cmp"
	"maps"
	"slices"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// checkSummary compares a summary since a random time.
func (m *searchModel) checkSummary() {
	m.t.Helper()
	query := store.SummaryQuery{
		Ownership: []store.Ownership{{}, {Owner: "red"}, {Owner: "blue"}, {None: true}}[m.random.IntN(4)],
		Since:     m.begin.Add(time.Duration(m.random.Int64N(int64(m.now.Sub(m.begin)) + 1))), Limit: []int{0, 1, store.MaxSummaryRows}[m.random.IntN(3)],
	}
	got, err := m.Summary(m.t.Context(), store.AllNamespaces(), query)
	must(m.t, err)
	if diff := gocmp.Diff(m.summarizes(query), got, searchOptions); diff != "" {
		m.t.Errorf("summary %+v (-want +got):\n%s", query, diff)
	}
}

// summarizes is what Summary should return. Nothing is due and no distribution ends in this model.
func (m *searchModel) summarizes(query store.SummaryQuery) store.Summary {
	var s store.Summary
	where := store.Where{Ownership: query.Ownership}
	workloads, namespaces := map[store.Workload]bool{}, map[string]bool{}
	open := map[string]*summarized{}
	now, before := map[string]*summarized{}, map[string]*summarized{}
	for _, image := range m.images {
		running := m.workloads(image, where)
		if ran := m.ranAt(image, where, query.Since); ran && image.matched {
			for _, f := range m.findings {
				if image.has(f.fingerprint) && !f.opened.After(query.Since) {
					for i := range f.said {
						until := f.closed
						if i+1 < len(f.said) {
							until = f.said[i+1].since
						}
						if until.IsZero() || until.After(query.Since) {
							note(before, &f.said[i].PackageFinding)
						}
					}
				}
			}
		}
		if len(running) == 0 {
			continue
		}
		s.Images++
		for w := range running {
			workloads[w], namespaces[w.Namespace] = true, true
		}
		if !image.matched {
			continue
		}
		s.Scanned++
		for _, f := range m.findings {
			if !f.closed.IsZero() || !image.has(f.fingerprint) {
				continue
			}
			note(now, f.last())
			if !m.counts(image, f) {
				continue
			}
			add(&s.Counts, f.last())
			one := note(open, f.last())
			one.packages[m.packageOf(f.fingerprint).Name] = true
			one.images[image.key] = true
			maps.Copy(one.workloads, running)
		}
	}
	s.Workloads = len(workloads)
	s.Namespaces = slices.Sorted(maps.Keys(namespaces))
	for _, p := range m.ran {
		if m.chosen(where, p.Workload) && (s.KnownSince.IsZero() || p.Since.Before(s.KnownSince)) {
			s.KnownSince = p.Since
		}
	}
	s.Exploited = changedIn(open, func(one *summarized) bool { return one.KEV }, query.Limit)
	s.Opened = changedIn(open, func(one *summarized) bool { return before[one.ID] == nil }, query.Limit)
	for _, one := range before {
		one.Fixable = false // Not known of what was closed.
	}
	s.Closed = changedIn(before, func(one *summarized) bool { return now[one.ID] == nil }, query.Limit)
	return s
}

// ranAt says whether a workload that is chosen ran an image at a time.
func (m *searchModel) ranAt(image *searchImage, where store.Where, at time.Time) bool {
	return slices.ContainsFunc(m.ran, func(p *store.Presence) bool {
		return p.Image == image.key && m.chosen(where, p.Workload) && !p.Since.After(at) && (p.Until.IsZero() || p.Until.After(at))
	})
}

// summarized is a vulnerability of a summary with what has it.
type summarized struct {
	store.ReachedVulnerability
	packages  map[string]bool
	images    map[model.ImageKey]bool
	workloads map[store.Workload]bool
}

// note notes a finding of a vulnerability.
func note(all map[string]*summarized, f *model.PackageFinding) *summarized {
	one := all[f.Vulnerability.ID]
	if one == nil {
		one = &summarized{
			ReachedVulnerability: store.ReachedVulnerability{ID: f.Vulnerability.ID}, packages: map[string]bool{}, images: map[model.ImageKey]bool{}, workloads: map[store.Workload]bool{},
		}
		all[one.ID] = one
	}
	one.Severity = max(one.Severity, f.Vulnerability.Severity)
	one.KEV = one.KEV || len(f.Vulnerability.KEV) > 0
	one.Fixable = one.Fixable || f.Fix.State == model.FixStateFixed
	return one
}

// changedIn counts the vulnerabilities that keep keeps, and lists the worst.
func changedIn(all map[string]*summarized, keep func(*summarized) bool, limit int) store.ChangedVulnerabilities {
	var changed store.ChangedVulnerabilities
	for _, one := range all {
		if !keep(one) {
			continue
		}
		changed.Counts.Add(one.Severity)
		reached := one.ReachedVulnerability
		reached.Packages = slices.Sorted(maps.Keys(one.packages))
		reached.PackageCount, reached.Images, reached.Workloads = len(one.packages), len(one.images), len(one.workloads)
		changed.Worst = append(changed.Worst, reached)
	}
	slices.SortFunc(changed.Worst, func(a, b store.ReachedVulnerability) int {
		exploited := map[bool]int{true: 0, false: 1}
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(exploited[a.KEV], exploited[b.KEV]), cmp.Compare(a.ID, b.ID))
	})
	changed.Worst = changed.Worst[:min(len(changed.Worst), limit)]
	return changed
}
