package sqlstore

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest"
)

// searched opens a store with one image in which something is found, and returns its key.
func searched(f *testing.F) (*Store, model.ImageKey) {
	f.Helper()
	s, err := Open(f.Context(), Config{DSN: filepath.Join(f.TempDir(), "fuzz.db")})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = s.Close() })
	key, catalog, found := storetest.LargeImage(5, 12)
	uses := []store.Use{
		{Image: key, Workload: store.Workload{Namespace: "a", Kind: "Pod", Name: "x"}}, {Image: key, Workload: store.Workload{Namespace: "b", Kind: "Pod", Name: "y"}},
	}
	other := model.ImageKey{ImageID: "other", Platform: key.Platform}
	_, want := s.WantImages(f.Context(), []model.ImageKey{key, other})
	_, start := s.StartResultSet(f.Context(), model.DatabaseBuild{ID: "build"}, "engine", true)
	err = errors.Join(want, start,
		s.SaveSBOM(f.Context(), key, store.SBOM{MediaType: "application/json", Content: []byte("{}"), SHA256: "1", Size: 2}, catalog),
		storetest.Match(f.Context(), s, key, "1", found), s.RecordUses(f.Context(), "scope", uses))
	if err != nil {
		f.Fatal(err)
	}
	return s, key
}

// fuzzedList asks a list for a page and returns the token of the next one.
type fuzzedList func(ctx context.Context, text, name string, figure float64, flags uint8, page store.Page) (string, error)

// fuzzedLists are all lists that search.
func fuzzedLists(s *Store, key model.ImageKey) map[string]fuzzedList {
	return map[string]fuzzedList{
		"images": func(ctx context.Context, text, name string, figure float64, flags uint8, page store.Page) (string, error) {
			query := store.ImageQuery{
				Text: text, Where: store.Where{Namespace: name}, MinEPSS: figure, Fixable: flags&1 != 0, KEV: flags&2 != 0,
				MinSeverity: model.Severity(flags >> 5), Page: page,
			}
			if flags&4 != 0 {
				query.States = []store.State{store.State(name), store.StateScanned}
			}
			got, err := s.ListImages(ctx, store.AllNamespaces(), query)
			return got.NextToken, err
		},
		"findings": func(ctx context.Context, text, _ string, figure float64, flags uint8, page store.Page) (string, error) {
			got, err := s.Findings(ctx, store.AllNamespaces(), store.FindingQuery{
				Image: key, Text: text, MinEPSS: figure, Fixable: flags&1 != 0, KEV: flags&2 != 0, Closed: flags&4 != 0, MinSeverity: model.Severity(flags >> 5), Page: page,
			})
			return got.NextToken, err
		},
		"vulnerabilities": func(ctx context.Context, text, name string, figure float64, flags uint8, page store.Page) (string, error) {
			got, err := s.ListVulnerabilities(ctx, store.AllNamespaces(), store.VulnerabilityQuery{
				Text: text, Where: store.Where{Workload: name}, MinEPSS: figure, Fixable: flags&1 != 0, KEV: flags&2 != 0, MinSeverity: model.Severity(flags >> 5), Page: page,
			})
			return got.NextToken, err
		},
		"affected": func(ctx context.Context, text, name string, figure float64, flags uint8, page store.Page) (string, error) {
			query := store.AffectedQuery{ID: "CVE-" + text, Where: store.Where{WorkloadKind: name}, Closed: flags&1 != 0, Page: page}
			if flags&3 == 2 {
				query.On = time.Unix(int64(figure), 0)
			}
			got, err := s.Affected(ctx, store.AllNamespaces(), query)
			return got.NextToken, err
		},
		"packages": func(ctx context.Context, text, name string, _ float64, flags uint8, page store.Page) (string, error) {
			query := store.PackageQuery{
				Text: text, Type: name, ImageID: name, Vulnerable: flags&1 != 0, MinSeverity: model.Severity(flags >> 5), VersionText: text, Page: page,
			}
			if flags&2 != 0 {
				query.Name, query.Version = "n"+name, func(_, version string) bool { return version < text }
			}
			if flags&4 != 0 {
				query.Sort = store.SortPackageSeverity
			}
			got, err := s.ListPackages(ctx, store.AllNamespaces(), query)
			return got.NextToken, err
		},
		"workloads": func(ctx context.Context, text, name string, _ float64, flags uint8, page store.Page) (string, error) {
			got, err := s.ListWorkloads(ctx, store.AllNamespaces(), store.WorkloadQuery{
				Text: text, Where: store.Where{Namespace: name}, Fixable: flags&1 != 0, KEV: flags&2 != 0, MinSeverity: model.Severity(flags >> 5), Page: page,
			})
			return got.NextToken, err
		},
		"records": func(ctx context.Context, text, _ string, _ float64, _ uint8, _ store.Page) (string, error) {
			_, err := s.VulnerabilityRecords(ctx, store.AllNamespaces(), text)
			if errors.Is(err, store.ErrNotFound) {
				err = nil
			}
			return "", err
		},
	}
}

// FuzzSearch asks all lists for what nobody would ask for. Whatever it is, the only thing that can be wrong with it is the token.
func FuzzSearch(f *testing.F) {
	s, key := searched(f)
	lists := fuzzedLists(s, key)
	for name, list := range lists {
		token, err := list(f.Context(), "", "", 0, 0, store.Page{Size: 1})
		if err != nil || token == "" && name != "records" && name != "affected" {
			f.Fatalf("%s: the token is %q: %v", name, token, err)
		}
		f.Add(token, "", "", 0.0, uint8(0), 1)
	}
	f.Add("x", "%_!\\'", "\x00", -1e300, uint8(255), -1)
	f.Add("", "\xff", "\xed\xa0\x80", 1e300, uint8(6), 1<<40)
	f.Fuzz(func(t *testing.T, token, text, name string, figure float64, flags uint8, size int) {
		for list, ask := range lists {
			next, err := ask(t.Context(), text, name, figure, flags, store.Page{Token: token, Size: size})
			if err != nil && !errors.Is(err, store.ErrInvalidToken) {
				t.Errorf("%s: %v", list, err)
			}
			if next == "" {
				continue
			}
			if _, err := ask(t.Context(), text, name, figure, flags, store.Page{Token: next, Size: size}); err != nil {
				t.Errorf("%s: the token of the next page: %v", list, err)
			}
		}
	})
}
