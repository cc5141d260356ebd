package metrics

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
)

type resultSets struct {
	current, next *store.ResultSet
	err           error
}

func answer(g *store.ResultSet, err error) (store.ResultSet, bool, error) {
	if g == nil || err != nil {
		return store.ResultSet{}, false, err
	}
	return *g, true, nil
}

func (g resultSets) CurrentResultSet(context.Context) (store.ResultSet, bool, error) {
	return answer(g.current, g.err)
}

func (g resultSets) NextResultSet(context.Context) (store.ResultSet, bool, error) {
	return answer(g.next, g.err)
}

type library struct{ status vulndb.Status }

func (l library) Status() vulndb.Status { return l.status }

func TestDatabases(t *testing.T) {
	current := &store.ResultSet{Build: model.DatabaseBuild{
		ID: "xxh64:1", SchemaVersion: "v6.1.4", Source: model.DatabaseSourceOfficial, Built: time.Unix(1000, 0),
	}}
	failed := vulndb.Status{LastCheck: time.Unix(2000, 0), LastError: errors.New("no route")}
	const (
		none = `
			scanner_operator_database_check_failed=0
			scanner_operator_database_checked_timestamp_seconds=0
			scanner_operator_rematch_packages{state="matched"}=0
			scanner_operator_rematch_packages{state="queued"}=0`
		inUse = `
			scanner_operator_database_built_timestamp_seconds=1000
			scanner_operator_database_check_failed=1
			scanner_operator_database_checked_timestamp_seconds=2000
			scanner_operator_database_info{build="xxh64:1",schema="v6.1.4",source="official"}=1
			scanner_operator_rematch_packages{state="matched"}=3
			scanner_operator_rematch_packages{state="queued"}=7`
		unread = `
			scanner_operator_database_check_failed=1
			scanner_operator_database_checked_timestamp_seconds=2000`
	)
	tests := map[string]struct {
		store  resultSets
		status vulndb.Status
		want   string
	}{
		"nothing yet":          {resultSets{}, vulndb.Status{}, none},
		"a re-match under way": {resultSets{current: current, next: &store.ResultSet{Queued: 7, Matched: 3}}, failed, inUse},
		"the store is away":    {resultSets{err: errors.New("away")}, failed, unread},
	}
	// One registry for all: the last one that registers tells.
	registry := prometheus.NewRegistry()
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if err := NewDatabases(registry, tt.store, library{tt.status}, logr.Discard()); err != nil {
				t.Fatal(err)
			}
			if got, want := gather(t, registry), strings.Fields(tt.want); strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

func TestMatching(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := NewMatching(registry)
	if err != nil {
		t.Fatal(err)
	}
	m.PackagesMatched(200)
	m.Rematched(store.ResultSet{Changes: store.ChangeCounts{Opened: 5, Closed: 2, OpenedCritical: 1, NewKEV: 3}}, time.Second)
	want := `
		scanner_operator_finding_changes_total{kind="changed"}=0
		scanner_operator_finding_changes_total{kind="closed"}=2
		scanner_operator_finding_changes_total{kind="opened"}=5
		scanner_operator_findings_newly_exploited_total=3
		scanner_operator_findings_opened_critical_total=1
		scanner_operator_packages_matched_total=200
		scanner_operator_rematch_duration_seconds{full="false"}=1`
	if got, want := gather(t, registry), strings.Fields(want); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// gather writes the samples of a registry as name{labels}=value, in the order of Prometheus. For a histogram it is the number of
// observations.
func gather(t *testing.T, registry *prometheus.Registry) []string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", label.GetName(), label.GetValue()))
			}
			name := family.GetName()
			if len(labels) > 0 {
				name += "{" + strings.Join(labels, ",") + "}"
			}
			value := metric.GetGauge().GetValue() + metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount())
			out = append(out, fmt.Sprintf("%s=%v", name, value))
		}
	}
	return out
}
