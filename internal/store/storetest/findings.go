package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

var findingTests = map[string]func(*testing.T, *fixture){
	"A match": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		catalog := catalogOf("p", "q", "excluded")
		catalog.Packages[2].Excluded = true
		f.catalog(t, key, "1", catalog)
		if page := f.findings(t, store.FindingQuery{Image: key}); page.Total != 0 || len(page.Findings) != 0 {
			t.Errorf("before the match: %+v", page)
		}
		f.start(t, oldBuild)
		last := f.last(t)
		exploited := finding("CVE-1", model.SeverityCritical, "1.1", "1.2")
		exploited.Vulnerability.KEV = []model.KnownExploited{{CVE: "CVE-1", DateAdded: "2026-01-01"}}
		exploited.Vulnerability.CWEs, exploited.Vulnerability.CVEs = []string{"CWE-79"}, []string{"CVE-1"}
		f.match(t, key, "1", answers{
			"p": {exploited, finding("CVE-2", model.SeverityLow, "3")}, "q": {finding("CVE-2", model.SeverityLow)},
		})
		i := f.image(t, key)
		want := store.Counts{SeverityCounts: model.SeverityCounts{Critical: 1, Low: 2}, KEV: 1, Fixable: 2}
		if i.State != store.StateScanned || i.Counts != want || i.MatchedAt.IsZero() {
			t.Errorf("got %+v", i)
		}
		if diff := cmp.Diff(&oldBuild, i.Database); diff != "" {
			t.Error(diff)
		}
		page := f.findings(t, store.FindingQuery{Image: key})
		if got, want := names(page), []string{"CVE-1 p", "CVE-2 p", "CVE-2 q"}; !slices.Equal(got, want) || page.Total != 3 {
			t.Fatalf("got %v, total %d, want %v", got, page.Total, want)
		}
		wantFinding := model.Finding{PackageFinding: exploited, Package: pkg("p"), Locations: catalog.Packages[0].Locations, FirstSeen: page.Findings[0].FirstSeen}
		if wantFinding.FirstSeen.Before(i.FirstSeen) || wantFinding.FirstSeen.After(time.Now()) {
			t.Errorf("first seen at %v", wantFinding.FirstSeen)
		}
		if diff := cmp.Diff(wantFinding, page.Findings[0]); diff != "" {
			t.Error(diff)
		}
		events := f.events(t, last)
		if len(events) != 1 || events[0].Kind != store.EventImageMatched || !strings.Contains(string(events[0].Data), `"critical":1`) ||
			!strings.Contains(string(events[0].Data), oldBuild.ID) {
			t.Errorf("got %+v", events)
		}
	},
	"Findings differ per package": func(t *testing.T, f *fixture) {
		// The same vulnerability with another content and another fix for another package.
		key := image("a", amd64)
		f.catalog(t, key, "1", catalogOf("p", "q", "r"))
		other := finding("CVE-1", model.SeverityHigh, "9")
		other.Vulnerability.Description = "another text"
		f.match(t, key, "1", answers{
			"p": {finding("CVE-1", model.SeverityLow, "1"), other}, "q": {finding("CVE-1", model.SeverityLow, "2")},
			"r": {finding("CVE-1", model.SeverityLow, "1"), finding("CVE-1", model.SeverityLow, "1")},
		})
		var got []string
		for size := 1; size <= 4; size++ {
			got = nil
			for _, found := range f.walkFindings(t, store.FindingQuery{Image: key, Sort: store.SortFindingPackage, Page: store.Page{Size: size}}).Findings {
				got = append(got, fmt.Sprint(found.Package.Name, found.Vulnerability.Severity, found.Vulnerability.Description, found.Fix.Versions))
			}
			slices.Sort(got)
			want := []string{"pHighanother text[9]", "pLowwhat CVE-1 is[1]", "qLowwhat CVE-1 is[2]", "rLowwhat CVE-1 is[1]"}
			if !slices.Equal(got, want) {
				t.Errorf("size %d: got %q, want %q", size, got, want)
			}
		}
		if counts := f.image(t, key).Counts; counts.Low != 3 || counts.High != 1 || counts.Fixable != 4 {
			t.Errorf("got %+v", counts)
		}
	},
	"Images share packages": func(t *testing.T, f *fixture) {
		a, b := image("a", amd64), image("bb", amd64)
		f.catalog(t, a, "1", catalogOf("p", "q"))
		excluding := catalogOf("q", "r")
		excluding.Packages[0].Excluded = true
		f.catalog(t, b, "2", excluding)
		f.match(t, a, "1", answers{"p": {finding("CVE-1", model.SeverityLow)}, "q": {finding("CVE-2", model.SeverityHigh)}})
		if got := f.found(t, b); len(got) != 0 {
			t.Errorf("before its own match: got %v", got)
		}
		f.match(t, b, "2", answers{"r": {finding("CVE-2", model.SeverityHigh)}})
		if got := f.found(t, b); !slices.Equal(got, []string{"CVE-2 r"}) {
			t.Errorf("got %v", got)
		}
		if got := f.found(t, a); !slices.Equal(got, []string{"CVE-1 p", "CVE-2 q"}) {
			t.Errorf("got %v", got)
		}
	},
	"Findings": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		if _, err := f.Findings(t.Context(), store.AllNamespaces(), store.FindingQuery{Image: key}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("an unknown image: %v", err)
		}
		kev := finding("CVE-10", model.SeverityLow)
		kev.Vulnerability.KEV, kev.Vulnerability.Risk = []model.KnownExploited{{CVE: "CVE-10"}}, 99.9
		other := finding("CVE-20", model.SeverityHigh)
		other.Vulnerability.Namespace = "github:language:go"
		packages := answers{
			"p%": {kev, finding("CVE-20", model.SeverityHigh, "2"), other}, "P_": {finding("CVE-20", model.SeverityHigh)}, "q": {finding("CVE-30", model.SeverityMedium, "3")},
		}
		f.catalog(t, key, "1", catalogOf("p%", "P_", "q"))
		f.match(t, key, "1", packages)
		for sort, want := range map[store.FindingSort][]string{
			"":                        {"CVE-10 p%", "CVE-20 P_", "CVE-20 p%", "CVE-20 p%", "CVE-30 q"},
			store.SortFindingRisk:     {"CVE-10 p%", "CVE-20 P_", "CVE-20 p%", "CVE-20 p%", "CVE-30 q"},
			store.SortFindingSeverity: {"CVE-20 P_", "CVE-20 p%", "CVE-20 p%", "CVE-30 q", "CVE-10 p%"},
			store.SortFindingPackage:  {"CVE-20 P_", "CVE-10 p%", "CVE-20 p%", "CVE-20 p%", "CVE-30 q"},
		} {
			for size := 1; size <= 6; size++ {
				if got := names(f.walkFindings(t, store.FindingQuery{Image: key, Sort: sort, Page: store.Page{Size: size}})); !slices.Equal(got, want) {
					t.Errorf("%s, size %d: got %v, want %v", sort, size, got, want)
				}
			}
		}
		for name, c := range map[string]struct {
			query store.FindingQuery
			want  int
		}{
			"severity":  {store.FindingQuery{MinSeverity: model.SeverityHigh}, 3},
			"fixable":   {store.FindingQuery{Fixable: true}, 2},
			"kev":       {store.FindingQuery{KEV: true}, 1},
			"ID":        {store.FindingQuery{Text: "cve-2"}, 3},
			"package":   {store.FindingQuery{Text: "Q"}, 1},
			"percent":   {store.FindingQuery{Text: "%"}, 3},
			"underline": {store.FindingQuery{Text: "_"}, 1},
			"all":       {store.FindingQuery{Text: "p", MinSeverity: model.SeverityHigh, Fixable: true}, 1},
			"none":      {store.FindingQuery{Text: "nothing"}, 0},
		} {
			c.query.Image = key
			if page := f.findings(t, c.query); page.Total != c.want || len(page.Findings) != c.want {
				t.Errorf("%s: got %d of %d, want %d", name, len(page.Findings), page.Total, c.want)
			}
		}
		if _, err := f.Findings(t.Context(), store.AllNamespaces(), store.FindingQuery{Image: key, Sort: "age"}); err == nil {
			t.Error("an unknown order is no error")
		}
	},
	"An image with 2000 findings": func(t *testing.T, f *fixture) {
		key, catalog, r := LargeImage(700, 2000)
		f.catalog(t, key, "1", catalog)
		f.match(t, key, "1", r)
		if i := f.image(t, key); i.Counts.Total() != 2000 || i.PackageCount != 700 {
			t.Errorf("got %+v", i.Counts)
		}
		for _, sort := range []store.FindingSort{store.SortFindingRisk, store.SortFindingSeverity, store.SortFindingPackage} {
			page := f.walkFindings(t, store.FindingQuery{Image: key, Sort: sort, Page: store.Page{Size: 333}})
			got := names(page)
			slices.Sort(got)
			if len(got) != 2000 || len(slices.Compact(got)) != 2000 {
				t.Errorf("%s: got %d findings", sort, len(got))
			}
		}
	},
}

// walkFindings puts all pages of findings into one.
func (f *fixture) walkFindings(t *testing.T, query store.FindingQuery) store.FindingPage {
	t.Helper()
	var all store.FindingPage
	for {
		page := f.findings(t, query)
		all.Findings = append(all.Findings, page.Findings...)
		if page.NextToken == "" {
			if page.Total != len(all.Findings) {
				t.Errorf("the total is %d, but there are %d findings", page.Total, len(all.Findings))
			}
			return all
		}
		query.Token = page.NextToken
	}
}

// LargeImage makes an image with that many packages and findings, for tests and benchmarks.
func LargeImage(packages, findings int) (model.ImageKey, model.Catalog, map[string][]model.PackageFinding) {
	all := make([]string, packages)
	for i := range all {
		all[i] = fmt.Sprintf("package-%05d", i)
	}
	matches := make(map[string][]model.PackageFinding, packages)
	for i := range findings {
		one := finding(fmt.Sprintf("CVE-2026-%05d", i), model.Severity(i%6))
		one.Vulnerability.Description = strings.Repeat("A long description. ", 50)
		name := all[i%packages]
		matches[name] = append(matches[name], one)
	}
	return image("large", amd64), catalogOf(all...), matches
}
