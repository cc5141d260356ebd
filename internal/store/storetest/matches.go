package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

var matchTests = map[string]func(*testing.T, *fixture){
	"SaveMatch": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		if err := f.SaveMatch(t.Context(), key, "1", oldBuild, result(nil)); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("an unknown image: %v", err)
		}
		f.want(t, key)
		for _, digest := range []string{"", "1"} {
			if err := f.SaveMatch(t.Context(), key, digest, oldBuild, result(nil)); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("an image without SBOM: %v", err)
			}
		}
		catalog := catalogOf("p", "q", "excluded")
		catalog.Packages[2].Excluded = true
		f.catalogue(t, key, "1", catalog)
		if err := f.SaveMatch(t.Context(), key, "2", oldBuild, result(nil)); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("another SBOM: %v", err)
		}
		if page := f.findings(t, store.FindingQuery{Image: key}); page.Total != 0 || len(page.Findings) != 0 {
			t.Errorf("before the match: %+v", page)
		}
		last := f.last(t)
		exploited := finding("CVE-1", vuln.SeverityCritical, "1.1", "1.2")
		exploited.Vulnerability.KEV = []vuln.KnownExploited{{CVE: "CVE-1", DateAdded: "2026-01-01"}}
		r := result(map[string][]vuln.PackageFinding{
			"p": {exploited, finding("CVE-2", vuln.SeverityLow, "3")}, "q": {finding("CVE-2", vuln.SeverityLow), finding("CVE-3", vuln.SeverityMedium)},
			"excluded": {finding("CVE-4", vuln.SeverityHigh)},
		})
		r.Exclusions = []vuln.Exclusion{{Fingerprint: pkg("q").Fingerprint, VulnerabilityID: "CVE-3", Namespace: "debian:distro:debian:12"}}
		f.match(t, key, "1", oldBuild, r)
		i := f.image(t, key)
		want := store.Counts{SeverityCounts: vuln.SeverityCounts{Critical: 1, Low: 2}, KEV: 1, Fixable: 2}
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
		wantFinding := vuln.Finding{PackageFinding: exploited, Package: pkg("p"), Locations: catalog.Packages[0].Locations}
		if diff := cmp.Diff(wantFinding, page.Findings[0]); diff != "" {
			t.Error(diff)
		}
		events := f.events(t, last)
		if len(events) != 1 || events[0].Kind != store.EventImageMatched || !strings.Contains(string(events[0].Data), `"critical":1`) {
			t.Errorf("got %+v", events)
		}
		// Saving it again changes nothing that can be seen.
		f.match(t, key, "1", oldBuild, r)
		if got := f.found(t, key); len(got) != 3 || f.image(t, key).Counts != want {
			t.Errorf("again: got %v", got)
		}
		// Exclusions are those of the last match.
		r.Exclusions = nil
		f.match(t, key, "1", oldBuild, r)
		if got := f.found(t, key); len(got) != 4 || f.image(t, key).Counts.Medium != 1 {
			t.Errorf("without exclusions: got %v", got)
		}
	},
	"SaveMatch refuses": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		f.catalogue(t, key, "1", catalogOf("p"))
		long := strings.Repeat("x", 300)
		exclusion := result(nil)
		exclusion.Exclusions = []vuln.Exclusion{{Fingerprint: "nowhere", VulnerabilityID: "CVE-1", Namespace: "n"}}
		for name, r := range map[string]vuln.MatchResult{
			"foreign package":   result(map[string][]vuln.PackageFinding{"other": nil}),
			"foreign exclusion": exclusion,
			"no ID":             result(map[string][]vuln.PackageFinding{"p": {finding("", vuln.SeverityLow)}}),
			"long ID":           result(map[string][]vuln.PackageFinding{"p": {finding(long, vuln.SeverityLow)}}),
			"bad ID":            result(map[string][]vuln.PackageFinding{"p": {finding("\xff", vuln.SeverityLow)}}),
		} {
			if err := f.SaveMatch(t.Context(), key, "1", oldBuild, r); err == nil {
				t.Errorf("%s: no error", name)
			}
		}
		for _, id := range []string{"", long} {
			if err := f.SaveMatch(t.Context(), key, "1", vuln.DatabaseBuild{ID: id}, result(nil)); err == nil {
				t.Error("a bad build is no error")
			}
		}
		if i := f.image(t, key); i.State != store.StateCatalogued || i.Database != nil {
			t.Errorf("a refused match left %+v", i)
		}
		if databases, err := f.Databases(t.Context()); err != nil || len(databases) != 0 {
			t.Errorf("a refused match left %+v, %v", databases, err)
		}
	},
	"Images share packages": func(t *testing.T, f *fixture) {
		a, b := image("a", amd64), image("bb", amd64)
		f.catalogue(t, a, "1", catalogOf("p", "q"))
		f.catalogue(t, b, "2", catalogOf("q", "r"))
		f.match(t, a, "1", oldBuild, result(map[string][]vuln.PackageFinding{"p": {finding("CVE-1", vuln.SeverityLow)}, "q": {finding("CVE-2", vuln.SeverityHigh)}}))
		if got := f.found(t, b); len(got) != 0 {
			t.Errorf("before its own match: got %v", got)
		}
		rb := result(map[string][]vuln.PackageFinding{"q": {finding("CVE-2", vuln.SeverityHigh)}, "r": {finding("CVE-2", vuln.SeverityHigh)}})
		rb.Exclusions = []vuln.Exclusion{{Fingerprint: pkg("q").Fingerprint, VulnerabilityID: "CVE-2", Namespace: "debian:distro:debian:12"}}
		f.match(t, b, "2", oldBuild, rb)
		if got := f.found(t, b); !slices.Equal(got, []string{"CVE-2 r"}) {
			t.Errorf("got %v", got)
		}
		if got := f.found(t, a); !slices.Equal(got, []string{"CVE-1 p", "CVE-2 q"}) {
			t.Errorf("got %v", got)
		}
	},
	"A new build": func(t *testing.T, f *fixture) {
		a, b := image("a", amd64), image("bb", amd64)
		for _, key := range []vuln.ImageKey{a, b} {
			f.catalogue(t, key, "1", catalogOf("p", "q"))
			f.match(t, key, "1", oldBuild, result(map[string][]vuln.PackageFinding{"p": {finding("CVE-1", vuln.SeverityLow)}, "q": nil}))
		}
		f.match(t, a, "1", newBuild, result(map[string][]vuln.PackageFinding{"p": nil, "q": {finding("CVE-1", vuln.SeverityHigh), finding("CVE-3", vuln.SeverityLow)}}))
		if got := f.found(t, a); !slices.Equal(got, []string{"CVE-1 q", "CVE-3 q"}) || f.image(t, a).Database.ID != newBuild.ID {
			t.Errorf("new: got %v", got)
		}
		if got := f.found(t, b); !slices.Equal(got, []string{"CVE-1 p"}) || f.image(t, b).Database.ID != oldBuild.ID {
			t.Errorf("the other is still old: got %v", got)
		}
		if got := f.image(t, a).Counts; got.High != 1 || got.Low != 1 {
			t.Errorf("counts: got %+v", got)
		}
	},
	"RecordMatchFailure": func(t *testing.T, f *fixture) {
		key, outcome := image("a", amd64), vuln.Outcome{Reason: vuln.ReasonMatchFailed, Message: strings.Repeat("é", 1000)}
		if err := f.RecordMatchFailure(t.Context(), key, outcome); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("an unknown image: %v", err)
		}
		f.catalogue(t, key, "1", catalogOf("p"))
		last := f.last(t)
		for range 2 {
			if err := f.RecordMatchFailure(t.Context(), key, outcome); err != nil {
				t.Fatal(err)
			}
		}
		expectKinds(t, f.kinds(t, last), store.EventImageFailed)
		if i := f.image(t, key); i.State != store.StateCatalogued || i.Reason != vuln.ReasonMatchFailed || len(i.Message) != 1024 {
			t.Errorf("got %+v", i.ImageState)
		}
		f.match(t, key, "1", oldBuild, result(map[string][]vuln.PackageFinding{"p": {finding("CVE-1", vuln.SeverityLow)}}))
		if i := f.image(t, key); i.Reason != "" || i.Message != "" {
			t.Errorf("after a match: got %+v", i.ImageState)
		}
		if err := f.RecordMatchFailure(t.Context(), key, outcome); err != nil {
			t.Fatal(err)
		}
		if i := f.image(t, key); i.State != store.StateScanned || i.Counts.Low != 1 || len(f.found(t, key)) != 1 {
			t.Errorf("earlier findings: got %+v", i)
		}
	},
	"ImagesToMatch": func(t *testing.T, f *fixture) {
		f.want(t, image("pending", amd64))
		var want []vuln.ImageKey
		for n := range 5 {
			for _, platform := range []vuln.Platform{amd64, arm64} {
				key := vuln.ImageKey{ImageID: fmt.Sprintf("i%d", n), Platform: platform}
				f.catalogue(t, key, "1", catalogOf("p"))
				want = append(want, key)
			}
		}
		done := want[3]
		f.match(t, done, "1", newBuild, result(map[string][]vuln.PackageFinding{"p": nil}))
		f.match(t, want[4], "1", oldBuild, result(map[string][]vuln.PackageFinding{"p": nil}))
		want = slices.DeleteFunc(want, func(key vuln.ImageKey) bool { return key == done })
		for _, limit := range []int{1, 2, 100} {
			var got []vuln.ImageKey
			var after vuln.ImageKey
			for {
				keys, err := f.ImagesToMatch(t.Context(), newBuild.ID, after, limit)
				if err != nil {
					t.Fatal(err)
				}
				if len(keys) == 0 {
					break
				}
				got = append(got, keys...)
				after = keys[len(keys)-1]
			}
			if !slices.Equal(got, want) {
				t.Errorf("limit %d: got %v, want %v", limit, got, want)
			}
		}
	},
	"Findings": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		if _, err := f.Findings(t.Context(), store.FindingQuery{Image: key}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("an unknown image: %v", err)
		}
		kev := finding("CVE-10", vuln.SeverityLow)
		kev.Vulnerability.KEV, kev.Vulnerability.Risk = []vuln.KnownExploited{{CVE: "CVE-10"}}, 99.9
		other := finding("CVE-20", vuln.SeverityHigh)
		other.Vulnerability.Namespace = "github:language:go"
		packages := map[string][]vuln.PackageFinding{
			"p%": {kev, finding("CVE-20", vuln.SeverityHigh, "2"), other}, "P_": {finding("CVE-20", vuln.SeverityHigh)}, "q": {finding("CVE-30", vuln.SeverityMedium, "3")},
		}
		f.catalogue(t, key, "1", catalogOf("p%", "P_", "q"))
		f.match(t, key, "1", oldBuild, result(packages))
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
			"severity":  {store.FindingQuery{MinSeverity: vuln.SeverityHigh}, 3},
			"fixable":   {store.FindingQuery{Fixable: true}, 2},
			"kev":       {store.FindingQuery{KEV: true}, 1},
			"ID":        {store.FindingQuery{Text: "cve-2"}, 3},
			"package":   {store.FindingQuery{Text: "Q"}, 1},
			"percent":   {store.FindingQuery{Text: "%"}, 3},
			"underline": {store.FindingQuery{Text: "_"}, 1},
			"all":       {store.FindingQuery{Text: "p", MinSeverity: vuln.SeverityHigh, Fixable: true}, 1},
			"none":      {store.FindingQuery{Text: "nothing"}, 0},
		} {
			c.query.Image = key
			if page := f.findings(t, c.query); page.Total != c.want || len(page.Findings) != c.want {
				t.Errorf("%s: got %d of %d, want %d", name, len(page.Findings), page.Total, c.want)
			}
		}
		if _, err := f.Findings(t.Context(), store.FindingQuery{Image: key, Sort: "age"}); err == nil {
			t.Error("an unknown order is no error")
		}
	},
	"An image with 2000 findings": func(t *testing.T, f *fixture) {
		key, catalog, r := LargeImage(700, 2000)
		f.catalogue(t, key, "1", catalog)
		f.match(t, key, "1", oldBuild, r)
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
func LargeImage(packages, findings int) (vuln.ImageKey, vuln.Catalog, vuln.MatchResult) {
	all := make([]string, packages)
	for i := range all {
		all[i] = fmt.Sprintf("package-%05d", i)
	}
	matches := make(map[string][]vuln.PackageFinding, packages)
	for _, name := range all {
		matches[name] = nil
	}
	for i := range findings {
		one := finding(fmt.Sprintf("CVE-2026-%05d", i), vuln.Severity(i%6))
		one.Vulnerability.Description = strings.Repeat("A long description. ", 50)
		name := all[i%packages]
		matches[name] = append(matches[name], one)
	}
	return image("large", amd64), catalogOf(all...), result(matches)
}
