package vexdecisions_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vexdecisions"
)

// TestHistoryOfDecisions: decisions that apply in full stay in the history, with or without an end, and statements beside them are deleted after the retention.
func TestHistoryOfDecisions(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	s := openAt(t, clk)
	applier := vexdecisions.NewApplier(s, clk, nil)
	for _, full := range []bool{true, false} {
		document := noted("cluster",
			[3]string{"CVE-2026-3", "affected", "Decision: AcceptedRisk."},
			[3]string{"CVE-2026-1", "not_affected", "Decision: NotAffected."},
			[3]string{"GHSA-2", "fixed", "Decision: Fixed until 2027-01-01T00:00:00Z."},
			[3]string{"ALAS-1", "affected", ""})
		name := map[bool]string{true: "full", false: "status"}[full]
		_, err := applier.Upload(t.Context(), vexdecisions.Upload{Name: name, Author: "jane", Content: document, ExportedDecisions: full})
		must(t, err)
		_, err = applier.Delete(t.Context(), name)
		must(t, err)
	}
	clk.Step(time.Hour)
	must(t, s.Prune(t.Context(), clk.Now()))
	page, err := s.ListDecisions(t.Context(), store.AllNamespaces(), store.DecisionQuery{Sort: store.SortDecisionName, State: store.DecisionEnded})
	must(t, err)
	got := map[string]string{}
	for _, d := range page.Decisions {
		got[d.Vulnerabilities[0]] = d.Object.Name + " " + string(d.Status)
	}
	if diff := cmp.Diff(map[string]string{"CVE-2026-3": "full AcceptedRisk", "CVE-2026-1": "full NotAffected", "GHSA-2": "full Fixed"}, got); diff != "" {
		t.Errorf("decisions after the retention: %s", diff)
	}
}
