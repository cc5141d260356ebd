package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest"
)

// documentedQueries reads the examples from a page of the documentation, in its order.
func documentedQueries(t *testing.T, path string) []string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("../../../docs", path))
	if err != nil {
		t.Fatal(err)
	}
	var queries []string
	for _, block := range regexp.MustCompile("(?s)```sql\n(.*?);\n```").FindAllStringSubmatch(string(page), -1) {
		queries = append(queries, block[1])
	}
	return queries
}

// viewResults are the results of the documented queries over what fillViews writes, each row as one text.
var viewResults = [][]string{
	{
		"web|app|registry.example/shop@sha256:1|2026-02-27T12:00:00Z|2026-03-01T06:00:00Z",
		"web|app|registry.example/shop@sha256:2|2026-03-01T06:00:00Z|NULL",
	},
	{"registry.example/shop@sha256:1|debian:12|2026-06-10|2026-01-02T03:04:05Z"},
	{
		"registry.example/shop@sha256:1|log4j-core|1|GHSA-jfh8-c2jp-5v3q|[\"2.15.0\"]|2026-02-27T12:00:00Z",
		"registry.example/shop@sha256:2|xz|1|CVE-2024-3094|[\"5.6.1+really5.4.5-1\"]|2026-03-01T06:00:00Z",
		"registry.example/old@sha256:3|log4j-core|1|GHSA-jfh8-c2jp-5v3q|[\"2.15.0\"]|2026-03-02T12:00:00Z",
	},
	{"xz|1|CVE-2024-3094|1"},
	{"NULL|registry.example/old@sha256:3|log4j-core|GHSA-jfh8-c2jp-5v3q", "NULL|registry.example/shop@sha256:2|xz|CVE-2024-3094"},
	{
		"registry.example/old@sha256:3|log4j-core|CVE-2021-1|accepted|AcceptedRisk|2026-03-15T00:00:00Z",
		"registry.example/shop@sha256:1|log4j-core|CVE-2021-1|accepted|AcceptedRisk|2026-03-15T00:00:00Z",
	},
	{"report|registry.example/old@sha256:3|log4j-core|CVE-2021-1|ClusterVulnerabilityException|accepted|AcceptedRisk|2026-03-15T00:00:00Z"},
	{`ClusterVulnerabilityException||accepted|AcceptedRisk|{"vulnerabilities":["CVE-2021-1"]}|why|2026-02-27T12:00:00Z|2026-03-15T00:00:00Z`},
	{
		"NULL|shop|Deployment|web|registry.example/shop@sha256:2|xz|CVE-2024-3094|Critical|2026-03-02T06:00:00Z",
		"NULL|legacy|CronJob|report|registry.example/old@sha256:3|log4j-core|GHSA-jfh8-c2jp-5v3q|Critical|2026-03-03T12:00:00Z",
	},
	{"test|shop|Deployment|web|registry.example/shop@sha256:1|log4j-core|1"},
	{
		"shop|Deployment|web|2026-02-27T12:00:00Z|2026-03-01T06:00:00Z",
		"legacy|CronJob|report|2026-03-02T12:00:00Z|NULL",
	},
	{"2026-03-02|shop|Critical|1|0|1", "2026-03-03|legacy|Critical|1|0|1", "2026-03-03|shop|High|1|1|0"},
	{"NULL|p|3|1"},
	{"shop|NULL|Critical|2|151200", "shop|NULL|High|1|108000"},
	{"2026-03-01|1|1|1|1|0|0|1|1", "2026-03-02|2|2|2|0|0|0|1|2"},
}

// TestDocumentedQueries runs the examples of the page about the views.
func TestDocumentedQueries(t *testing.T) {
	queries := documentedQueries(t, "reference/views.md")
	if len(queries) != len(viewResults) {
		t.Fatalf("the page has %d queries, want %d", len(queries), len(viewResults))
	}
	eachDatabase(t, func(t *testing.T, config Config) {
		clk := clocktesting.NewFakeClock(time.Date(2026, 2, 27, 12, 0, 0, 0, time.UTC))
		config.Clock, config.Cluster = clk, "test"
		s := openWith(t, config)
		if err := fillViews(t, s, clk); err != nil {
			t.Fatal(err)
		}
		for i, query := range queries {
			if diff := cmp.Diff(viewResults[i], texts(t, s, query)); diff != "" {
				t.Errorf("%s\n(-want +got):\n%s", query, diff)
			}
		}
		names := texts(t, s, "SELECT name, vulnerability_id FROM vulnerability_ids WHERE vulnerability_id LIKE 'GHSA%' ORDER BY name")
		if diff := cmp.Diff([]string{"CVE-2021-44228|GHSA-jfh8-c2jp-5v3q", "GHSA-jfh8-c2jp-5v3q|GHSA-jfh8-c2jp-5v3q"}, names); diff != "" {
			t.Error(diff)
		}
		closed := texts(t, s, "SELECT package, severity, since, until_time FROM exposures WHERE vulnerability_id = 'CVE-2020-1'")
		if diff := cmp.Diff([]string{"xz|High|2026-03-01T06:00:00Z|2026-03-02T12:00:00Z"}, closed); diff != "" {
			t.Error(diff)
		}
	})
}

// fillViews runs the image 1 with Log4Shell from 27 February until it is replaced by 2, with another vulnerability, in the morning of 1
// March, and 3, which holds the same package as 1, from 2 March on. The second database, of 2 March, closes a finding. Another one is suppressed.
func fillViews(t *testing.T, s *Store, clk *clocktesting.FakeClock) error {
	t.Helper()
	ctx := t.Context()
	log4shell := model.PackageFinding{
		Vulnerability: model.Vulnerability{ID: "GHSA-jfh8-c2jp-5v3q", Namespace: "github:language:java", Aliases: []string{"CVE-2021-44228"}, Severity: model.SeverityCritical},
		Fix:           model.Fix{State: model.FixStateFixed, Versions: []string{"2.15.0"}},
	}
	backdoor := model.PackageFinding{
		Vulnerability: model.Vulnerability{
			ID: "CVE-2024-3094", Namespace: "debian:distro:debian:13", Severity: model.SeverityCritical, KEV: []model.KnownExploited{{CVE: "CVE-2024-3094"}},
		},
		Fix: model.Fix{State: model.FixStateFixed, Versions: []string{"5.6.1+really5.4.5-1"}},
	}
	closed := model.PackageFinding{Vulnerability: model.Vulnerability{ID: "CVE-2020-1", Severity: model.SeverityHigh}}
	accepted := model.PackageFinding{Vulnerability: model.Vulnerability{ID: "CVE-2021-1", Severity: model.SeverityCritical}, Fix: log4shell.Fix}
	_, err := s.SyncDecisions(ctx, store.DecisionSourceKubernetes, []store.Decision{{
		Object: store.DecisionObject{Kind: "ClusterVulnerabilityException", Name: "accepted"}, Vulnerabilities: []string{"CVE-2021-1"},
		Status: model.DecisionAcceptedRisk, Comment: "why", ExpiresAt: time.Date(2026, 3, 15, 0, 0, 0, 0, time.UTC),
	}})
	if err != nil {
		return err
	}
	days := []int{1, 2}
	_, err = s.SyncPolicies(ctx, []store.Policy{{Name: "p", From: model.DueFromFirstSeen, DueIn: model.DueIn{Critical: &days[0], High: &days[1]}}})
	if err != nil {
		return err
	}
	says := map[string][]model.PackageFinding{"log4j-core": {log4shell, accepted}, "xz": {backdoor, closed}}
	key := func(name string, n int) model.ImageKey {
		return model.ImageKey{ImageID: fmt.Sprintf("registry.example/%s@sha256:%d", name, n), Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
	}
	scan := func(image model.ImageKey, name string) error {
		if _, err := s.WantImages(ctx, []model.ImageKey{image}); err != nil {
			return err
		}
		catalog := model.Catalog{Packages: []model.HeldPackage{{Package: model.Package{Fingerprint: name, Name: name, Version: "1", Type: "x"}}}}
		if image.ImageID == key("shop", 1).ImageID {
			catalog.Distro, catalog.Created = "debian:12", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			lifecycle := model.Lifecycle{EndOfLife: time.Date(2026, 6, 10, 0, 0, 0, 0, time.UTC)}
			if err := s.SaveLifecycles(ctx, "build", map[string]model.Lifecycle{catalog.Distro: lifecycle}); err != nil {
				return err
			}
		}
		if err := s.SaveSBOM(ctx, image, store.SBOM{SHA256: "d", Size: 1}, catalog); err != nil {
			return err
		}
		return storetest.Match(ctx, s, image, "d", says)
	}
	web := store.Use{Image: key("shop", 1), Workload: store.Workload{Namespace: "shop", Kind: "Deployment", Name: "web"}, Container: "app"}
	job := store.Use{Image: key("old", 3), Workload: store.Workload{Namespace: "legacy", Kind: "CronJob", Name: "report"}, Container: "app"}
	run := func(uses ...store.Use) error {
		if err := s.RecordUses(ctx, "s", uses); err != nil {
			return err
		}
		return s.RecordDay(ctx)
	}
	for _, step := range []func() error{
		func() error { _, err := s.StartResultSet(ctx, model.DatabaseBuild{ID: "1"}, "", true); return err },
		func() error { return scan(web.Image, "log4j-core") },
		func() error { return run(web) },
		func() error { clk.Step(42 * time.Hour); web.Image = key("shop", 2); return scan(web.Image, "xz") },
		func() error { return run(web) },
		func() error { clk.Step(30 * time.Hour); says["xz"] = says["xz"][:1]; return switchTo(ctx, s, says) },
		func() error { return scan(job.Image, "log4j-core") },
		func() error { return run(web, job) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// texts runs a query and returns each row as one text.
func texts(t *testing.T, s *Store, query string) []string {
	t.Helper()
	rows, err := s.db.Reader().Raw(query).Rows()
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close() //nolint:errcheck // Err tells whether all rows were read.
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for rows.Next() {
		values, targets := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range values {
			targets[i] = &values[i]
		}
		if err := rows.Scan(targets...); err != nil {
			t.Fatal(err)
		}
		parts := make([]string, len(values))
		for i, value := range values {
			if parts[i] = value.String; !value.Valid {
				parts[i] = "NULL"
			}
		}
		all = append(all, strings.Join(parts, "|"))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// switchTo makes a second result set current, in which packages have these findings.
func switchTo(ctx context.Context, s *Store, says map[string][]model.PackageFinding) error {
	next, err := s.StartResultSet(ctx, model.DatabaseBuild{ID: "2"}, "", true)
	if err != nil {
		return err
	}
	answered, err := s.AnsweredPackages(ctx, 0, store.MaxKeys)
	if err != nil {
		return err
	}
	ids := make([]int64, len(answered))
	for i, p := range answered {
		ids[i] = p.ID
	}
	if err := errors.Join(s.QueuePackages(ctx, next.Number, ids), s.StartMatching(ctx, next.Number)); err != nil {
		return err
	}
	packages, err := s.QueuedPackages(ctx, next.Number, store.MaxPageSize)
	if err != nil {
		return err
	}
	answers := map[int64]model.PackageAnswer{}
	for _, p := range packages {
		answers[p.ID] = model.PackageAnswer{Findings: says[p.Name]}
	}
	if err := s.SaveAnswers(ctx, next.Number, answers); err != nil {
		return err
	}
	_, err = s.Switch(ctx, next.Number)
	return err
}
