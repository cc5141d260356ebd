package sqlstore

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// auditResults are the results of the queries of the page for auditors over what fillViews and decideViews write.
var auditResults = [][]string{
	{"ClusterVulnerabilityException||accepted|AcceptedRisk|1|why|2026-02-27T12:00:00Z|2026-03-02T12:00:00Z|2026-03-15T00:00:00Z"},
	{
		"2026-02-27T12:00:00Z|2026-03-02T12:00:00Z|Changed|NULL|AcceptedRisk|why|2026-03-15T00:00:00Z",
		"2026-03-02T12:00:00Z|2026-03-03T12:00:00Z|Changed|AcceptedRisk|UnderInvestigation|a patch came out|NULL",
		"2026-03-03T12:00:00Z|NULL|NULL|UnderInvestigation|AcceptedRisk|it does not help|NULL",
	},
	{
		"accepted|AcceptedRisk|2026-02-27T12:00:00Z|2026-03-02T12:00:00Z|Changed",
		"accepted|UnderInvestigation|2026-03-02T12:00:00Z|2026-03-03T12:00:00Z|Changed",
		"removed|FalsePositive|2026-03-02T12:00:00Z|2026-03-03T12:00:00Z|Deleted",
		"short|Fixed|2026-03-02T12:00:00Z|2026-03-04T12:00:00Z|Expired",
	},
	{"ClusterVulnerabilityException||accepted|it does not help|2026-03-03T12:00:00Z"},
	{
		"registry.example/old@sha256:3|log4j-core|CVE-2021-1|AcceptedRisk|accepted|it does not help|2026-03-03T12:00:00Z|NULL",
		"registry.example/shop@sha256:1|log4j-core|CVE-2021-1|AcceptedRisk|accepted|it does not help|2026-03-03T12:00:00Z|NULL",
	},
	{"legacy|CronJob|report|log4j-core|CVE-2021-1|accepted"},
}

// decideViews changes, removes and ends decisions after fillViews.
func decideViews(t *testing.T, s *Store, clk *clocktesting.FakeClock) {
	t.Helper()
	sync := func(decisions ...store.Decision) {
		t.Helper()
		for i := range decisions {
			decisions[i].Object.Kind = "ClusterVulnerabilityException"
		}
		if _, err := s.SyncDecisions(t.Context(), store.DecisionSourceKubernetes, decisions); err != nil {
			t.Fatal(err)
		}
	}
	accepted := store.Decision{Object: store.DecisionObject{Name: "accepted"}, Vulnerabilities: []string{"CVE-2021-1"}, Status: model.DecisionUnderInvestigation, Comment: "a patch came out"}
	removed := store.Decision{Object: store.DecisionObject{Name: "removed"}, Vulnerabilities: []string{"CVE-2000-1"}, Status: model.DecisionFalsePositive}
	short := store.Decision{Object: store.DecisionObject{Name: "short"}, Vulnerabilities: []string{"CVE-2000-2"}, Status: model.DecisionFixed, ExpiresAt: clk.Now().Add(48 * time.Hour)}
	sync(accepted, removed, short)
	clk.Step(24 * time.Hour)
	accepted.Status, accepted.Comment = model.DecisionAcceptedRisk, "it does not help"
	sync(accepted, short)
	clk.Step(24 * time.Hour)
	if _, err := s.ExpireDecisions(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestQueriesOfAuditors runs the examples of the page for auditors.
func TestQueriesOfAuditors(t *testing.T) {
	queries := documentedQueries(t, "how-to/audit-decisions.md")
	if len(queries) != len(auditResults) {
		t.Fatalf("the page has %d queries, want %d", len(queries), len(auditResults))
	}
	eachDatabase(t, func(t *testing.T, config Config) {
		clk := clocktesting.NewFakeClock(time.Date(2026, 2, 27, 12, 0, 0, 0, time.UTC))
		config.Clock, config.Cluster = clk, "test"
		s := openWith(t, config)
		if err := fillViews(t, s, clk); err != nil {
			t.Fatal(err)
		}
		decideViews(t, s, clk)
		for i, query := range queries {
			if diff := cmp.Diff(auditResults[i], texts(t, s, query)); diff != "" {
				t.Errorf("%s\n(-want +got):\n%s", query, diff)
			}
		}
	})
}
