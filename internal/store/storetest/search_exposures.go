package storetest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// exposed is a time in which a container ran an image with a finding. Both ends are zero while it goes on.
type exposed struct {
	*store.Presence
	pkg        string
	opened     time.Time
	closed     time.Time
	suppressed bool
}

// at says whether the container runs the image with the finding at a time.
func (e *exposed) at(t time.Time) bool {
	return !t.Before(e.Since) && !t.Before(e.opened) && (e.Until.IsZero() || t.Before(e.Until)) && (e.closed.IsZero() || t.Before(e.closed))
}

// checkExposures compares exposures with what follows from looking at each time at which something changed.
func (m *searchModel) checkExposures() {
	query := store.ExposureQuery{Where: m.randomWhere(), ID: []string{"CVE-2021-44228", "cve-2021-44228", "ghsa-JFH8-c2jp-5v3q", "CVE-2021-45046", "CVE-1"}[m.random.IntN(5)]}
	times := map[time.Time]bool{m.now: true}
	workloads := map[store.Workload][]*exposed{}
	for _, p := range m.ran {
		if !m.chosen(query.Where, p.Workload) {
			continue
		}
		image := m.images[slices.IndexFunc(m.images, func(i *searchImage) bool { return i.key == p.Image })]
		times[p.Since], times[p.Until] = true, true
		for _, f := range m.findings {
			one := &exposed{Presence: p, pkg: m.packageOf(f.fingerprint).Name, opened: f.opened}
			named := false
			for i, said := range f.said {
				if slices.ContainsFunc(append([]string{said.Vulnerability.ID}, said.Vulnerability.Aliases...), func(name string) bool { return strings.EqualFold(name, query.ID) }) {
					named, one.closed = true, f.closed
					if i+1 < len(f.said) {
						one.closed = f.said[i+1].since
					}
				}
			}
			if !named || !image.matched || !image.has(f.fingerprint) {
				continue
			}
			times[one.opened], times[one.closed] = true, true
			pkg := m.packageOf(f.fingerprint)
			_, one.suppressed = m.decisions.names(image.key.ImageID, &pkg, f.last())
			w := m.owned(p.Workload)
			workloads[w] = append(workloads[w], one)
		}
	}
	delete(times, time.Time{})
	var want []store.WorkloadExposures
	for w, all := range workloads {
		if one := m.exposures(w, all, slices.SortedFunc(maps.Keys(times), time.Time.Compare)); one.ExposureCount > 0 {
			want = append(want, one)
		}
	}
	slices.SortFunc(want, func(a, b store.WorkloadExposures) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Workload.Namespace, b.Workload.Namespace), cmp.Compare(a.Workload.Name, b.Workload.Name))
	})
	comparePages(m.t, fmt.Sprintf("exposures %+v", query), want, func(page store.Page) ([]store.WorkloadExposures, string, int, error) {
		query.Page = page
		got, err := m.Exposures(m.t.Context(), store.AllNamespaces(), query)
		return got.Workloads, got.NextToken, got.Total, err
	})
}

// continues says whether what begins at a time belongs to the last exposure before it: soon after it, if no database ended it, and no container that had the
// vulnerability until then ran in between.
func (m *searchModel) continues(w store.Workload, all []*exposed, before []store.Exposure, t time.Time) bool {
	if len(before) == 0 {
		return false
	}
	last := before[len(before)-1]
	return last.End != store.ExposureEndDatabase && !t.After(last.Until.Add(store.PresenceGap)) && !slices.ContainsFunc(m.ran, func(p *store.Presence) bool {
		had := slices.ContainsFunc(all, func(e *exposed) bool {
			return e.Container == p.Container && (e.at(e.Since) || e.at(e.opened)) && !e.Since.After(t) && !e.opened.After(t)
		})
		return had && m.owned(p.Workload) == w && p.Since.Before(t) && (p.Until.IsZero() || p.Until.After(last.Until))
	})
}

// exposures is what Exposures should return of a workload, of which nothing changed but at some times.
func (m *searchModel) exposures(w store.Workload, all []*exposed, times []time.Time) store.WorkloadExposures {
	out := store.WorkloadExposures{Workload: w}
	images, packages := map[model.ImageKey]bool{}, map[string]bool{}
	before := false
	for _, t := range times {
		now, suppressed := false, true
		for _, one := range all {
			if one.at(t) {
				now, suppressed = true, suppressed && one.suppressed
				images[one.Image], packages[one.pkg] = true, true
			}
		}
		switch {
		case now && !before && m.continues(w, all, out.Exposures, t):
			last := &out.Exposures[len(out.Exposures)-1]
			last.Until, last.End = time.Time{}, ""
		case now && !before:
			if out.ExposureCount++; out.ExposureCount == 1 {
				out.Since = t
			}
			out.Exposures = append(out.Exposures, store.Exposure{Since: t})
		case before && !now:
			last := &out.Exposures[len(out.Exposures)-1]
			last.Until, last.End = t, store.ExposureEndWorkload
			if slices.ContainsFunc(m.ran, func(p *store.Presence) bool {
				return m.owned(p.Workload) == w && !p.Since.After(t.Add(store.PresenceGap)) && (p.Until.IsZero() || p.Until.After(t))
			}) {
				last.End = store.ExposureEndImage
			}
			if slices.ContainsFunc(all, func(e *exposed) bool {
				return e.closed.Equal(t) && e.Since.Before(t) && (e.Until.IsZero() || !e.Until.Before(t))
			}) {
				last.End = store.ExposureEndDatabase
			}
		}
		before = now
		out.Suppressed = now && suppressed
	}
	for image := range images {
		out.Images = append(out.Images, image)
	}
	slices.SortFunc(out.Images, func(a, b model.ImageKey) int {
		return cmp.Or(cmp.Compare(a.ImageID, b.ImageID), cmp.Compare(a.Platform.String(), b.Platform.String()))
	})
	out.Packages = slices.Sorted(maps.Keys(packages))
	out.ImageCount, out.PackageCount = len(out.Images), len(out.Packages)
	return out
}
