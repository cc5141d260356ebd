package vexdecisions_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vexdecisions"
)

// noted is an OpenVEX document of an author with statements about lodash, each a vulnerability, a status and notes.
func noted(author string, statements ...[3]string) []byte {
	texts := make([]string, len(statements))
	for i, s := range statements {
		texts[i] = fmt.Sprintf(
			`{"vulnerability": {"name": %q}, "status": %q, "status_notes": %q, "impact_statement": "why", "action_statement": "what", "products": [{"@id": "pkg:npm/lodash@4.17.20"}]}`, s[0], s[1], s[2])
	}
	return fmt.Appendf(nil, `{"@context": "https://openvex.dev/ns/v0.2.0", "@id": %q, "author": %q, "timestamp": "2026-01-01T00:00:00Z", "version": 1, "statements": [%s]}`,
		author, author, strings.Join(texts, ","))
}

// TestExportedDecisionsInTheStore: decisions apply in full beside the statements of others, are counted until they end, end once, and do not begin again,
// whoever looks at them; without the option, accepted risks count.
func TestExportedDecisionsInTheStore(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	s := openAt(t, clk)
	key := matched(t, s)
	applier := vexdecisions.NewApplier(s, clk, nil)
	decisions := noted("cluster",
		[3]string{"CVE-2026-3", "affected", "Decision: AcceptedRisk."},
		[3]string{"CVE-2026-1", "not_affected", "Decision: FalsePositive until 2026-01-01T01:00:00Z."},
		[3]string{"GHSA-2", "fixed", "Decision: Fixed until 2025-12-31T23:59:59Z."},
		[3]string{"ALAS-1", "affected", "Decision: AcceptedRisk until never."})
	vendor := noted("vendor", [3]string{"CVE-2026-3", "affected", ""}, [3]string{"CVE-2026-1", "under_investigation", ""})
	must(t, s.SaveVEX(t.Context(), store.VEXSource{Kind: store.VEXKindSource, Name: "vendor"}, []store.VEXContent{{Name: "document", Content: vendor}}))
	upload := func(full bool) vexdecisions.Applied {
		t.Helper()
		applied, err := applier.Upload(t.Context(), vexdecisions.Upload{Name: "cluster", Author: "jane", Content: decisions, ExportedDecisions: full})
		must(t, err)
		return applied
	}
	expect := func(what string, applied vexdecisions.Applied, full bool, suppressed, unmatched []string) {
		t.Helper()
		var reasons []string
		for _, one := range applied.Examples {
			reasons = append(reasons, fmt.Sprint(one.Vulnerability, " ", one.Reason))
		}
		got := storedImage(t, s, key)
		slices.Sort(got)
		if diff := cmp.Diff(suppressed, got); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
		if diff := cmp.Diff(unmatched, reasons); diff != "" || applied.Matched+applied.Unmatched != 4 || applied.Suppressed != len(suppressed) || applied.ExportedDecisions != full {
			t.Errorf("%s: %s, %+v", what, diff, applied)
		}
	}
	overridden := []string{"CVE-2026-3 NoFinding", "CVE-2026-1 NoFinding"}
	expect("without the option", upload(false), false, []string{"GHSA-2 lodash"}, overridden)
	expect("in full", upload(true), true, []string{"CVE-2026-1 lodash", "CVE-2026-3 lodash"}, []string{"GHSA-2 Expired"})

	other := vexdecisions.NewApplier(s, clk, nil)
	of := func(a *vexdecisions.Applier) vexdecisions.Applied {
		t.Helper()
		all, err := a.Apply(t.Context())
		must(t, err)
		return all[slices.IndexFunc(all, func(one vexdecisions.Applied) bool { return one.Name == "cluster" })]
	}
	clk.Step(time.Hour)
	for range 2 {
		next, err := s.ExpireDecisions(t.Context())
		if err != nil || !next.IsZero() {
			t.Errorf("the next one ends at %s, %v", next, err)
		}
		for _, a := range []*vexdecisions.Applier{applier, other, vexdecisions.NewApplier(s, clk, nil)} {
			expect("after the end", of(a), true, []string{"CVE-2026-3 lodash"}, []string{"CVE-2026-1 Expired", "GHSA-2 Expired"})
		}
	}
	// The end of the decision is history, and what has never applied is none.
	page, err := s.ListDecisions(t.Context(), store.AllNamespaces(), store.DecisionQuery{Object: store.DecisionObject{Name: "cluster"}, State: store.DecisionEnded, Page: store.Page{Size: 50}})
	must(t, err)
	var expired []string
	for _, d := range page.Decisions {
		if d.EndedBy == store.DecisionEndExpired {
			expired = append(expired, fmt.Sprint(d.Status, " ", d.Vulnerabilities, " ", d.ExpiresAt.Format(time.RFC3339), " ", d.Comment))
		}
	}
	if diff := cmp.Diff([]string{"FalsePositive [CVE-2026-1] 2026-01-01T01:00:00Z why"}, expired); diff != "" {
		t.Error(diff)
	}
	expect("without the option again", upload(false), false, []string{"GHSA-2 lodash"}, overridden)
	if deleted, err := applier.Delete(t.Context(), "cluster", "jim"); err != nil || !deleted {
		t.Error(deleted, err)
	}
	if got := storedImage(t, s, key); len(got) > 0 {
		t.Errorf("deleted, and suppressed: %v", got)
	}
}

// TestMovedEnds: an end that moves is that of the document that applies now, also if it is over when it is read.
func TestMovedEnds(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	s := openAt(t, clk)
	key := matched(t, s)
	applier := vexdecisions.NewApplier(s, clk, nil)
	for _, c := range []struct {
		notes      string
		step       time.Duration
		suppressed int
	}{
		{"Decision: AcceptedRisk until 2026-01-01T01:00:00Z.", 0, 1},
		{"Decision: AcceptedRisk until 2026-01-01T03:00:00Z.", 2 * time.Hour, 1},
		{"Decision: AcceptedRisk until 2026-01-01T01:30:00Z.", 0, 0},
		{"Decision: AcceptedRisk until 2026-01-01T03:00:00Z.", 0, 1},
		{"Decision: AcceptedRisk until 2026-01-01T03:00:00Z.", time.Hour, 0},
		{"Decision: AcceptedRisk until 2026-01-01T04:00:00Z.", 0, 1},
		{"Decision: AcceptedRisk.", 2 * time.Hour, 1},
	} {
		_, err := applier.Upload(t.Context(), vexdecisions.Upload{
			Name: "x", Author: "jane", Content: noted("cluster", [3]string{"CVE-2026-3", "affected", c.notes}), ExportedDecisions: true,
		})
		must(t, err)
		clk.Step(c.step)
		_, err = s.ExpireDecisions(t.Context())
		must(t, err)
		if got := storedImage(t, s, key); len(got) != c.suppressed {
			t.Errorf("%s, %s later: %v is suppressed", c.notes, c.step, got)
		}
	}
}
