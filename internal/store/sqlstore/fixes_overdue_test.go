package sqlstore

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// TestOverdueFixes lists what has overdue findings page by page, in all ways of reading which images hold a package, and compares it with what lists of all
// fixes say.
func TestOverdueFixes(t *testing.T) {
	eachDatabase(t, func(t *testing.T, config Config) {
		s := withFixes(t, config)
		var uses []store.Use
		for n := 3; n < 12; n++ {
			if _, err := s.WantImages(t.Context(), []model.ImageKey{fixKey(n)}); err != nil {
				t.Fatal(err)
			}
			catalog := fixCatalog(2)
			catalog.Packages[n%3].Excluded = n%2 == 0
			if err := scanFixes(t.Context(), s, n, "d", catalog); err != nil {
				t.Fatal(err)
			}
			uses = append(uses, fixUse(n, "three"))
		}
		if err := s.RecordUses(t.Context(), "more", uses); err != nil {
			t.Fatal(err)
		}
		days := 0
		policies := []store.Policy{
			{Name: "everywhere", From: model.DueFromFirstSeen, DueIn: model.DueIn{Critical: &days, Medium: &days}},
			{Name: "two", From: model.DueFromFirstSeen, DueIn: model.DueIn{High: &days, Low: &days, KEV: &days}, Places: &store.DecisionPlaces{Selector: "two", Namespaces: []string{"two"}}},
		}
		if problems, err := s.SyncPolicies(t.Context(), policies); err != nil || len(problems) > 0 {
			t.Fatal(problems, err)
		}
		// The set of image 1 is one that a process of an earlier version has not written.
		leaveBehind(t, s, "DELETE FROM image_package_sets WHERE image_pk = 1")
		some := false
		for _, in := range []store.Namespaces{store.AllNamespaces(), store.OnlyNamespaces("two", "three")} {
			for _, query := range []store.FixQuery{
				{}, {KEV: true}, {Kind: store.FixUpdate}, {Kind: store.FixRebuild}, {Kind: store.FixWait, KEV: true}, {Where: store.Where{Namespace: "one"}}, {Where: store.Where{Namespace: "three"}}, {ImageID: fixKey(2).ImageID},
			} {
				all := pagedFixes(t, s, in, query)
				want := slices.DeleteFunc(slices.Clone(all), func(f store.Fix) bool { return f.Overdue == 0 })
				some = some || len(want) > 0 && len(want) < len(all)
				query.Overdue = true
				for _, way := range []struct{ fewImages, holdersPerImage, maxClasses, firstOwn int }{
					{fewImages, holdersPerImage, maxClasses, firstOwn}, {0, 0, maxClasses, 0}, {0, 1000, 1, 1},
				} {
					s.fewImages, s.holdersPerImage, s.maxClasses, s.firstOwn = way.fewImages, way.holdersPerImage, way.maxClasses, way.firstOwn
					if diff := cmp.Diff(want, pagedFixes(t, s, in, query)); diff != "" {
						t.Errorf("%+v in %v, read with %+v (-want +got):\n%s", query, in, way, diff)
					}
				}
			}
		}
		if !some {
			t.Error("no list has some overdue fixes and others")
		}
		// The risks of images differ, so that it matters which rows are read first.
		leaveBehind(t, s, "UPDATE image_fixes SET risk_micros = risk_micros + image_pk * image_pk % 7 * 1000 WHERE findings > 0")
		var lists [3][]store.Fix
		for i, first := range []int{1000, 0, 1} {
			s.fewImages, s.firstOwn = 0, first
			lists[i] = pagedFixes(t, s, store.AllNamespaces(), store.FixQuery{Overdue: true})
		}
		if diff := cmp.Diff(lists[0], lists[1]) + cmp.Diff(lists[0], lists[2]); diff != "" {
			t.Errorf("with other risks, all rows at once and the first ones (-want +got):\n%s", diff)
		}
		s.fewImages, s.firstOwn = fewImages, firstOwn
		if err := s.RefreshFixes(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestOverdueNewerBases lists newer tags of a base by what is overdue in the images on it: of these, some lack a package, and decisions suppress findings in others
// that have the same dates.
func TestOverdueNewerBases(t *testing.T) {
	eachDatabase(t, func(t *testing.T, config Config) {
		s := withFixes(t, config)
		layered := func(packages int, layers ...string) model.Catalog {
			catalog := fixCatalog(packages)
			for _, layer := range layers {
				catalog.Layers = append(catalog.Layers, fmt.Sprintf("sha256:%064x", layer))
			}
			return catalog
		}
		if err := s.ReplaceCatalog(t.Context(), fixKey(2), "d", layered(2, "base")); err != nil {
			t.Fatal(err)
		}
		var uses []store.Use
		for n := 3; n < 12; n++ {
			if _, err := s.WantImages(t.Context(), []model.ImageKey{fixKey(n)}); err != nil {
				t.Fatal(err)
			}
			if err := scanFixes(t.Context(), s, n, "d", layered(2-n/3%2, "base", fmt.Sprint(n))); err != nil {
				t.Fatal(err)
			}
			uses = append(uses, fixUse(n, []string{"one", "two", "three"}[n%3]))
		}
		if err := s.RecordUses(t.Context(), "more", uses[1:]); err != nil { // Image 3 does not run.
			t.Fatal(err)
		}
		withLookups(t, s, fixKey(2), []string{"1.0", "1"}, "1.1")
		matchTag(t, s, "1.1", 1)
		days := 0
		policy := store.Policy{Name: "critical", From: model.DueFromFirstSeen, DueIn: model.DueIn{Critical: &days, High: &days, Medium: &days, Low: &days, KEV: &days}}
		if problems, err := s.SyncPolicies(t.Context(), []store.Policy{policy}); err != nil || len(problems) > 0 {
			t.Fatal(problems, err)
		}
		query := store.FixQuery{Kind: store.FixNewerBase}
		want, numbers := pagedFixes(t, s, store.AllNamespaces(), query), map[int]bool{}
		for _, fix := range want {
			numbers[fix.Overdue] = true
		}
		if len(want) != len(uses)-1 || len(numbers) < 3 || numbers[0] {
			t.Errorf("%d images have a newer base, with %v overdue findings, want %d with some numbers", len(want), numbers, len(uses)-1)
		}
		query.Overdue = true
		for _, most := range []int{maxClasses, 0} {
			for _, few := range []int{fewImages, 0} {
				s.maxClasses, s.fewImages = most, few
				if diff := cmp.Diff(want, pagedFixes(t, s, store.AllNamespaces(), query)); diff != "" {
					t.Errorf("with %d classes, up to %d images looked up (-want +got):\n%s", most, few, diff)
				}
			}
		}
	})
}

// pagedFixes reads all pages of a list, with two fixes each, and expects that each has the total.
func pagedFixes(t *testing.T, s *Store, in store.Namespaces, query store.FixQuery) []store.Fix {
	t.Helper()
	fixes := []store.Fix{}
	var totals []int
	for query.Page = (store.Page{Size: 2}); ; {
		page, err := s.ListFixes(t.Context(), in, query)
		if err != nil {
			t.Fatal(err)
		}
		fixes, totals = append(fixes, page.Fixes...), append(totals, page.Total)
		if query.Page.Token = page.NextToken; query.Page.Token == "" {
			break
		}
	}
	if slices.ContainsFunc(totals, func(total int) bool { return total != len(fixes) }) {
		t.Errorf("%+v: %d fixes, want the totals %v", query, len(fixes), totals)
	}
	return fixes
}

// TestNumbersOf reads lists of numbers as databases make them, and refuses what is none.
func TestNumbersOf(t *testing.T) {
	for text, want := range map[string][]int64{
		"7": {7}, "0,12,999999999999999999": {0, 12, 999999999999999999}, "9223372036854775807,1": {9223372036854775807, 1}, "-3,4": {-3, 4},
		"": nil, ",": nil, "1,": nil, ",1": nil, "1,,2": nil, "1;2": nil, "1,a": nil, "9223372036854775808": nil, "1 ,2": nil,
	} {
		got, err := numbersOf(text)
		if (err != nil) != (want == nil) || err == nil && !slices.Equal(got, want) {
			t.Errorf("%q: got %v, %v; want %v", text, got, err, want)
		}
	}
}
