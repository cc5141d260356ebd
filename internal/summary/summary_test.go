package summary

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// reader notes what it is asked for.
type reader struct {
	asked []string
	fail  string
	days  []store.TrendDay
}

var errFailed = errors.New("failed")

func (r *reader) note(what string, in store.Namespaces, query any) error {
	r.asked = append(r.asked, fmt.Sprintf("%s all=%t %v %v", what, in.All(), in.Names(), query))
	if r.fail == what {
		return errFailed
	}
	return nil
}

func (r *reader) Summary(_ context.Context, in store.Namespaces, query store.SummaryQuery) (store.Summary, error) {
	return store.Summary{Workloads: 1, Namespaces: []string{"one", "two"}}, r.note("Summary", in, query.Owner)
}

func (r *reader) ListFixes(_ context.Context, in store.Namespaces, query store.FixQuery) (store.FixPage, error) {
	return store.FixPage{Fixes: []store.Fix{{Kind: store.FixUpdate}, {Kind: store.FixWait}}}, r.note("ListFixes", in, fmt.Sprintf("%d %s", query.Size, query.Owner))
}

func (r *reader) ListCoverage(_ context.Context, in store.Namespaces, query store.CoverageQuery) (store.CoveragePage, error) {
	return store.CoveragePage{Total: 2, Counts: map[string]int{"Scanned": 3, "Failed": 2, "Skipped": 1}}, r.note("ListCoverage", in, query.Owner)
}

func (r *reader) ListDecisions(_ context.Context, in store.Namespaces, query store.DecisionQuery) (store.DecisionPage, error) {
	return store.DecisionPage{Total: 4}, r.note("ListDecisions", in, *query.ExpiringWithin)
}

func (r *reader) Trend(_ context.Context, in store.Namespaces, query store.TrendQuery) ([]store.TrendDay, error) {
	return r.days, r.note("Trend", in, query.From.Format(time.DateOnly)+" "+query.To.Format(time.DateOnly))
}

func (r *reader) ShownResultSet(_ context.Context, in store.Namespaces) (store.ResultSet, bool, error) {
	return store.ResultSet{}, true, r.note("ShownResultSet", in, "")
}

func TestCollect(t *testing.T) {
	days := []store.TrendDay{{Images: 1}, {Images: 2}}
	for name, test := range map[string]struct {
		in    store.Namespaces
		scope Scope
		since time.Duration
		want  []string
	}{
		"cluster": {store.AllNamespaces(), Scope{Cluster, ""}, 48 * time.Hour, []string{
			"Summary all=true [] ", "ListFixes all=true [] 10 ", "ShownResultSet all=true [] ", "Trend all=true [] 2026-02-27 2026-03-06", "ListCoverage all=true [] ", "ListDecisions all=true [] 30",
		}},
		"some namespaces": {store.OnlyNamespaces("one", "two"), Scope{Cluster, ""}, 48 * time.Hour, []string{
			"Summary all=false [one two] ", "ListFixes all=false [one two] 10 ", "ShownResultSet all=false [one two] ", "ListCoverage all=false [one two] ", "ListDecisions all=false [one two] 30",
		}},
		"namespace, since today": {store.AllNamespaces(), Scope{Namespace, "one"}, time.Hour, []string{
			"Summary all=false [one] ", "ListFixes all=false [one] 10 ", "ShownResultSet all=false [one] ", "Trend all=false [one] 2026-02-28 2026-03-07", "ListCoverage all=false [one] ", "ListDecisions all=false [one] 30",
		}},
		"another namespace": {store.OnlyNamespaces("one"), Scope{Namespace, "two"}, 48 * time.Hour, []string{
			"Summary all=false [] ", "ListFixes all=false [] 10 ", "ShownResultSet all=false [] ", "ListCoverage all=false [] ", "ListDecisions all=false [] 30",
		}},
		"owner": {store.AllNamespaces(), Scope{Owner, "team"}, 48 * time.Hour, []string{
			"Summary all=true [] team", "ListFixes all=true [] 10 team", "ShownResultSet all=true [] ", "ListCoverage all=true [] team", "ListDecisions all=false [one two] 30",
		}},
	} {
		r := &reader{days: days}
		got, err := Collect(t.Context(), r, test.in, test.scope, noon.Add(-test.since), noon)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, r.asked); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if got.Coverage.Total != 6 || got.UncoveredTotal != 2 || got.ExpiringTotal != 4 || got.Limited == test.in.All() || got.Database == nil {
			t.Errorf("%s: %+v", name, got)
		}
		if len(got.Fixes) != 1 || got.Fixes[0].Kind != store.FixUpdate {
			t.Errorf("%s: the fixes are %+v", name, got.Fixes)
		}
		if compared := slices.ContainsFunc(test.want, func(s string) bool { return s[:5] == "Trend" }); compared != (got.Before != nil) || compared && got.Before.Images != 2 {
			t.Errorf("%s: compared with %+v", name, got.Before)
		}
		for _, what := range []string{"Summary", "ListFixes", "ShownResultSet", "ListCoverage", "ListDecisions"} {
			if _, err := Collect(t.Context(), &reader{fail: what}, test.in, test.scope, noon, noon); !errors.Is(err, errFailed) {
				t.Errorf("%s, without %s: %v", name, what, err)
			}
		}
	}
	if _, err := Collect(t.Context(), &reader{}, store.AllNamespaces(), Scope{Kind: "Galaxy"}, noon, noon); err == nil {
		t.Error("a report about something else")
	}
}
