package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"text/tabwriter"
	"time"

	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest/fleet"
	"github.com/scanner-operator/scanner-operator/internal/vexdecisions"
)

// bulkDecisions each match a finding of a package of their own: half of what images show is suppressed.
var bulkDecisions = bulk.Packages() / 2

const (
	// decidedWithin is how long it may take to apply them, and decidedShare how many times as long lists may take then.
	decidedWithin = 5 * time.Second
	decidedShare  = 1.2
	// decidedCalls is how often each list is read in a phase.
	decidedCalls = 30
)

// bulkDecision is a statement about one vulnerability in one package.
func bulkDecision(n int) store.Decision {
	id := 2 * (n + 1)
	name, version, kind := bulk.Package(id)
	purl := fleet.PURL(name, version)
	if kind == "npm" {
		purl = "pkg:npm/" + name + "@" + version
	}
	d := store.Decision{
		Object:          store.DecisionObject{Kind: "ClusterVulnerabilityException", Name: fmt.Sprintf("exception-%05d", n)},
		Vulnerabilities: []string{fleet.CVE(id * 7919 % bulk.CVEs())}, Packages: []string{purl},
		Status: model.DecisionNotAffected, Justification: "vulnerable_code_not_in_execute_path", Comment: "Nothing calls it.", Author: "jane",
	}
	if n%10 == 0 {
		d.ExpiresAt = time.Now().Add(time.Duration(1+n%90) * 24 * time.Hour)
	}
	return d
}

// decidedList is a list that decisions change.
type decidedList struct {
	name string
	call func(ctx context.Context) (int, error)
}

// decidedLists are the lists for who sees some namespaces, with an image and a namespace that are visible.
func decidedLists(s *Store, in store.Namespaces, image int, namespace string) []decidedList {
	return []decidedList{
		{"images-worst", func(ctx context.Context) (int, error) {
			page, err := s.ListImages(ctx, in, store.ImageQuery{Sort: store.SortSeverity})
			return page.Total, err
		}},
		{"images-epss", func(ctx context.Context) (int, error) {
			page, err := s.ListImages(ctx, in, store.ImageQuery{MinEPSS: 0.9})
			return page.Total, err
		}},
		{"image-findings", func(ctx context.Context) (int, error) {
			page, err := s.Findings(ctx, in, store.FindingQuery{Image: fleet.Image(image), Sort: store.SortFindingRisk})
			return page.Total, err
		}},
		{"vulnerabilities-risk", func(ctx context.Context) (int, error) {
			page, err := s.ListVulnerabilities(ctx, in, store.VulnerabilityQuery{})
			return page.Total, err
		}},
		{"vulnerabilities-namespace", func(ctx context.Context) (int, error) {
			page, err := s.ListVulnerabilities(ctx, in, store.VulnerabilityQuery{Where: store.Where{Namespace: namespace}})
			return page.Total, err
		}},
		{"affected-everywhere", func(ctx context.Context) (int, error) {
			page, err := s.Affected(ctx, in, store.AffectedQuery{ID: fleet.CVE(bulk.WideCVE())})
			return page.Total, err
		}},
		{"packages-worst", func(ctx context.Context) (int, error) {
			page, err := s.ListPackages(ctx, in, store.PackageQuery{Sort: store.SortPackageSeverity})
			return page.Total, err
		}},
		{"workloads-worst", func(ctx context.Context) (int, error) {
			page, err := s.ListWorkloads(ctx, in, store.WorkloadQuery{Sort: store.SortWorkloadSeverity})
			return page.Total, err
		}},
		{"overview", func(ctx context.Context) (int, error) {
			overview, err := s.Overview(ctx, in)
			return overview.Packages, err
		}},
	}
}

// boundHolds says whether a bound holds.
func boundHolds(holds bool) string {
	if holds {
		return "yes"
	}
	return "NO"
}

// BenchmarkDecisions applies 10,000 statements to 10,000 images with 2 million findings and ends them. It reads lists beside another store that has the same content without
// decisions, and prints the processor time of both.
func BenchmarkDecisions(b *testing.B) {
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "what\twithout\twith\ttimes\tbound\n")
	eachBulk(b, func(b *testing.B, s *Store) {
		b.Helper()
		without := filledStore(b, s.db.Dialect().Type(), bulk)
		decisions := make([]store.Decision, bulkDecisions)
		for n := range decisions {
			decisions[n] = bulkDecision(n)
		}
		sync := func(what string, decisions []store.Decision) {
			b.Helper()
			start := time.Now()
			problems, err := s.SyncDecisions(b.Context(), store.DecisionSourceKubernetes, decisions)
			took := time.Since(start)
			if err != nil || len(problems) > 0 {
				b.Fatalf("%s: %d problems, %v", what, len(problems), err)
			}
			b.ReportMetric(float64(took.Milliseconds()), "ms-"+what)
			fmt.Fprintf(out, "%s: %s\t\t%s\t\t%s\n", b.Name(), what, took.Round(time.Millisecond), boundHolds(took <= decidedWithin))
		}
		for b.Loop() {
			sync("apply", decisions)
			if err := analyze(b.Context(), s); err != nil {
				b.Fatal(err)
			}
			sync("again", decisions)
			decisions[7].Comment = "Nothing calls it, as was shown."
			sync("edit", decisions)
			s, without = reopened(b, s), reopened(b, without)
			lists := func(s *Store) []decidedList { return decidedLists(s, store.AllNamespaces(), 77, "namespace-7") }
			compareTimes(b, out, "all namespaces", lists(without), lists(s))
			start := time.Now()
			page, err := s.ListDecisions(b.Context(), store.AllNamespaces(), store.DecisionQuery{State: store.DecisionStanding})
			if err != nil || page.Total != bulkDecisions {
				b.Fatalf("%d decisions, %v", page.Total, err)
			}
			fmt.Fprintf(out, "%s: list of decisions\t\t%s\t\t%s\n", b.Name(), time.Since(start).Round(time.Millisecond), boundHolds(time.Since(start) < listBound))
			sync("end", nil)
			if err := timePolicies(b, s, out); err != nil {
				b.Fatal(err)
			}
		}
	})
	if err := out.Flush(); err != nil {
		b.Error(err)
	}
}

// BenchmarkVisibleDecisions applies 10,000 exceptions of 500 namespaces, each about its own namespace, and ends them. It reads lists with 20 of these visible, and with one,
// beside another store that has the same content without exceptions, and prints the processor time of both.
func BenchmarkVisibleDecisions(b *testing.B) {
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "what\twithout\twith\ttimes\tbound\n")
	decisions := make([]store.Decision, bulkDecisions)
	for n := range decisions {
		decisions[n] = bulkDecision(n)
		namespace := fmt.Sprintf("namespace-%d", n%visibleNamespaces)
		decisions[n].Object.Kind, decisions[n].Object.Namespace = "VulnerabilityException", namespace
		decisions[n].Places = &store.DecisionPlaces{Selector: namespace, Namespaces: []string{namespace}}
	}
	eachBulk(b, func(b *testing.B, with *Store) {
		b.Helper()
		without := filledStore(b, with.db.Dialect().Type(), bulk)
		for _, s := range []*Store{without, with} {
			if err := errors.Join(s.write(b.Context(), "spread", spreadUses), analyze(b.Context(), s)); err != nil {
				b.Fatal(err)
			}
		}
		sync := func(what string, decisions []store.Decision) {
			b.Helper()
			start := time.Now()
			var problems map[store.DecisionObject]store.DecisionProblem
			var err error
			used := newProcessor(b).of(func() { problems, err = with.SyncDecisions(b.Context(), store.DecisionSourceKubernetes, decisions) })
			took := time.Since(start)
			if err := errors.Join(err, analyze(b.Context(), with)); err != nil || len(problems) > 0 {
				b.Fatalf("%s: %d problems, %v", what, len(problems), err)
			}
			b.ReportMetric(float64(took.Milliseconds()), "ms-"+what)
			fmt.Fprintf(out, "%s: %s\t\t%s, %s of the processor\t\t%s\n", b.Name(), what, took.Round(time.Millisecond), used.Round(time.Millisecond), boundHolds(took <= decidedWithin))
		}
		for b.Loop() {
			sync("apply", decisions)
			with, without = reopened(b, with), reopened(b, without)
			for _, view := range []struct {
				name  string
				in    store.Namespaces
				image int
			}{{"20 namespaces", visibleInBench(), 3 * visibleNamespaces / visibleOfThese}, {"one namespace", store.OnlyNamespaces("namespace-0"), 0}} {
				lists := func(s *Store) []decidedList { return decidedLists(s, view.in, view.image, "namespace-0") }
				compareTimes(b, out, view.name, lists(without), lists(with))
			}
			sync("end", nil)
		}
	})
	if err := out.Flush(); err != nil {
		b.Error(err)
	}
}

// compareTimes reads lists without and with decisions in turn, and prints the processor time that calls take.
func compareTimes(b *testing.B, out io.Writer, view string, without, with []decidedList) {
	b.Helper()
	for n := range without {
		var p *processor
		var took [2][]time.Duration
		for call := range 3 + decidedCalls {
			for i, list := range []decidedList{without[n], with[n]} {
				var total int
				var err error
				read := func() { total, err = list.call(b.Context()) }
				if call < 3 { // Connections begin, and plans are made.
					read()
					p = newProcessor(b)
				} else {
					took[i] = append(took[i], p.of(read))
				}
				if err != nil || total == 0 {
					b.Fatalf("%s: got %d rows, %v", list.name, total, err)
				}
			}
		}
		before, after := percentile(took[0], 50), percentile(took[1], 50)
		if view != "one namespace" {
			b.ReportMetric(after/before, "times-"+without[n].name)
		}
		fmt.Fprintf(out, "%s: %s of %s\t%.1f ms\t%.1f ms\t%.2f\t%s\n", b.Name(), without[n].name, view, before, after, after/before, boundHolds(after <= decidedShare*before))
	}
}

// timePolicies applies a policy that all findings of some severities are due by, counts what is due, and removes it again.
func timePolicies(b *testing.B, s *Store, out io.Writer) error {
	b.Helper()
	days, soon := 7, time.Now().AddDate(0, 0, 14)
	due := store.Policy{Name: "default", From: model.DueFromFirstSeen, DueIn: model.DueIn{Critical: &days, High: &days, KEV: &days}}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"apply a policy", func() error {
			problems, err := s.SyncPolicies(b.Context(), []store.Policy{due})
			return errors.Join(err, problemsIn(problems))
		}},
		{"count what is due", func() error { _, err := s.ListPolicies(b.Context(), store.AllNamespaces()); return err }},
		{"count what is due by owner", func() error {
			_, err := s.ListGroups(b.Context(), store.AllNamespaces(), store.GroupQuery{Due: true})
			return err
		}},
		{"list vulnerabilities due soon", func() error {
			_, err := s.ListVulnerabilities(b.Context(), store.AllNamespaces(), store.VulnerabilityQuery{DueBefore: soon})
			return err
		}},
		{"list overdue vulnerabilities", func() error {
			_, err := s.ListVulnerabilities(b.Context(), store.AllNamespaces(), store.VulnerabilityQuery{Overdue: true})
			return err
		}},
		{"list packages due soon", func() error {
			_, err := s.ListPackages(b.Context(), store.AllNamespaces(), store.PackageQuery{DueBefore: soon})
			return err
		}},
		{"report what is overdue", func() error { _, err := s.RecordOverdue(b.Context()); return err }},
		{"remove the policy", func() error { _, err := s.SyncPolicies(b.Context(), nil); return err }},
	} {
		start := time.Now()
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Fprintf(out, "%s: %s\t\t%s\t\n", b.Name(), step.name, time.Since(start).Round(time.Millisecond))
	}
	return nil
}

func problemsIn(problems map[string]store.PolicyProblem) error {
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("problems: %v", problems)
}

// unversioned compares no versions: statements of the benchmark name them.
type unversioned struct{}

func (unversioned) Satisfies(string, string, string) (bool, error) {
	return false, errors.ErrUnsupported
}

// bulkDocument makes a VEX document of statements about what bulkDecision is about.
func bulkDocument(b *testing.B, name string, from, to int) store.VEXContent {
	b.Helper()
	statements := make([]any, 0, to-from)
	for n := from; n < to; n++ {
		d := bulkDecision(n)
		statements = append(statements, map[string]any{
			"vulnerability": map[string]any{"name": d.Vulnerabilities[0]}, "products": []any{map[string]any{"@id": d.Packages[0]}},
			"status": "not_affected", "justification": d.Justification,
		})
	}
	content, err := json.Marshal(map[string]any{
		"@context": "https://openvex.dev/ns/v0.2.0", "@id": "https://example.com/" + name, "author": "Vendor", "timestamp": "2026-01-01T00:00:00Z", "version": 1,
		"statements": statements,
	})
	if err != nil {
		b.Fatal(err)
	}
	return store.VEXContent{Name: name, Content: content}
}

// BenchmarkVEX applies 10,000 statements of ten VEX documents to 10,000 images with 2 million findings, and ends them.
func BenchmarkVEX(b *testing.B) {
	const documents = 10
	eachBulk(b, func(b *testing.B, s *Store) {
		b.Helper()
		contents := make([]store.VEXContent, documents)
		for i := range contents {
			contents[i] = bulkDocument(b, fmt.Sprint("document-", i), i*bulkDecisions/documents, (i+1)*bulkDecisions/documents)
		}
		applier := vexdecisions.NewApplier(s, clock.RealClock{}, nil)
		apply := func(what string, change func() error) {
			b.Helper()
			start := time.Now()
			if err := errors.Join(change(), applier.Sync(b.Context())); err != nil {
				b.Fatalf("%s: %v", what, err)
			}
			b.ReportMetric(float64(time.Since(start).Milliseconds()), "ms-"+what)
		}
		source := store.VEXSource{Kind: store.VEXKindSource, Name: "vendor"}
		for b.Loop() {
			apply("apply", func() error { return s.SaveVEX(b.Context(), source, contents) })
			page, err := s.ListDecisions(b.Context(), store.AllNamespaces(), store.DecisionQuery{State: store.DecisionStanding})
			if err != nil || page.Total != bulkDecisions {
				b.Fatalf("%d decisions, %v", page.Total, err)
			}
			apply("end", func() error { _, err := s.DeleteVEX(b.Context(), source.Kind, source.Name, ""); return err })
		}
	})
}
