package sqlstore

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest"
)

// auditResults are the results of the queries of the page for auditors over what fillViews and decideViews write.
var auditResults = [][]string{
	{"ClusterVulnerabilityException||accepted|NULL|AcceptedRisk|1|why|2026-02-27T12:00:00Z|2026-03-02T12:00:00Z|2026-03-15T00:00:00Z"},
	{
		"2026-02-27T12:00:00Z|NULL|2026-03-02T12:00:00Z|Changed|NULL|AcceptedRisk|why|2026-03-15T00:00:00Z",
		"2026-03-02T12:00:00Z|jane|2026-03-03T12:00:00Z|Changed|AcceptedRisk|UnderInvestigation|a patch came out|NULL",
		"2026-03-03T12:00:00Z|joe|NULL|NULL|UnderInvestigation|AcceptedRisk|it does not help|NULL",
	},
	{
		"accepted|AcceptedRisk|2026-02-27T12:00:00Z|2026-03-02T12:00:00Z|Changed|NULL",
		"accepted|UnderInvestigation|2026-03-02T12:00:00Z|2026-03-03T12:00:00Z|Changed|NULL",
		"removed|FalsePositive|2026-03-02T12:00:00Z|2026-03-03T12:00:00Z|Deleted|jim",
		"short|Fixed|2026-03-02T12:00:00Z|2026-03-04T12:00:00Z|Expired|NULL",
	},
	{"ClusterVulnerabilityException||accepted|joe|it does not help|2026-03-03T12:00:00Z"},
	{
		"registry.example/old@sha256:3|log4j-core|CVE-2021-1|AcceptedRisk|accepted|joe|it does not help|2026-03-03T12:00:00Z|NULL",
		"registry.example/old@sha256:3|log4j-core|CVE-2021-1|NotAffected|vendor|Vendor|not called|2026-03-04T12:00:00Z|NULL",
		"registry.example/shop@sha256:1|log4j-core|CVE-2021-1|AcceptedRisk|accepted|joe|it does not help|2026-03-03T12:00:00Z|NULL",
		"registry.example/shop@sha256:1|log4j-core|CVE-2021-1|NotAffected|vendor|Vendor|not called|2026-03-04T12:00:00Z|NULL",
	},
	{"legacy|CronJob|report|log4j-core|CVE-2021-1|accepted", "legacy|CronJob|report|log4j-core|CVE-2021-1|vendor"},
}

// decideViews changes, removes and ends decisions after fillViews, and adds statements of a VEXSource.
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
	accepted := store.Decision{Object: store.DecisionObject{Name: "accepted"}, Vulnerabilities: []string{"CVE-2021-1"}, Status: model.DecisionUnderInvestigation, Comment: "a patch came out", Author: "jane"}
	removed := store.Decision{Object: store.DecisionObject{Kind: "ClusterVulnerabilityException", Name: "removed"}, Vulnerabilities: []string{"CVE-2000-1"}, Status: model.DecisionFalsePositive}
	short := store.Decision{Object: store.DecisionObject{Name: "short"}, Vulnerabilities: []string{"CVE-2000-2"}, Status: model.DecisionFixed, ExpiresAt: clk.Now().Add(48 * time.Hour)}
	sync(accepted, removed, short)
	clk.Step(24 * time.Hour)
	accepted.Status, accepted.Comment, accepted.Author = model.DecisionAcceptedRisk, "it does not help", "joe"
	if _, err := s.RecordDeletion(t.Context(), store.DecisionSourceKubernetes, removed.Object, "", "jim"); err != nil {
		t.Fatal(err)
	}
	sync(accepted, short)
	clk.Step(24 * time.Hour)
	if _, err := s.ExpireDecisions(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, revision, err := s.VEX(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Only the first of these statements is about a finding.
	statements := []store.Decision{
		statement("vendor", "1", "CVE-2021-1", "1 log4j-core", model.DecisionNotAffected), statement("vendor", "2", "CVE-2000-3", "1 log4j-core", model.DecisionFixed),
		statement("vendor", "3", "CVE-2021-1", "1 xz", model.DecisionNotAffected),
	}
	for i, comment := range []string{"not called", "fixed", "xz is not there"} {
		statements[i].Comment = comment
	}
	if err := s.SyncVEX(t.Context(), revision, statements); err != nil {
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
		config.Clock, config.Cluster, config.Rules = clk, "test", ranked{}
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

// TestSLAByDay expects the policy that sets each date, the owners, and no findings where a decision suppresses them, also if that is in a namespace or in a workload
// only. The exposures have the same dates.
func TestSLAByDay(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, config Config) {
		clk := clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
		config.Clock = clk
		s := openWith(t, config)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		_, err := s.StartResultSet(t.Context(), model.DatabaseBuild{ID: "1"}, "", true)
		must(err)
		key := model.ImageKey{ImageID: "registry.example/shop@sha256:1", Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
		_, err = s.WantImages(t.Context(), []model.ImageKey{key})
		must(err)
		must(s.SaveSBOM(t.Context(), key, store.SBOM{SHA256: "d", Size: 1}, decidedCatalog(0)))
		must(storetest.Match(t.Context(), s, key, "d", map[string][]model.PackageFinding{"package-0": {
			{Vulnerability: model.Vulnerability{ID: "CVE-1", Severity: model.SeverityCritical}}, {Vulnerability: model.Vulnerability{ID: "CVE-2", Severity: model.SeverityHigh}},
		}}))
		workload := func(namespace, name, owner string) store.Workload {
			return store.Workload{Namespace: namespace, Kind: "Deployment", Name: name, Owner: owner}
		}
		var uses []store.Use
		for _, w := range []store.Workload{workload("a", "web", "team-a"), workload("b", "web", ""), workload("b", "db", "")} {
			uses = append(uses, store.Use{Image: key, Workload: w, Container: "c"})
		}
		must(s.RecordUses(t.Context(), "scope", uses))
		days := []int{1, 2}
		policies := []store.Policy{
			{Name: "all", From: model.DueFromFirstSeen, DueIn: model.DueIn{Critical: &days[1], High: &days[1]}},
			{Name: "early", Select: "finding.id == 'CVE-1'", From: model.DueFromFirstSeen, DueIn: model.DueIn{Critical: &days[0]}},
			{Name: "same", From: model.DueFromFirstSeen, DueIn: model.DueIn{Critical: &days[0]}},
		}
		_, err = s.SyncPolicies(t.Context(), policies)
		must(err)
		expect := func(what string, want ...string) {
			t.Helper()
			got := texts(t, s, "SELECT day, namespace, owner, policy, severity, due FROM sla_by_day ORDER BY day, namespace, severity")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		exposed := func(what string, want ...string) {
			t.Helper()
			got := texts(t, s, "SELECT namespace, workload, owner, vulnerability_id, due_at, overdue FROM exposures ORDER BY namespace, workload, vulnerability_id")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("exposures %s (-want +got):\n%s", what, diff)
			}
		}
		decide := func(decisions ...store.Decision) {
			t.Helper()
			problems, err := s.SyncDecisions(t.Context(), store.DecisionSourceKubernetes, decisions)
			must(err)
			if len(problems) > 0 {
				t.Errorf("problems: %v", problems)
			}
		}
		all := []string{
			"2026-03-02|a|team-a|early|Critical|1", "2026-03-02|b|NULL|early|Critical|2", "2026-03-03|a|team-a|all|High|1", "2026-03-03|b|NULL|all|High|2",
		}
		expect("without decisions", all...)
		exposures := []string{
			"a|web|team-a|CVE-1|2026-03-02T12:00:00Z|1", "a|web|team-a|CVE-2|2026-03-03T12:00:00Z|1", "b|db|NULL|CVE-1|2026-03-02T12:00:00Z|1",
			"b|db|NULL|CVE-2|2026-03-03T12:00:00Z|1", "b|web|NULL|CVE-1|2026-03-02T12:00:00Z|1", "b|web|NULL|CVE-2|2026-03-03T12:00:00Z|1",
		}
		exposed("without decisions", exposures...)
		inNamespace := store.Decision{
			Object: store.DecisionObject{Kind: "VulnerabilityException", Namespace: "a", Name: "d"}, Vulnerabilities: []string{"CVE-1"}, Status: model.DecisionFixed,
			Places: &store.DecisionPlaces{Selector: "namespace a", Namespaces: []string{"a"}},
		}
		inWorkload := store.Decision{
			Object: store.DecisionObject{Kind: "ClusterVulnerabilityException", Name: "d"}, Vulnerabilities: []string{"CVE-2"}, Status: model.DecisionFixed,
			Places: &store.DecisionPlaces{Selector: "web", Workloads: []store.Workload{workload("b", "web", "")}},
		}
		decide(inNamespace, inWorkload)
		expect("with decisions", "2026-03-02|b|NULL|early|Critical|2", "2026-03-03|a|team-a|all|High|1", "2026-03-03|b|NULL|all|High|1")
		exposed("with decisions", "a|web|team-a|CVE-1|NULL|0", exposures[1], exposures[2], exposures[3], exposures[4], "b|web|NULL|CVE-2|NULL|0")
		decide()
		expect("without decisions again", all...)
		exposed("without decisions again", exposures...)
		late := 3650
		later := clk.Now().AddDate(0, 0, late).Format(time.RFC3339)
		_, err = s.SyncPolicies(t.Context(), []store.Policy{
			{Name: "placed", Select: "workload.owner == 'team-a' && finding.id == 'CVE-1'", From: model.DueFromFirstSeen, DueIn: model.DueIn{Critical: &days[0]}},
			{Name: "late", Select: "workload.name == 'db'", From: model.DueFromFirstSeen, DueIn: model.DueIn{High: &late}},
		})
		must(err)
		exposed("by place", exposures[0], "a|web|team-a|CVE-2|NULL|0", "b|db|NULL|CVE-1|NULL|0", "b|db|NULL|CVE-2|"+later+"|0", "b|web|NULL|CVE-1|NULL|0", "b|web|NULL|CVE-2|NULL|0")
		clk.Step(time.Hour)
		must(s.RecordUses(t.Context(), "scope", uses[:1]))
		exposed("after what ran elsewhere has ended", exposures[0], "a|web|team-a|CVE-2|NULL|0", "b|db|NULL|CVE-1|NULL|0", "b|db|NULL|CVE-2|NULL|0", "b|web|NULL|CVE-1|NULL|0",
			"b|web|NULL|CVE-2|NULL|0")
	})
}
