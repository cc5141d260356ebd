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

// lists asks each list that searches for a page; mine is a query of its own for each number, where that makes a difference.
func (f *fixture) lists(t *testing.T, mine int, page store.Page) map[string]func() (string, error) {
	t.Helper()
	where := store.Where{Namespace: []string{"", "a"}[mine]}
	ctx := t.Context()
	return map[string]func() (string, error){
		"images": func() (string, error) {
			got, err := f.ListImages(ctx, store.AllNamespaces(), store.ImageQuery{Where: where, Page: page})
			return got.NextToken, err
		},
		"vulnerabilities": func() (string, error) {
			got, err := f.ListVulnerabilities(ctx, store.AllNamespaces(), store.VulnerabilityQuery{Where: where, Page: page})
			return got.NextToken, err
		},
		"affected": func() (string, error) {
			got, err := f.Affected(ctx, store.AllNamespaces(), store.AffectedQuery{ID: "CVE-1", Where: where, Page: page})
			return got.NextToken, err
		},
		"packages": func() (string, error) {
			got, err := f.ListPackages(ctx, store.AllNamespaces(), store.PackageQuery{Name: "p", VersionText: where.Namespace, Page: page})
			return got.NextToken, err
		},
		"packages by severity": func() (string, error) {
			got, err := f.ListPackages(ctx, store.AllNamespaces(), store.PackageQuery{Where: where, Sort: store.SortPackageSeverity, Page: page})
			return got.NextToken, err
		},
		"workloads": func() (string, error) {
			got, err := f.ListWorkloads(ctx, store.AllNamespaces(), store.WorkloadQuery{Where: where, Page: page})
			return got.NextToken, err
		},
	}
}

// use is a use of an image by a pod.
func use(key model.ImageKey, namespace, name string) store.Use {
	return store.Use{Image: key, Workload: store.Workload{Namespace: namespace, Kind: "Pod", Name: name}, Container: "c"}
}

var searchTests = map[string]func(*testing.T, *fixture){
	"Nothing is found in an empty store": func(t *testing.T, f *fixture) {
		for name, ask := range f.lists(t, 1, store.Page{}) {
			if next, err := ask(); err != nil || next != "" {
				t.Errorf("%s: got the token %q, %v", name, next, err)
			}
		}
		if _, err := f.VulnerabilityRecords(t.Context(), store.AllNamespaces(), "CVE-1"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("records: got %v", err)
		}
	},
	"Tokens of searches": func(t *testing.T, f *fixture) {
		// Two of everything in namespace a.
		catalog := model.Catalog{}
		for _, version := range []string{"1", "2"} {
			p := pkg("p")
			p.Version, p.Fingerprint = version, "p"+version
			catalog.Packages = append(catalog.Packages, model.HeldPackage{Package: p})
		}
		var uses []store.Use
		for _, name := range []string{"a", "bb"} {
			f.catalog(t, image(name, amd64), "1", catalog)
			f.match(t, image(name, amd64), "1", answers{"p": {finding("CVE-1", model.SeverityHigh), finding("CVE-2", model.SeverityHigh)}})
			uses = append(uses, use(image(name, amd64), "a", name))
		}
		must(t, f.RecordUses(t.Context(), "s", uses))
		tokens := map[string]string{"nothing": "x", "forged": "eyJ2IjoxfQ", "long": strings.Repeat("A", store.MaxTokenLength+1)}
		for name, ask := range f.lists(t, 0, store.Page{Size: 1}) {
			next, err := ask()
			if err != nil || next == "" {
				t.Fatalf("%s: got the token %q, %v", name, next, err)
			}
			tokens[name] = next
		}
		for from, token := range tokens {
			for name, ask := range f.lists(t, 1, store.Page{Token: token}) {
				if _, err := ask(); !errors.Is(err, store.ErrInvalidToken) {
					t.Errorf("%s: a token of %s: got %v", name, from, err)
				}
			}
			for name, ask := range f.lists(t, 0, store.Page{Token: token}) {
				if _, err := ask(); from == name && err != nil || from != name && !errors.Is(err, store.ErrInvalidToken) {
					t.Errorf("%s: the token of %s: got %v", name, from, err)
				}
			}
		}
	},
	"Searches that make no sense": func(t *testing.T, f *fixture) {
		ctx := t.Context()
		_, vulnerabilities := f.ListVulnerabilities(ctx, store.AllNamespaces(), store.VulnerabilityQuery{Sort: "x"})
		_, packages := f.ListPackages(ctx, store.AllNamespaces(), store.PackageQuery{Sort: "x"})
		_, workloads := f.ListWorkloads(ctx, store.AllNamespaces(), store.WorkloadQuery{Sort: "x"})
		_, version := f.ListPackages(ctx, store.AllNamespaces(), store.PackageQuery{Version: func(string, string) bool { return true }})
		_, nothing := f.Affected(ctx, store.AllNamespaces(), store.AffectedQuery{})
		_, both := f.Affected(ctx, store.AllNamespaces(), store.AffectedQuery{ID: "CVE-1", On: time.Now(), Closed: true})
		for i, err := range []error{vulnerabilities, packages, workloads, version, nothing, both} {
			if err == nil {
				t.Errorf("%d is no error", i)
			}
		}
	},
	"Searches for hostile text": func(t *testing.T, f *fixture) {
		names := []string{"a%b", "a_b", `a\b`, "a!b", "a'b", "a\"b", "ä", "A-B"}
		var uses []store.Use
		for i, name := range names {
			key := image(strings.Repeat("x", i+1), amd64)
			f.catalog(t, key, "1", catalogOf(name))
			f.match(t, key, "1", answers{name: {finding("CVE-"+name, model.SeverityLow)}})
			uses = append(uses, use(key, "namespace", name))
		}
		must(t, f.RecordUses(t.Context(), "s", uses))
		for text, want := range map[string]int{
			"a%b": 1, "a_b": 1, `a\b`: 1, "A!B": 1, "a'b": 1, `a"b`: 1, "ä": 1, "Ä": 0, "a-b": 1, "%": 1, "' OR 1=1 --": 0, "": len(names),
			"\x00": 0, "\xff": 0, "a\x00": 0, strings.Repeat("x", 5000): 0, "\xed\xa0\x80": 0,
		} {
			vulnerabilities, err := f.ListVulnerabilities(t.Context(), store.AllNamespaces(), store.VulnerabilityQuery{Text: text})
			must(t, err)
			packages, err := f.ListPackages(t.Context(), store.AllNamespaces(), store.PackageQuery{Text: text})
			must(t, err)
			workloads, err := f.ListWorkloads(t.Context(), store.AllNamespaces(), store.WorkloadQuery{Text: text})
			must(t, err)
			if vulnerabilities.Total != want || packages.Total != want || workloads.Total != want {
				t.Errorf("text %.20q: got %d vulnerabilities, %d packages and %d workloads, want %d", text, vulnerabilities.Total, packages.Total, workloads.Total, want)
			}
		}
		for _, text := range []string{"\x00", "\xff", strings.Repeat("x", 5000), "a%"} {
			where := store.Where{Namespace: text, Workload: text, WorkloadKind: text}
			images := f.list(t, store.ImageQuery{Where: where})
			affected, err := f.Affected(t.Context(), store.AllNamespaces(), store.AffectedQuery{ID: text, Where: where, On: time.Now()})
			must(t, err)
			packages, err := f.ListPackages(t.Context(), store.AllNamespaces(), store.PackageQuery{Name: text, Type: text, ImageID: text, Where: where})
			must(t, err)
			_, err = f.VulnerabilityRecords(t.Context(), store.AllNamespaces(), text)
			if images.Total+affected.Total+packages.Total > 0 || !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%.20q: got %d, %d, %d, %v", text, images.Total, affected.Total, packages.Total, err)
			}
		}
	},
	"VulnerabilityRecords": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		cve, other, ghsa := finding("CVE-1", model.SeverityLow), finding("CVE-1", model.SeverityHigh), finding("GHSA-aaaa-1", model.SeverityLow)
		other.Vulnerability.Namespace, ghsa.Vulnerability.Namespace, ghsa.Vulnerability.Aliases = "nvd", "github", []string{"CVE-1"}
		f.catalog(t, key, "1", catalogOf("p", "q"))
		f.match(t, key, "1", answers{"p": {cve, other}, "q": {ghsa}})
		records := func(id string) []model.Vulnerability {
			t.Helper()
			got, err := f.VulnerabilityRecords(t.Context(), store.AllNamespaces(), id)
			must(t, err)
			return got
		}
		for _, id := range []string{"CVE-1", "cve-1"} {
			want := []model.Vulnerability{cve.Vulnerability, other.Vulnerability, ghsa.Vulnerability}
			if diff := cmp.Diff(want, records(id)); diff != "" {
				t.Errorf("%s: %s", id, diff)
			}
		}
		if diff := cmp.Diff([]model.Vulnerability{ghsa.Vulnerability}, records("ghsa-AAAA-1")); diff != "" {
			t.Error(diff)
		}
		// What is being prepared is not shown before the switch. What was is shown afterwards, and of what changed what is now.
		newer := cve
		newer.Vulnerability.Description, newer.Vulnerability.Aliases = "newer", []string{"CVE-9"}
		next := f.prepare(t, newBuild, answers{"p": {newer}})
		if _, err := f.VulnerabilityRecords(t.Context(), store.AllNamespaces(), "CVE-9"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("before the switch: %v", err)
		}
		f.switchTo(t, next.Number)
		want := []model.Vulnerability{newer.Vulnerability, other.Vulnerability, ghsa.Vulnerability}
		if diff := cmp.Diff(want, records("CVE-1")); diff != "" {
			t.Error(diff)
		}
		f.rematch(t, oldBuild, nil)
		if diff := cmp.Diff(want, records("CVE-1")); diff != "" {
			t.Errorf("when nothing is found any more: %s", diff)
		}
	},
	"ListVulnerabilities by an alias that was": func(t *testing.T, f *fixture) {
		key, named := image("a", amd64), finding("GHSA-1", model.SeverityLow)
		nameless := named
		nameless.Vulnerability.Aliases = nil
		f.catalog(t, key, "1", catalogOf("p"))
		f.match(t, key, "1", answers{"p": {named}})
		for want, a := range []answers{{"p": {nameless}}, {"p": {named}}} {
			f.rematch(t, newBuild, a)
			if got, err := f.ListVulnerabilities(t.Context(), store.AllNamespaces(), store.VulnerabilityQuery{Text: "ghsa-ghsa"}); err != nil || got.Total != want {
				t.Errorf("got %d, %v, want %d", got.Total, err, want)
			}
		}
	},
	"ListVulnerabilities by ID": func(t *testing.T, f *fixture) {
		key, cve, ghsa := image("a", amd64), finding("CVE-1", model.SeverityHigh), finding("GHSA-aaaa-1", model.SeverityLow)
		ghsa.Vulnerability.Aliases = []string{"CVE-1"}
		f.catalog(t, key, "1", catalogOf("p"))
		f.match(t, key, "1", answers{"p": {cve, ghsa, finding("CVE-11", model.SeverityLow), finding("A-CVE-1", model.SeverityLow)}})
		for id, want := range map[string]string{
			"CVE-1": "CVE-1", "cve-1": "CVE-1", "ghsa-AAAA-1": "GHSA-aaaa-1", "CVE": "", "GHSA-CVE-1": "", "CVE-_": "", "\x00": "", strings.Repeat("x", 300): "",
		} {
			page, err := f.ListVulnerabilities(t.Context(), store.AllNamespaces(), store.VulnerabilityQuery{ID: id})
			must(t, err)
			if want == "" && page.Total == 0 && len(page.Vulnerabilities) == 0 {
				continue
			}
			if len(page.Vulnerabilities) != 1 || page.Total != 1 || page.Vulnerabilities[0].ID != want || page.Vulnerabilities[0].Images != 1 {
				t.Errorf("%.20q: got %+v, want %q", id, page, want)
			}
		}
		first, err := f.ListVulnerabilities(t.Context(), store.AllNamespaces(), store.VulnerabilityQuery{Page: store.Page{Size: 1}})
		must(t, err)
		_, err = f.ListVulnerabilities(t.Context(), store.AllNamespaces(), store.VulnerabilityQuery{ID: "CVE-1", Page: store.Page{Token: first.NextToken}})
		if !errors.Is(err, store.ErrInvalidToken) {
			t.Errorf("the token of another query: %v", err)
		}
	},
	"ListPackages with too many versions": func(t *testing.T, f *fixture) {
		const many = store.MaxVersioned + 1
		ask := func(name, packageType string) error {
			_, err := f.ListPackages(t.Context(), store.AllNamespaces(), store.PackageQuery{
				Name: name, Type: packageType, Version: func(_, version string) bool { return version != "0" },
			})
			return err
		}
		held := make([]model.HeldPackage, 0, 2*many)
		for i := range many {
			versions, builds := pkg("versions"), pkg("builds")
			versions.Version, builds.Version = fmt.Sprint(i), "1"
			versions.Fingerprint, builds.Fingerprint = fmt.Sprint("versions ", i), fmt.Sprint("builds ", i)
			if i == 0 {
				builds.Type = "rpm"
			}
			held = append(held, model.HeldPackage{Package: versions}, model.HeldPackage{Package: builds})
		}
		_, err := f.StorePackages(t.Context(), held)
		must(t, err)
		for _, name := range []string{"versions", "builds"} {
			limit, refused := errors.AsType[*store.LimitError](ask(name, ""))
			if !refused || !strings.Contains(limit.Detail, fmt.Sprint("more than ", store.MaxVersions)) || !strings.Contains(limit.Detail, name) {
				t.Errorf("%s: %v", name, ask(name, ""))
			}
		}
		must(t, ask("builds", "deb"))
	},
	"Nothing is left behind a token": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		f.catalog(t, key, "1", catalogOf("p"))
		f.match(t, key, "1", answers{"p": {finding("CVE-1", model.SeverityLow), finding("CVE-2", model.SeverityLow)}})
		query := store.VulnerabilityQuery{Sort: store.SortVulnerabilityID, Page: store.Page{Size: 1}}
		first, err := f.ListVulnerabilities(t.Context(), store.AllNamespaces(), query)
		must(t, err)
		f.rematch(t, newBuild, answers{"p": {finding("CVE-1", model.SeverityLow)}})
		query.Token = first.NextToken
		rest, err := f.ListVulnerabilities(t.Context(), store.AllNamespaces(), query)
		if err != nil || len(rest.Vulnerabilities) != 0 || rest.Total != 1 || rest.NextToken != "" {
			t.Errorf("got %+v, %v", rest, err)
		}
	},
	"What ran on a day": func(t *testing.T, f *fixture) {
		day := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
		key := image("a", amd64)
		at := func(hours int) time.Time {
			now := day.Add(time.Duration(hours) * time.Hour)
			f.clock.set(now)
			return now
		}
		affected := func(query store.AffectedQuery, want ...store.Affected) {
			t.Helper()
			query.ID = "CVE-1"
			page, err := f.Affected(t.Context(), store.AllNamespaces(), query)
			must(t, err)
			for i := range page.Affected { // What differs is when.
				a := &page.Affected[i]
				*a = store.Affected{FirstSeen: a.FirstSeen, FixedAt: a.FixedAt, ExposedSince: a.ExposedSince, ExposedUntil: a.ExposedUntil}
			}
			if diff := cmp.Diff(want, page.Affected, searchOptions); diff != "" {
				t.Errorf("%+v: %s", query, diff)
			}
		}
		runs := []store.Use{use(key, "a", "x")}
		at(8)
		f.catalog(t, key, "1", catalogOf("p"))
		f.match(t, key, "1", nil)
		must(t, f.RecordUses(t.Context(), "s", runs))
		at(10)
		must(t, f.RecordUses(t.Context(), "s", nil))
		found := at(12)
		f.rematch(t, newBuild, answers{"p": {finding("CVE-1", model.SeverityHigh)}})
		// It ran on that day and had the vulnerability on that day, but not at the same time.
		affected(store.AffectedQuery{On: day})
		affected(store.AffectedQuery{}, store.Affected{FirstSeen: found})
		since := at(14)
		must(t, f.RecordUses(t.Context(), "s", runs))
		affected(store.AffectedQuery{On: day}, store.Affected{FirstSeen: found, ExposedSince: since})
		fixed := at(24 + 9)
		f.rematch(t, oldBuild, nil)
		was := store.Affected{FirstSeen: found, FixedAt: fixed, ExposedSince: since, ExposedUntil: fixed}
		affected(store.AffectedQuery{On: day.Add(23 * time.Hour)}, was)
		affected(store.AffectedQuery{On: day.Add(30 * time.Hour)}, was)
		affected(store.AffectedQuery{On: day.Add(48 * time.Hour)})
		affected(store.AffectedQuery{On: day.Add(-time.Hour)})
		affected(store.AffectedQuery{})
		affected(store.AffectedQuery{Closed: true}, was)
	},
	"Images are compared on a platform that both have": func(t *testing.T, f *fixture) {
		a, b, c := image("a", amd64), image("bb", arm64), image("c", amd64)
		aArm, cArm := image("a", arm64), image("c", arm64)
		for _, key := range []model.ImageKey{a, aArm, b, c} {
			f.catalog(t, key, "1", catalogOf("p"))
			f.match(t, key, "1", answers{"p": {finding("CVE-1", model.SeverityLow)}})
		}
		f.want(t, cArm)
		must(t, f.RecordUses(t.Context(), "s", []store.Use{use(a, "n", "a"), use(aArm, "m", "a"), use(b, "m", "b"), use(c, "n", "c"), use(cArm, "m", "c")}))
		id := func(key model.ImageKey) model.ImageKey { return model.ImageKey{ImageID: key.ImageID} }
		for _, one := range []struct {
			in       store.Namespaces
			from, to model.ImageKey
			want     model.Platform
			fails    error
		}{
			{in: store.AllNamespaces(), from: id(a), to: id(b), want: arm64},
			{in: store.AllNamespaces(), from: id(b), to: id(a), want: arm64},
			{in: store.AllNamespaces(), from: id(a), to: id(a), want: amd64},
			{in: store.AllNamespaces(), from: id(a), to: id(c), want: amd64}, // The other platform is not scanned.
			{in: store.OnlyNamespaces("m"), from: id(a), to: id(c), want: arm64},
			{in: store.OnlyNamespaces("n"), from: id(a), to: id(b), fails: store.ErrNotFound},
			{in: store.AllNamespaces(), from: aArm, to: b, want: arm64},
			{in: store.AllNamespaces(), from: a, to: image("bb", amd64), fails: store.ErrNotFound},
		} {
			got, err := f.Compare(t.Context(), one.in, one.from, one.to)
			if !errors.Is(err, one.fails) || err == nil && (got.From.Image.Platform != one.want || got.To.Image.Platform != one.want) {
				t.Errorf("%s with %s of %v: got %s and %s, %v", one.from, one.to, one.in, got.From.Image, got.To.Image, err)
			}
		}
		only := image("d", amd64)
		f.want(t, only)
		must(t, f.RecordUses(t.Context(), "t", []store.Use{use(only, "n", "d")}))
		if _, err := f.Compare(t.Context(), store.AllNamespaces(), id(b), id(only)); !errors.Is(err, store.ErrNoCommonPlatform) {
			t.Errorf("without a common platform: %v", err)
		}
	},
	"Searches name the first of many": func(t *testing.T, f *fixture) {
		const many = store.MaxReach + 5
		var uses []store.Use
		var keys []model.ImageKey
		for i := range many {
			key := model.ImageKey{ImageID: fmt.Sprintf("image-%02d", i), Platform: amd64}
			keys = append(keys, key)
			f.catalog(t, key, "1", catalogOf("p"))
			f.match(t, key, "1", answers{"p": {finding("CVE-1", model.SeverityLow)}})
			// The first owners are not those of the first workloads.
			uses = append(uses, ownedUse(keys[0], "a", fmt.Sprintf("pod-%02d", i), fmt.Sprintf("owner-%02d", many-1-i)), ownedUse(key, "b", "all", "all"))
		}
		wantedOwners := []string{"all"}
		for i := range store.MaxImageOwners - 1 {
			wantedOwners = append(wantedOwners, fmt.Sprintf("owner-%02d", i))
		}
		must(t, f.RecordUses(t.Context(), "s", uses))
		fixes, err := f.ListFixes(t.Context(), store.AllNamespaces(), store.FixQuery{ImageID: keys[0].ImageID})
		must(t, err)
		if fix := fixes.Fixes[0]; len(fix.Workloads) != store.MaxReach || fix.WorkloadCount != many+1 || !slices.Equal(fix.Owners, wantedOwners) {
			t.Errorf("got %d of %d workloads, and the owners %q", len(fix.Workloads), fix.WorkloadCount, fix.Owners)
		}
		fixes, err = f.ListFixes(t.Context(), store.OnlyNamespaces("b"), store.FixQuery{ImageID: keys[0].ImageID})
		must(t, err)
		if fix := fixes.Fixes[0]; fix.WorkloadCount != 1 || !slices.Equal(fix.Owners, []string{"all"}) {
			t.Errorf("in a namespace: got %d workloads, and the owners %q", fix.WorkloadCount, fix.Owners)
		}
		affected, err := f.Affected(t.Context(), store.AllNamespaces(), store.AffectedQuery{ID: "CVE-1"})
		must(t, err)
		if first := affected.Affected[0]; len(first.Workloads) != store.MaxReach || first.WorkloadCount != many+1 || first.Workloads[0].Name != "pod-00" {
			t.Errorf("got %d of %d workloads: %v", len(first.Workloads), first.WorkloadCount, first.Workloads)
		}
		if affected.Images != many || affected.Workloads != many+1 {
			t.Errorf("got %d images and %d workloads", affected.Images, affected.Workloads)
		}
		packages, err := f.ListPackages(t.Context(), store.AllNamespaces(), store.PackageQuery{Name: "p"})
		must(t, err)
		if p := packages.Packages[0]; p.Images != many || len(p.ImageIDs) != store.MaxReach || p.ImageIDs[0] != "image-00" || p.Workloads != many+1 {
			t.Errorf("got %+v", p)
		}
		workloads, err := f.ListWorkloads(t.Context(), store.AllNamespaces(), store.WorkloadQuery{Where: store.Where{Namespace: "b"}})
		must(t, err)
		if w := workloads.Workloads[0]; w.ImageCount != many || !slices.Equal(w.Images, keys[:store.MaxReach]) || w.Scanned != many || w.Counts.Low != many {
			t.Errorf("got %+v", w)
		}
	},
}
