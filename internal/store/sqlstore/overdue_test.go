package sqlstore

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// TestOverdueWhereAnImageRunsNoMore: an image that leaves a namespace while overdue findings are computed delays nothing that is reported about other places, and
// what another process reported meanwhile is not reported again.
func TestOverdueWhereAnImageRunsNoMore(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, config Config) {
		clk := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
		config.Clock = clk
		s := openWith(t, config)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		hold(t, s, 1, 2)
		key := model.ImageKey{ImageID: "image", Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
		var uses []store.Use
		for _, namespace := range []string{"kept", "left"} {
			uses = append(uses, store.Use{Image: key, Workload: store.Workload{Namespace: namespace, Kind: "Deployment", Name: "web"}, Container: "c"})
		}
		must(s.RecordUses(t.Context(), "scope", uses))
		one := 1
		_, err := s.SyncPolicies(t.Context(), []store.Policy{{Name: "p", From: model.DueFromFirstSeen, DueIn: model.DueIn{Critical: &one, High: &one, Low: &one, Medium: &one}}})
		must(err)
		last, err := s.LastSequence(t.Context())
		must(err)
		clk.Step(25 * time.Hour)
		report, err := s.readOverdue(t.Context())
		must(err)
		if len(report.changes) != 3 {
			t.Fatalf("there are %d changes, want those of the cluster and of two namespaces", len(report.changes))
		}
		must(s.db.Writer().Exec("DELETE FROM image_namespaces WHERE namespace = 'left'").Error)
		for range 2 { // The second time, another process has reported them.
			must(s.writeOverdue(t.Context(), report))
		}
		events, err := s.EventsSince(t.Context(), store.AllNamespaces(), last, store.MaxKeys)
		must(err)
		var got []string
		for _, e := range events {
			got = append(got, string(e.Kind)+" "+e.ImageID+e.Namespace())
		}
		if diff := cmp.Diff([]string{"finding.overdue image", "namespace.overdue kept"}, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// TestOverdueAfterAnEdit: an edit of a policy swallows no event of a date that passed while a decision suppressed the finding. A policy with the name of one
// that was deleted begins anew, and reports nothing that had passed before.
func TestOverdueAfterAnEdit(t *testing.T) {
	t.Parallel()
	for name, between := range map[string][]int{"edited": {60, 90}, "deleted and created": {0, 30}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachDatabase(t, func(t *testing.T, config Config) {
				clk := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
				config.Clock = clk
				s := openWith(t, config)
				hold(t, s, 1, 1)
				key := model.ImageKey{ImageID: "image", Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
				err := s.RecordUses(t.Context(), "scope", []store.Use{{Image: key, Workload: store.Workload{Namespace: "n", Kind: "Deployment", Name: "web"}, Container: "c"}})
				if err != nil {
					t.Fatal(err)
				}
				sync := func(low int) { // 0 is no policy.
					t.Helper()
					var all []store.Policy
					if low > 0 {
						all = append(all, store.Policy{Name: "p", From: model.DueFromFirstSeen, DueIn: model.DueIn{Critical: new(1), High: new(1), Medium: new(1), Low: &low}})
					}
					if problems, err := s.SyncPolicies(t.Context(), all); err != nil || len(problems) > 0 {
						t.Fatal(problems, err)
					}
				}
				decide := func(vulnerabilities ...string) {
					t.Helper()
					d := store.Decision{Object: store.DecisionObject{Kind: "ClusterVulnerabilityException", Name: "d"}, Vulnerabilities: vulnerabilities, Status: model.DecisionAcceptedRisk}
					if problems, err := s.SyncDecisions(t.Context(), "test", []store.Decision{d}[:len(vulnerabilities)]); err != nil || len(problems) > 0 {
						t.Fatal(problems, err)
					}
				}
				reported := func(what string, want ...string) {
					t.Helper()
					if _, err := s.RecordOverdue(t.Context()); err != nil {
						t.Fatal(err)
					}
					got := texts(t, s, "SELECT kind FROM events WHERE kind LIKE '%.overdue' ORDER BY kind")
					if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
						t.Errorf("%s (-want +got):\n%s", what, diff)
					}
				}
				sync(30)
				decide("CVE-0")
				clk.Step(48 * time.Hour)
				reported("suppressed when the date passed")
				for _, low := range between {
					clk.Step(time.Hour)
					sync(low)
				}
				reported("changed")
				decide()
				if name == "edited" {
					reported("suppressed no more", "finding.overdue", "namespace.overdue")
				} else {
					reported("suppressed no more")
				}
			})
		})
	}
}
