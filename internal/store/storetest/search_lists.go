package storetest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// add counts a finding.
func add(counts *store.Counts, f *model.PackageFinding) {
	counts.Add(f.Vulnerability.Severity)
	if len(f.Vulnerability.KEV) > 0 {
		counts.KEV++
	}
	if f.Fix.State == model.FixStateFixed {
		counts.Fixable++
	}
}

// worse says whether there is a finding of this severity or worse.
func worse(counts store.Counts, least model.Severity) bool {
	c := counts.SeverityCounts
	return []int{c.Total(), c.Total() - c.Unknown, c.Critical + c.High + c.Medium + c.Low, c.Critical + c.High + c.Medium, c.Critical + c.High, c.Critical}[least] > 0
}

// compareWorst puts more critical findings first, then more high ones, and so on.
func compareWorst(a, b store.Counts) int {
	return cmp.Or(cmp.Compare(b.Critical, a.Critical), cmp.Compare(b.High, a.High), cmp.Compare(b.Medium, a.Medium), cmp.Compare(b.Low, a.Low))
}

func (m *searchModel) checkPackages() {
	query := store.PackageQuery{
		Where: m.randomWhere(), Name: m.randomText("log4j-core", "Log4J_api", "log4j"), Text: m.randomText("LOG", "_", "core"),
		Type: m.randomText("deb", "java-archive", "npm"), ImageID: m.randomText(modelImageID(0), modelImageID(1), "x"),
		MinSeverity: m.randomSeverity(), Vulnerable: m.chance(), Owners: true, Sort: []store.PackageSort{"", store.SortPackageSeverity}[m.random.IntN(2)],
	}
	query.AnyCase = m.chance()
	if query.AnyCase {
		query.Name = strings.ToUpper(query.Name)
	}
	calls := map[string]int{}
	if query.Name != "" && m.random.IntN(2) == 0 {
		query.VersionText = "<2"
		query.Version = func(packageType, version string) bool {
			calls[packageType+version]++
			return strings.HasPrefix(version, "1")
		}
	}
	comparePages(m.t, fmt.Sprintf("packages %+v", query), m.listedPackages(query), func(page store.Page) ([]store.PackageSummary, string, int, error) {
		query.Page = page
		clear(calls)
		got, err := m.ListPackages(m.t.Context(), store.AllNamespaces(), query)
		for version, n := range calls {
			if n != 1 {
				err = fmt.Errorf("the version %s was asked about %d times", version, n)
			}
		}
		return got.Packages, got.NextToken, got.Total, err
	})
}

// listedPackages is what ListPackages should return.
func (m *searchModel) listedPackages(query store.PackageQuery) []store.PackageSummary {
	var all []store.PackageSummary
	for _, p := range m.packages {
		one := store.PackageSummary{Package: p}
		counted := map[*searchFinding]bool{}
		workloads := map[store.Workload]bool{}
		for _, image := range m.images {
			if _, held := image.held[p.Fingerprint]; !held || !m.chooses(query.Where, image) || query.ImageID != "" && query.ImageID != image.key.ImageID {
				continue
			}
			for _, f := range m.findings {
				if f.fingerprint == p.Fingerprint && m.counts(image, f) && !counted[f] {
					counted[f] = true
					add(&one.Counts, f.last())
				}
			}
			one.Images++
			one.ImageIDs = append(one.ImageIDs, image.key.ImageID)
			maps.Copy(workloads, m.workloads(image, query.Where))
		}
		slices.Sort(one.ImageIDs)
		one.ImageIDs, one.Workloads, one.Owners = slices.Compact(one.ImageIDs), len(workloads), ownersOf(workloads)
		if one.Images > 0 && keeps(query, &one) {
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b store.PackageSummary) int {
		if query.Sort == store.SortPackageSeverity {
			return cmp.Or(compareWorst(a.Counts, b.Counts), cmp.Compare(a.Package.Fingerprint, b.Package.Fingerprint))
		}
		return cmp.Or(cmp.Compare(a.Package.Name, b.Package.Name), cmp.Compare(a.Package.Version, b.Package.Version),
			cmp.Compare(a.Package.Type, b.Package.Type), cmp.Compare(a.Package.Fingerprint, b.Package.Fingerprint))
	})
	return all
}

func keeps(query store.PackageQuery, one *store.PackageSummary) bool {
	p := &one.Package
	return (query.Name == "" || query.Name == p.Name || query.AnyCase && strings.EqualFold(query.Name, p.Name)) && strings.Contains(strings.ToLower(p.Name), strings.ToLower(query.Text)) &&
		(query.Type == "" || query.Type == p.Type) && (query.Version == nil || strings.HasPrefix(p.Version, "1")) &&
		(!query.Vulnerable || one.Counts.Total() > 0) && (query.MinSeverity == model.SeverityUnknown || worse(one.Counts, query.MinSeverity))
}

func (m *searchModel) checkWorkloads() {
	query := store.WorkloadQuery{
		Where: m.randomWhere(), Text: m.randomText("WEB", "_", "x"), MinSeverity: m.randomSeverity(), KEV: m.chance(), Fixable: m.chance(),
		Sort: []store.WorkloadSort{"", store.SortWorkloadSeverity}[m.random.IntN(2)],
	}
	comparePages(m.t, fmt.Sprintf("workloads %+v", query), m.listedWorkloads(query), func(page store.Page) ([]store.WorkloadSummary, string, int, error) {
		query.Page = page
		got, err := m.ListWorkloads(m.t.Context(), store.AllNamespaces(), query)
		return got.Workloads, got.NextToken, got.Total, err
	})
}

// listedWorkloads is what ListWorkloads should return.
func (m *searchModel) listedWorkloads(query store.WorkloadQuery) []store.WorkloadSummary {
	byName := map[store.Workload]*store.WorkloadSummary{}
	images, containers := map[string]bool{}, map[string]bool{}
	for use := range m.running() {
		w := byName[use.Workload]
		if w == nil {
			w = &store.WorkloadSummary{Workload: m.owned(use.Workload)}
			byName[use.Workload] = w
		}
		once(containers, fmt.Sprint(use.Workload, use.Container), &w.Containers)
		for _, p := range m.ran {
			if p.Image == use.Image && p.Workload == use.Workload && (w.Since.IsZero() || p.Since.Before(w.Since)) {
				w.Since = p.Since
			}
		}
		if key := fmt.Sprint(use.Workload, use.Image); images[key] {
			continue
		}
		once(images, fmt.Sprint(use.Workload, use.Image), &w.ImageCount)
		w.Images = append(w.Images, use.Image)
		image := m.images[slices.IndexFunc(m.images, func(i *searchImage) bool { return i.key == use.Image })]
		if !image.matched {
			continue
		}
		w.Scanned++
		for _, f := range m.findings {
			if m.counts(image, f) {
				add(&w.Counts, f.last())
			}
		}
	}
	var all []store.WorkloadSummary
	for _, w := range byName {
		slices.SortFunc(w.Images, func(a, b model.ImageKey) int {
			return cmp.Or(cmp.Compare(a.ImageID, b.ImageID), cmp.Compare(a.Platform.String(), b.Platform.String()))
		})
		if m.chosen(query.Where, unowned(w.Workload)) && strings.Contains(strings.ToLower(w.Workload.Name), strings.ToLower(query.Text)) &&
			(query.MinSeverity == model.SeverityUnknown || worse(w.Counts, query.MinSeverity)) && (!query.KEV || w.Counts.KEV > 0) &&
			(!query.Fixable || w.Counts.Fixable > 0) {
			all = append(all, *w)
		}
	}
	slices.SortFunc(all, func(a, b store.WorkloadSummary) int {
		x, y := a.Workload, b.Workload
		if query.Sort == store.SortWorkloadSeverity {
			return cmp.Or(compareWorst(a.Counts, b.Counts), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Name, y.Name))
		}
		return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Kind, y.Kind))
	})
	return all
}

// checkImages compares which images a filter keeps.
func (m *searchModel) checkImages() {
	query := store.ImageQuery{Where: m.randomWhere(), Fixable: m.chance(), KEV: m.chance(), MinSeverity: m.randomSeverity()}
	if m.chance() {
		query.MinEPSS = 0.25
	}
	var want []string
	for _, image := range m.images {
		var counts store.Counts
		likely := query.MinEPSS == 0
		for _, f := range m.findings {
			if image.matched && m.counts(image, f) {
				add(&counts, f.last())
				likely = likely || f.last().Vulnerability.EPSS.Score >= query.MinEPSS
			}
		}
		if likely && m.chooses(query.Where, image) && (!query.Fixable || counts.Fixable > 0) && (!query.KEV || counts.KEV > 0) &&
			(query.MinSeverity == model.SeverityUnknown || worse(counts, query.MinSeverity)) {
			want = append(want, image.key.String())
		}
	}
	slices.Sort(want)
	comparePages(m.t, fmt.Sprintf("images %+v", query), want, func(page store.Page) ([]string, string, int, error) {
		query.Page = page
		got, err := m.ListImages(m.t.Context(), store.AllNamespaces(), query)
		var keys []string
		for i := range got.Images {
			keys = append(keys, got.Images[i].Key.String())
		}
		return keys, got.NextToken, got.Total, err
	})
}

// checkFindings compares the open and the closed findings of each image.
func (m *searchModel) checkFindings() {
	for _, image := range m.images {
		for _, closed := range []bool{false, true} {
			query := store.FindingQuery{Image: image.key, Closed: closed, Suppressed: m.chance(), Described: true, Sort: store.SortFindingEPSS}
			if m.chance() {
				query.MinEPSS = 0.5
			}
			comparePages(m.t, fmt.Sprintf("findings %+v", query), m.listedFindings(image, query), func(page store.Page) ([]model.Finding, string, int, error) {
				query.Page = page
				got, err := m.Findings(m.t.Context(), store.AllNamespaces(), query)
				for i := range got.Findings {
					got.Findings[i].Decisions = nil // The other model compares them.
				}
				if owners := ownersOf(m.workloads(image, store.Where{})); image.matched && !slices.Equal(got.Owners, owners) {
					m.t.Errorf("findings of %s have the owners %v, want %v", image.key, got.Owners, owners)
				}
				return got.Findings, got.NextToken, got.Total, err
			})
		}
	}
}

// listedFindings is what Findings should return.
func (m *searchModel) listedFindings(image *searchImage, query store.FindingQuery) []model.Finding {
	var all []model.Finding
	for i, f := range m.findings {
		one := model.Finding{PackageFinding: *f.last(), Package: m.packageOf(f.fingerprint), FirstSeen: f.opened, FixedAt: f.closed}
		if image.seen.After(f.opened) {
			one.FirstSeen = image.seen
		}
		if !query.Closed {
			_, one.Suppressed = m.decisions.names(image.key.ImageID, &one.Package, &one.PackageFinding)
		}
		if image.matched && image.has(f.fingerprint) && query.Closed != f.closed.IsZero() && (query.Closed || query.Suppressed || !one.Suppressed) && (!query.Closed || f.closed.After(image.seen) && !m.later(i)) && one.Vulnerability.EPSS.Score >= query.MinEPSS {
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b model.Finding) int {
		x, y := &a.Vulnerability, &b.Vulnerability
		return cmp.Or(cmp.Compare(y.EPSS.Score, x.EPSS.Score), cmp.Compare(x.ID, y.ID), cmp.Compare(x.Namespace, y.Namespace),
			cmp.Compare(a.Package.Fingerprint, b.Package.Fingerprint))
	})
	return all
}
