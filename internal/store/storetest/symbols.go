package storetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

var symbolTests = map[string]func(*testing.T, *fixture){
	"Symbols": func(t *testing.T, f *fixture) {
		a, b := image("a", amd64), image("bb", amd64)
		with := func(symbols model.Symbols, names ...string) model.Catalog {
			catalog := catalogOf(names...)
			catalog.Symbols = symbols
			return catalog
		}
		expect := func(unmatched bool, want ...model.ImageKey) {
			t.Helper()
			got, err := f.UnreadSymbols(t.Context(), unmatched, model.ImageKey{}, store.MaxKeys)
			must(t, err)
			if !slices.Equal(got, want) {
				t.Errorf("unread: got %v, want %v", got, want)
			}
		}
		f.catalog(t, a, "1", with(model.SymbolsLeftOut, "P"))
		f.catalog(t, b, "1", with(model.SymbolsLeftOut, "q"))
		f.catalog(t, image("none", amd64), "1", catalogOf("P"))
		f.current(t)
		expect(true, a, b)
		if got := f.waiting(t); !slices.Equal(got, []model.ImageKey{image("none", amd64)}) {
			t.Errorf("waiting: got %v", got)
		}
		if keys, err := f.UnreadSymbols(t.Context(), false, a, 1); err != nil || !slices.Equal(keys, []model.ImageKey{b}) {
			t.Errorf("behind the first: got %v, %v", keys, err)
		}
		must(t, f.ReplaceCatalog(t.Context(), a, "1", with(model.SymbolsRead, "P")))
		if err := f.SkipSymbols(t.Context(), b, "2"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("another SBOM: %v", err)
		}
		must(t, f.SkipSymbols(t.Context(), b, "1"))
		expect(false)
		f.match(t, a, "1", answers{"P": {finding("CVE-1", model.SeverityLow)}})
		must(t, f.RereadSymbols(t.Context(), []string{"p", "other"}))
		expect(false, a)
		expect(true)
		if got := f.found(t, a); !slices.Equal(got, []string{"CVE-1 P"}) {
			t.Errorf("meanwhile: got %v", got)
		}
		f.catalog(t, a, "2", catalogOf("P"))
		expect(false)
	},
	"ReplaceCatalog keeps since when findings are known": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		f.catalog(t, key, "1", catalogOf("p"))
		f.match(t, key, "1", answers{"p": {finding("CVE-1", model.SeverityLow)}})
		since := func() map[string]time.Time {
			t.Helper()
			page, err := f.Findings(t.Context(), store.AllNamespaces(), store.FindingQuery{Image: key, Page: store.Page{Size: store.MaxPageSize}})
			must(t, err)
			known := map[string]time.Time{}
			for _, found := range page.Findings {
				known[found.Vulnerability.ID] = found.FirstSeen
			}
			return known
		}
		want := since()["CVE-1"]
		f.clock.set(time.Now().Add(time.Hour))
		other := catalogOf("p")
		other.Packages[0].Package.Fingerprint += "-of-other-rules"
		stored, err := f.StorePackages(t.Context(), other.Packages)
		must(t, err)
		f.save(t, f.current(t).Number, stored[0].ID, answerOf(finding("CVE-1", model.SeverityLow), finding("CVE-2", model.SeverityLow)))
		must(t, f.ReplaceCatalog(t.Context(), key, "1", other))
		if got := since(); len(got) != 2 || !got["CVE-1"].Equal(want) || !got["CVE-2"].After(want) {
			t.Errorf("got %v, want CVE-1 since %s", got, want)
		}
	},
}
