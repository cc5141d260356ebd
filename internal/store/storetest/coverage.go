package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// covered is a container "c" of a Deployment in a namespace.
func covered(namespace, name, state, reason string, pods int) store.ContainerCoverage {
	return store.ContainerCoverage{
		Workload: store.Workload{Namespace: namespace, Kind: "Deployment", Name: name}, Container: "c", Image: image("a", amd64),
		Reference: "registry.example/a:1", Pods: pods, State: state, Reason: reason,
	}
}

// coverAt records at so many hours after day how far containers are.
func (f *fixture) coverAt(t *testing.T, hours int, scope string, containers ...store.ContainerCoverage) {
	t.Helper()
	f.at(hours)
	must(t, f.RecordCoverage(t.Context(), scope, containers))
}

func (f *fixture) coverage(t *testing.T, query store.CoverageQuery) store.CoveragePage {
	t.Helper()
	page, err := f.ListCoverage(t.Context(), store.AllNamespaces(), query)
	if err != nil {
		t.Fatalf("ListCoverage: %v", err)
	}
	return page
}

// coverageNames lists "namespace/name state reason pods since", since in hours after day.
func coverageNames(page store.CoveragePage) []string {
	texts := []string{}
	for _, c := range page.Containers {
		texts = append(texts, strings.Join(strings.Fields(fmt.Sprintf("%s/%s %s %s %d since %d", c.Workload.Namespace, c.Workload.Name, c.State, c.Reason,
			c.Pods, int(c.Since.Sub(day).Hours()))), " "))
	}
	return texts
}

func (f *fixture) expectCovered(t *testing.T, step string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), coverageNames(f.coverage(t, store.CoverageQuery{}))); diff != "" {
		t.Errorf("%s (-want +got):\n%s", step, diff)
	}
}

var coverageTests = map[string]func(*testing.T, *fixture){
	"RecordCoverage": func(t *testing.T, f *fixture) {
		last := f.last(t)
		f.expectCovered(t, "at first")
		f.coverAt(t, 0, "s", covered("n", "web", "Pending", "NotPulled", 2), covered("n", "db", "Scanned", "", 1))
		f.expectCovered(t, "new", "n/db Scanned 1 since 0", "n/web Pending NotPulled 2 since 0")
		f.coverAt(t, 1, "s", covered("n", "web", "Pending", "NotPulled", 1), covered("n", "web", "Pending", "NotCataloged", 1), covered("n", "db", "Scanned", "", 3))
		f.expectCovered(t, "other pods and reasons", "n/db Scanned 3 since 0", "n/web Pending NotPulled 1 since 0", "n/web Pending NotCataloged 1 since 0")
		f.coverAt(t, 2, "s", covered("n", "web", "Scanned", "", 1), covered("n", "web", "Scanned", "", 1), covered("n", "db", "Scanned", "", 3))
		f.expectCovered(t, "another state", "n/db Scanned 3 since 0", "n/web Scanned 2 since 2")
		f.coverAt(t, 3, "other", covered("n", "web", "Skipped", "IgnoreLabel", 9), covered("other", "x", "Skipped", "IgnoreLabel", 1))
		f.expectCovered(t, "two scopes", "n/db Scanned 3 since 0", "n/web Skipped IgnoreLabel 9 since 3", "other/x Skipped IgnoreLabel 1 since 3")
		f.coverAt(t, 4, "other")
		f.expectCovered(t, "a scope is forgotten", "n/db Scanned 3 since 0", "n/web Scanned 2 since 2")
		f.coverAt(t, 5, "s", covered("n", "web", "Pending", "NotMatched", 1))
		f.coverAt(t, 6, "s", covered("n", "web", "Scanned", "", 1))
		f.expectCovered(t, "back in a state", "n/web Scanned 1 since 6")
		if f.last(t) != last {
			t.Errorf("coverage wrote %d events", f.last(t)-last)
		}
		for name, scope := range map[string]string{"no": "", "long": strings.Repeat("x", 300)} {
			if err := f.RecordCoverage(t.Context(), scope, nil); err == nil {
				t.Errorf("%s scope: no error", name)
			}
		}
		if err := f.RecordCoverage(t.Context(), "s", make([]store.ContainerCoverage, store.MaxUses+1)); err == nil {
			t.Error("too many containers are no error")
		}
	},
	"Coverage tells all": func(t *testing.T, f *fixture) {
		one := covered("n", "web", "Failed", "ImageNotFound", 2)
		one.Image.Platform, one.Message, one.NextAttempt = arm64, "it is\x00 not there", day.Add(time.Hour)
		later := one
		later.NextAttempt, later.Pods = day.Add(2*time.Hour), 1
		unknown := covered("n", "web", "Pending", "NotPulled", 1)
		unknown.Image = model.ImageKey{}
		odd := covered(strings.Repeat("n", 300), "web", "Failed", "NotPullable", 1)
		odd.Image = model.ImageKey{ImageID: strings.Repeat("i", 600), Platform: model.Platform{OS: "NO/NE"}}
		odd.Reference, odd.Message = strings.Repeat("r", 2000), strings.Repeat("m", 2000)
		f.coverAt(t, 0, "s", later, one, unknown, odd)
		one.Since, one.Pods, one.Message = day, 3, "it is\uFFFD not there"
		unknown.Since, odd.Since = day, day
		odd.Workload.Namespace, odd.Image = odd.Workload.Namespace[:255], model.ImageKey{ImageID: odd.Image.ImageID[:512]}
		odd.Reference, odd.Message = odd.Reference[:1024], odd.Message[:1024]
		page := f.coverage(t, store.CoverageQuery{})
		if diff := cmp.Diff([]store.ContainerCoverage{one, unknown, odd}, page.Containers); diff != "" {
			t.Error(diff)
		}
		one.Message, one.NextAttempt = "it is still not there", day.Add(3*time.Hour)
		f.coverAt(t, 1, "s", one)
		if diff := cmp.Diff([]store.ContainerCoverage{one}, f.coverage(t, store.CoverageQuery{}).Containers); diff != "" {
			t.Error(diff)
		}
	},
	"Filters and pages of coverage": func(t *testing.T, f *fixture) {
		other := covered("b", "other", "Failed", "OutOfDisk", 4)
		other.Image, other.Reference, other.Container = image("bb", amd64), "registry.example/B%:2", "sidecar"
		f.coverAt(t, 0, "s", covered("a", "db", "Scanned", "", 1), covered("a", "web", "Scanned", "", 2), covered("a", "web", "Failed", "ImageNotFound", 3),
			other, covered("b", "web", "Pending", "NotMatched", 5))
		f.coverAt(t, 0, "t", covered("b", "web", "Pending", "NotMatched", 5), covered("c", "web", "Skipped", "IgnoreLabel", 6))
		whole := f.coverage(t, store.CoverageQuery{})
		if len(whole.Containers) != 6 || whole.Total != 6 {
			t.Fatalf("got %+v", whole)
		}
		all := map[string]int{"Scanned": 3, "Failed": 7, "Pending": 5, "Skipped": 6}
		for name, c := range map[string]struct {
			query  store.CoverageQuery
			rows   []int
			counts map[string]int
		}{
			"none":       {store.CoverageQuery{}, []int{0, 1, 2, 3, 4, 5}, all},
			"namespace":  {store.CoverageQuery{Namespace: "b"}, []int{3, 4}, map[string]int{"Failed": 4, "Pending": 5}},
			"workload":   {store.CoverageQuery{Namespace: "a", Workload: "web"}, []int{1, 2}, map[string]int{"Scanned": 2, "Failed": 3}},
			"state":      {store.CoverageQuery{States: []string{"Failed", "Skipped"}}, []int{2, 3, 5}, all},
			"reason":     {store.CoverageQuery{Reason: "OutOfDisk"}, []int{3}, all},
			"both":       {store.CoverageQuery{Reason: "OutOfDisk", States: []string{"Pending"}}, nil, all},
			"reference":  {store.CoverageQuery{Text: "b%:"}, []int{3}, map[string]int{"Failed": 4}},
			"image ID":   {store.CoverageQuery{Text: "/BB@sha"}, []int{3}, map[string]int{"Failed": 4}},
			"name":       {store.CoverageQuery{Text: "Db"}, []int{0}, map[string]int{"Scanned": 1}},
			"container":  {store.CoverageQuery{Text: "sideCar"}, []int{3}, map[string]int{"Failed": 4}},
			"other text": {store.CoverageQuery{Text: "x%"}, nil, map[string]int{}},
		} {
			var want []store.ContainerCoverage
			for _, row := range c.rows {
				want = append(want, whole.Containers[row])
			}
			for size := 1; size <= 7; size += 2 {
				var got []store.ContainerCoverage
				query := c.query
				query.Size = size
				for more := true; more; more = query.Token != "" {
					page := f.coverage(t, query)
					got, query.Token = append(got, page.Containers...), page.NextToken
					if diff := cmp.Diff(c.counts, page.Counts); diff != "" || page.Total != len(want) {
						t.Errorf("%s: total %d, counts %s", name, page.Total, diff)
					}
				}
				if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("%s, size %d: %s", name, size, diff)
				}
			}
		}
		token := f.coverage(t, store.CoverageQuery{Page: store.Page{Size: 1}}).NextToken
		for name, query := range map[string]store.CoverageQuery{
			"namespace": {Namespace: "n"}, "workload": {Workload: "web"}, "states": {States: []string{"Failed"}}, "reason": {Reason: "x"}, "text": {Text: "x"},
		} {
			query.Token = token
			if _, err := f.ListCoverage(t.Context(), store.AllNamespaces(), query); !errors.Is(err, store.ErrInvalidToken) {
				t.Errorf("the token of a query without %s: %v", name, err)
			}
		}
		if got := coverageNames(whole); !slices.IsSorted([]string{got[0], got[1], got[3], got[5]}) {
			t.Errorf("the order is %q", got)
		}
	},
}
