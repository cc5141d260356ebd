package storetest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

func (m *searchModel) checkFixes() {
	query := store.FixQuery{
		Where: m.randomWhere(), Kind: []store.FixKind{"", "", store.FixUpdate, store.FixRebuild, store.FixWait}[m.random.IntN(5)], KEV: m.chance(),
	}
	if m.chance() {
		query.ImageID = m.images[m.random.IntN(len(m.images))].key.ImageID
	}
	comparePages(m.t, fmt.Sprintf("fixes %+v", query), m.fixes(query), func(page store.Page) ([]store.Fix, string, int, error) {
		query.Page = page
		got, err := m.ListFixes(m.t.Context(), store.AllNamespaces(), query)
		return got.Fixes, got.NextToken, got.Total, err
	})
}

// fixes is what ListFixes should return.
func (m *searchModel) fixes(query store.FixQuery) []store.Fix {
	var all []store.Fix
	for _, image := range m.images {
		chosen := len(m.workloads(image, query.Where)) > 0
		if query.ImageID != "" {
			chosen = query.ImageID == image.key.ImageID && m.chooses(query.Where, image)
		}
		if !image.matched || !chosen {
			continue
		}
		for _, fix := range fixesOf(image.key, m.openIn(image)) {
			fix.Workloads = sorted(m.workloads(image, query.Where))
			fix.WorkloadCount, fix.Owners = len(fix.Workloads), ownersOf(m.workloads(image, query.Where))
			if (query.Kind == "" || query.Kind == fix.Kind) && (!query.KEV || fix.Counts.KEV > 0) {
				all = append(all, fix)
			}
		}
	}
	fingerprint := func(fix *store.Fix) string {
		if fix.Kind == store.FixUpdate {
			return fix.Packages[0].Package.Fingerprint
		}
		return ""
	}
	waits := func(fix *store.Fix) int {
		if fix.Kind == store.FixWait {
			return 1
		}
		return 0
	}
	slices.SortFunc(all, func(a, b store.Fix) int {
		return cmp.Or(cmp.Compare(waits(&a), waits(&b)), cmp.Compare(b.Risk, a.Risk), cmp.Compare(fingerprint(&a), fingerprint(&b)),
			cmp.Compare(a.Image.ImageID, b.Image.ImageID), cmp.Compare(a.Image.Platform.String(), b.Image.Platform.String()))
	})
	return all
}

// fixesOf is what can be done about the findings of an image that count, with how many are overdue, in no order.
func fixesOf(image model.ImageKey, findings []model.Finding) []store.Fix {
	byPlace := map[string][]model.Finding{}
	for i := range findings {
		place := fixPlace(&findings[i])
		byPlace[place] = append(byPlace[place], findings[i])
	}
	var all []store.Fix
	for place, findings := range byPlace {
		fix := fixOf(image, findings)
		if fix.Kind = store.FixKind(place); fix.Kind != store.FixRebuild && fix.Kind != store.FixWait {
			fix.Kind = store.FixUpdate
		}
		for i := range fix.Packages {
			if fix.Kind == store.FixWait {
				fix.Packages[i].Versions = nil
			}
			if fix.Kind != store.FixUpdate {
				fix.Packages[i].Vulnerabilities = nil
			}
		}
		all = append(all, fix)
	}
	return all
}

// fixPlace tells apart what one fix is for in an image: the kind, or the fingerprint of a package that is updated.
func fixPlace(f *model.Finding) string {
	switch {
	case f.Fix.State != model.FixStateFixed:
		return string(store.FixWait)
	case f.Package.Type == "deb":
		return string(store.FixRebuild)
	default:
		return f.Package.Fingerprint
	}
}

// fixOf sums up findings of an image.
func fixOf(image model.ImageKey, findings []model.Finding) store.Fix {
	fix := store.Fix{Image: image}
	byPackage := map[string]*store.FixPackage{}
	for i := range findings {
		f := &findings[i]
		one := byPackage[f.Package.Fingerprint]
		if one == nil {
			one = &store.FixPackage{Package: f.Package}
			byPackage[f.Package.Fingerprint] = one
		}
		for _, counts := range []*store.Counts{&fix.Counts, &one.Counts} {
			counts.Add(f.Vulnerability.Severity)
			counts.KEV += min(len(f.Vulnerability.KEV), 1)
			if f.Fix.State == model.FixStateFixed {
				counts.Fixable++
			}
		}
		fix.Risk += f.Vulnerability.Risk
		if f.Deadline != nil && f.Deadline.Overdue {
			fix.Overdue++
		}
		one.Risk += f.Vulnerability.Risk
		if !slices.ContainsFunc(one.Versions, func(list []string) bool { return slices.Equal(list, f.Fix.Versions) }) {
			one.Versions = append(one.Versions, f.Fix.Versions)
		}
	}
	for _, one := range byPackage {
		slices.SortFunc(one.Versions, func(a, b []string) int {
			x, _ := json.Marshal(a)
			y, _ := json.Marshal(b)
			return cmp.Compare(string(x), string(y))
		})
		one.Vulnerabilities = worstOf(findings, one.Package.Fingerprint)
		fix.Packages = append(fix.Packages, *one)
	}
	slices.SortFunc(fix.Packages, func(a, b store.FixPackage) int {
		return cmp.Or(cmp.Compare(b.Risk, a.Risk), cmp.Compare(a.Package.Fingerprint, b.Package.Fingerprint))
	})
	fix.PackageCount = len(fix.Packages)
	fix.Packages = fix.Packages[:min(len(fix.Packages), store.MaxFixPackages)]
	return fix
}

// worstOf lists the vulnerabilities of a package, each once, the worst first.
func worstOf(findings []model.Finding, fingerprint string) []string {
	type rank struct {
		severity model.Severity
		kev      int
		risk     float64
	}
	ranks := map[string]rank{}
	for i := range findings {
		if f := &findings[i]; f.Package.Fingerprint == fingerprint {
			v := &f.Vulnerability
			r := ranks[v.ID]
			ranks[v.ID] = rank{max(r.severity, v.Severity), max(r.kev, min(len(v.KEV), 1)), max(r.risk, v.Risk)}
		}
	}
	ids := slices.Collect(maps.Keys(ranks))
	slices.SortFunc(ids, func(x, y string) int {
		a, b := ranks[x], ranks[y]
		return cmp.Or(cmp.Compare(b.severity, a.severity), cmp.Compare(b.kev, a.kev), cmp.Compare(b.risk, a.risk), cmp.Compare(x, y))
	})
	return ids[:min(len(ids), store.MaxFixVulnerabilities)]
}
