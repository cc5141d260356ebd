package sqlstore

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// TestVEXHistory: statements that have ended are deleted after the retention, and decisions that apply in full after that of decisions, whatever texts documents have.
func TestVEXHistory(t *testing.T) {
	eachDatabase(t, func(t *testing.T, config Config) {
		clk := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
		config.Clock, config.Rules = clk, ranked{}
		s := openWith(t, config)
		sync := func(decisions ...store.Decision) {
			t.Helper()
			_, revision, err := s.VEX(t.Context())
			if err == nil {
				err = s.SyncVEX(t.Context(), revision, decisions)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		full := statement("cluster", "full", "CVE-0", "+1 *", model.DecisionNotAffected)
		full.Full = true
		var all []store.Decision
		for _, hostile := range []string{`"full":true}`, `x"],"full":true}`, `\"full":true}`} {
			all = append(all, statement("cluster", hostile, hostile, "1 *", model.DecisionFixed))
		}
		sync(append(all, full)...)
		clk.Step(time.Minute)
		sync()
		clk.Step(time.Hour)
		expect := func(step string, want ...string) {
			t.Helper()
			page, err := s.ListDecisions(t.Context(), store.AllNamespaces(), store.DecisionQuery{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range page.Decisions {
				got = append(got, d.Vulnerabilities...)
			}
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %s", step, diff)
			}
		}
		if err := s.PruneDecisions(t.Context(), clk.Now().Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
		expect("those that ended at the time", `"full":true}`, "CVE-0", `\"full":true}`, `x"],"full":true}`)
		if err := s.Prune(t.Context(), clk.Now()); err != nil {
			t.Fatal(err)
		}
		expect("after the retention", "CVE-0")
		if err := s.PruneDecisions(t.Context(), clk.Now()); err != nil {
			t.Fatal(err)
		}
		expect("after the retention of decisions")
	})
}
