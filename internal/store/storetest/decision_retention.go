package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

var decisionRetentionTests = map[string]func(*testing.T, *fixture){
	"Decisions that ended long ago are deleted, but for the last ones of objects that exist": func(t *testing.T, f *fixture) {
		f.at(0)
		key := image("i", amd64)
		f.catalog(t, key, "1", catalogOf("a", "b"))
		f.match(t, key, "1", decided)
		must(t, f.RecordUses(t.Context(), "scope", []store.Use{{Image: key, Workload: deployment("a", "web"), Container: "c"}}))
		about := func(name string, status model.DecisionStatus) store.Decision {
			return placed(exception(name, status, []string{"CVE-1"}, []string{"pkg:deb/debian/a"}), name, []string{"a"})
		}
		applies, expired, edited := about("applies", model.DecisionFixed), about("expired", model.DecisionFixed), about("edited and expired", model.DecisionNotAffected)
		invalid, deleted, later := about("invalid", model.DecisionFixed), about("deleted", model.DecisionFixed), about("deleted later", model.DecisionFixed)
		wide, expiredLater := exception("wide", model.DecisionAcceptedRisk, []string{"CVE-2"}, nil), about("expired later", model.DecisionFixed)
		own := about("own", model.DecisionFixed)
		own.Object.Kind, own.Object.Namespace = "VulnerabilityException", "a"
		expired.ExpiresAt, edited.ExpiresAt, expiredLater.ExpiresAt = day.Add(2*time.Hour), day.Add(2*time.Hour), day.Add(4*time.Hour)
		f.decide(t, applies, expired, edited, invalid, deleted, later, wide, expiredLater, own)
		f.askToDelete(t, "deleted", "jane")
		f.at(1)
		applies.Status, edited.Status, wide.Comment, invalid.Refused = model.DecisionAcceptedRisk, model.DecisionFixed, "changed", true
		f.decide(t, applies, expired, edited, invalid, later, wide, expiredLater)
		expire := func(hours int) {
			t.Helper()
			f.at(hours)
			_, err := f.ExpireDecisions(t.Context())
			must(t, err)
		}
		expire(2)
		f.at(3)
		f.decide(t, applies, expired, edited, invalid, wide, expiredLater)
		expire(4)
		exist := []store.Decision{applies, expired, edited, invalid, wide, expiredLater}
		f.decide(t, exist...)

		problems, counts := f.decide(t, exist...), f.readIn(t, store.AllNamespaces())
		since := f.last(t)
		expect := func(step string, want ...string) {
			t.Helper()
			for range 2 { // The second synchronization finds nothing to do either.
				if diff := cmp.Diff(problems, f.decide(t, exist...)); diff != "" {
					t.Errorf("%s: problems: %s", step, diff)
				}
			}
			if diff := cmp.Diff(want, f.records(t, store.AllNamespaces(), store.DecisionQuery{Sort: store.SortDecisionName})); diff != "" {
				t.Errorf("%s: %s", step, diff)
			}
			if diff := cmp.Diff(counts, f.readIn(t, store.AllNamespaces())); diff != "" {
				t.Errorf("%s: counts: %s", step, diff)
			}
			if events := f.last(t) - since; events > 0 {
				t.Errorf("%s: %d events: %v", step, events, f.decisionEvents(t, store.AllNamespaces(), since))
			}
		}
		prune := func(before time.Time) {
			t.Helper()
			for range 2 {
				must(t, f.PruneDecisions(t.Context(), before))
			}
		}
		prune(day.Add(time.Hour))
		expect(
			"before any has ended", "applies AcceptedRisk", "applies Fixed", "deleted Fixed", "deleted later Fixed", "edited and expired Fixed", "edited and expired NotAffected", "expired Fixed",
			"expired later Fixed", "invalid Fixed", "wide AcceptedRisk", "wide AcceptedRisk", "own Fixed",
		)
		prune(day.Add(3 * time.Hour))
		expect("three hours", "applies AcceptedRisk", "deleted later Fixed", "edited and expired Fixed", "expired Fixed", "expired later Fixed", "invalid Fixed", "wide AcceptedRisk")
		prune(day.Add(100 * time.Hour))
		expect("all", "applies AcceptedRisk", "edited and expired Fixed", "expired Fixed", "expired later Fixed", "invalid Fixed", "wide AcceptedRisk")
		// When the objects are gone, nothing stays but what applies.
		exist, problems = []store.Decision{applies, wide}, nil
		f.decide(t, exist...)
		prune(day.Add(100 * time.Hour))
		problems = f.decide(t, exist...)
		expect("of objects that are gone", "applies AcceptedRisk", "wide AcceptedRisk")
	},
}
