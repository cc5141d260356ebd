package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// TestSearch finds each kind by what users type.
func TestSearch(t *testing.T) {
	f := newFullFixture(t)
	commons := model.ImageKey{ImageID: "registry.example/java@sha256:" + strings.Repeat("4", 64), Platform: linux}
	_, err := f.store.WantImages(t.Context(), []model.ImageKey{commons})
	f.must(err)
	f.scan(commons, packageOf("Apache Commons", "1.0-RC1"))
	for text, want := range map[string][]string{
		"cve-2024-0000":      {"vulnerability CVE-2024-0000"},
		"GHSA-CVE-2024-0000": {"vulnerability CVE-2024-0000"},
		"log4j":              {"package log4j-core 2.14.1", "package log4j-core 2.17.0"},
		"log4j-core@2.14":    {"package log4j-core 2.14.1"},
		"log4j-core 2.17":    {"package log4j-core 2.17.0"},
		"log4j-core 9":       nil,
		"Log4J-Core 2.17":    {"package log4j-core 2.17.0"},
		"LOG4J-CORE@2.14":    {"package log4j-core 2.14.1"},
		// Names can have spaces, and versions letters.
		"apache commons":         {"package Apache Commons 1.0-RC1"},
		"apache commons 1.0-rc":  {"package Apache Commons 1.0-RC1"},
		"apache commons@1.0-Rc1": {"package Apache Commons 1.0-RC1"},
		"apache common":          {"package Apache Commons 1.0-RC1"},
		// Only a whole name is followed by a version.
		"log4j 2.17":   nil,
		"side:1":       {"container side"},
		"LEDGER":       {"workload ledger"},
		"team shop":    {"owner Team Shop"},
		" bank ":       {"namespace bank"},
		"0e42bbe25081": {"image " + olderID},
		"a_":           nil,
		"l%g4j":        nil,
	} {
		if diff := cmp.Diff(want, f.search(text)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

// search lists what a search finds.
func (f *fixture) search(text string) []string {
	f.t.Helper()
	a := f.do(http.MethodGet, "/api/v1/search?limit=20&text="+url.QueryEscape(text), "")
	if a.status != http.StatusOK {
		f.t.Fatalf("%q: %d %s", text, a.status, a.body)
	}
	var results api.SearchResults
	f.must(json.Unmarshal([]byte(a.body), &results))
	var found []string
	for _, v := range results.Vulnerabilities {
		found = append(found, "vulnerability "+v.Id)
	}
	for _, p := range results.Packages {
		found = append(found, "package "+p.Package.Name+" "+p.Package.Version)
	}
	for _, i := range results.Images {
		found = append(found, "image "+i.ImageId)
	}
	for _, c := range results.Containers {
		found = append(found, "container "+c.Container)
	}
	for _, w := range results.Workloads {
		found = append(found, "workload "+w.Workload.Name)
	}
	for _, n := range results.Namespaces {
		found = append(found, "namespace "+n)
	}
	for _, o := range results.Owners {
		found = append(found, "owner "+*o.Owner)
	}
	slices.Sort(found)
	return found
}

// TestSearchLimit: no kind has more results than the limit.
func TestSearchLimit(t *testing.T) {
	f := newFullFixture(t)
	var results api.SearchResults
	f.must(json.Unmarshal([]byte(f.do(http.MethodGet, "/api/v1/search?limit=1&text=log4j", "").body), &results))
	if len(results.Packages) != 1 {
		t.Errorf("%d packages", len(results.Packages))
	}
}

// boundedStore has a list that asks for more than it looks at, and one that fails.
type boundedStore struct {
	store.Store
	owners error
}

func (boundedStore) ListPackages(context.Context, store.Namespaces, store.PackageQuery) (store.PackagePage, error) {
	return store.PackagePage{}, fmt.Errorf("list packages: %w", &store.LimitError{Detail: "more than 7 of them"})
}

func (s boundedStore) ListGroups(context.Context, store.Namespaces, store.GroupQuery) (store.GroupPage, error) {
	return store.GroupPage{}, s.owners
}

// TestSearchBeyondBounds: a kind that the store cannot list is left out, and the others are not. Other errors fail the search.
func TestSearchBeyondBounds(t *testing.T) {
	const target = "/api/v1/search?text=log4j+2"
	for _, test := range []struct {
		owners error
		want   []api.SearchGap
	}{
		{nil, []api.SearchGap{{Kind: api.Packages, Detail: "more than 7 of them"}}},
		{&store.LimitError{Detail: "too many"}, []api.SearchGap{{Kind: api.Owners, Detail: "too many"}, {Kind: api.Packages, Detail: "more than 7 of them"}}},
	} {
		f := newFixture(t, func(c *server.Config) { c.Store = boundedStore{c.Store, test.owners} })
		a := f.do(http.MethodGet, target, "")
		var results api.SearchResults
		f.must(json.Unmarshal([]byte(a.body), &results))
		if a.status != http.StatusOK || results.Partial == nil || results.Packages == nil || len(results.Packages) != 0 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		if diff := cmp.Diff(test.want, *results.Partial); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	f := newFixture(t, func(c *server.Config) { c.Store = boundedStore{c.Store, store.ErrUnavailable} })
	f.do(http.MethodGet, target, "").problem(t, http.StatusServiceUnavailable, "unavailable")
	full := newFullFixture(t).do(http.MethodGet, target, "")
	if strings.Contains(full.body, `"partial"`) {
		t.Errorf("complete results are partial: %s", full.body)
	}
}
