package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest/fleet"
)

// The namespaces of the benchmark, and how many of them are visible.
const (
	visibleNamespaces = 500
	visibleOfThese    = 20
	// everywhereImages are the images that run in every namespace, as sidecars do.
	everywhereImages = 10
)

// spreadUses lets each image run in one of the namespaces, and some in all.
func spreadUses(tx *txn) error {
	for _, table := range []string{"image_uses", "image_presences", "image_namespaces"} {
		if err := tx.Execute("DELETE FROM " + table); err != nil {
			return err
		}
	}
	var uses, presences, visible []any
	add := func(image, namespace int) {
		name, workload := fmt.Sprintf("namespace-%d", namespace), fmt.Sprintf("workload-%d", image%bulk.Workloads())
		uses = append(uses, "scope", image, name, "Deployment", workload, "main")
		presences = append(presences, image, fmt.Sprint(image, "/", namespace), "", name, "Deployment", workload, "main", 3, int64(stillOpen))
		visible = append(visible, name, image, 3)
	}
	for n := range bulk.Images {
		add(n+1, n%visibleNamespaces)
	}
	for n := range everywhereImages {
		for namespace := range visibleNamespaces {
			if image := n*97 + 1; namespace != (image-1)%visibleNamespaces {
				add(image, namespace)
			}
		}
	}
	if err := tx.Insert("image_uses", []string{"scope", "image_pk", "namespace", "kind", "name", "container"}, uses, ""); err != nil {
		return err
	}
	err := tx.Insert("image_presences", []string{"image_pk", "slot", "cluster", "namespace", "kind", "name", "container", "since", "until_time"}, presences, "")
	if err != nil {
		return err
	}
	return tx.Insert("image_namespaces", []string{"namespace", "image_pk", "since"}, visible, "")
}

// spreadHistory spreads what lists show of containers, rollouts, days and events over the namespaces.
func spreadHistory(tx *txn) error {
	for _, table := range []string{"container_coverage", "change_packages", "finding_changes", "rollouts", "daily_sums", "event_namespaces", "events"} {
		if err := tx.Execute("DELETE FROM " + table); err != nil {
			return err
		}
	}
	// The database became current when the images were visible and matched.
	if err := errors.Join(tx.Execute("UPDATE images SET matched_at = 2"), tx.Execute("UPDATE generations SET current_since = 5, opened = ?", bulk.Changes())); err != nil {
		return err
	}
	return filler{bulk}.historyIn(tx, visibleNamespaces)
}

// percentile is that of durations, in milliseconds.
func percentile(took []time.Duration, of int) float64 {
	slices.Sort(took)
	return float64(took[len(took)*of/100].Microseconds()) / 1000
}

// besideAll measures a call with some visible namespaces beside all, in turn, and reports how many times as long the first takes, and how much of the processor's time.
func besideAll(b *testing.B, in store.Namespaces, name string, call func(ctx context.Context, in store.Namespaces) (int, error)) {
	b.Helper()
	b.Run(name, func(b *testing.B) {
		rows := 0
		read := func(in store.Namespaces) {
			total, err := call(b.Context(), in)
			if err != nil || total == 0 {
				b.Fatalf("got %d rows, %v", total, err)
			}
			rows = total
		}
		for range 3 { // Connections begin, and plans are made.
			read(store.AllNamespaces())
			read(in)
		}
		p := newProcessor(b)
		var some, all, someUsed, allUsed []time.Duration
		for b.Loop() {
			for _, one := range []struct {
				in         store.Namespaces
				took, used *[]time.Duration
			}{{store.AllNamespaces(), &all, &allUsed}, {in, &some, &someUsed}} {
				start := time.Now()
				*one.used = append(*one.used, p.of(func() { read(one.in) }))
				*one.took = append(*one.took, time.Since(start))
			}
		}
		b.ReportMetric(percentile(all, 50), "all-p50-ms")
		b.ReportMetric(percentile(some, 50), "some-p50-ms")
		b.ReportMetric(percentile(all, 99), "all-p99-ms")
		b.ReportMetric(percentile(some, 99), "some-p99-ms")
		b.ReportMetric(percentile(allUsed, 50), "all-cpu-ms")
		b.ReportMetric(percentile(someUsed, 50), "some-cpu-ms")
		b.ReportMetric(percentile(some, 50)/max(percentile(all, 50), 0.001), "p50-ratio")
		b.ReportMetric(percentile(some, 99)/max(percentile(all, 99), 0.001), "p99-ratio")
		b.ReportMetric(percentile(someUsed, 50)/max(percentile(allUsed, 50), 0.001), "cpu-ratio")
		b.ReportMetric(float64(rows), "rows")
		b.ReportMetric(0, "ns/op")
	})
}

// visibleInBench are the namespaces that are visible.
func visibleInBench() store.Namespaces {
	var names []string
	for n := range visibleOfThese {
		names = append(names, fmt.Sprintf("namespace-%d", n*visibleNamespaces/visibleOfThese))
	}
	return store.OnlyNamespaces(names...)
}

// BenchmarkVisible reads lists with 20 of 500 namespaces visible, beside the whole cluster.
func BenchmarkVisible(b *testing.B) {
	eachBulk(b, func(b *testing.B, s *Store) {
		b.Helper()
		for _, spread := range []func(*txn) error{spreadUses, spreadHistory} {
			if err := s.write(b.Context(), "spread", spread); err != nil {
				b.Fatal(err)
			}
		}
		if err := analyze(b.Context(), s); err != nil {
			b.Fatal(err)
		}
		in := visibleInBench()
		for name, query := range map[string]store.ImageQuery{"first": {}, "worst": {Sort: store.SortSeverity}} {
			besideAll(b, in, "images-"+name, func(ctx context.Context, in store.Namespaces) (int, error) {
				page, err := s.ListImages(ctx, in, query)
				return page.Total, err
			})
		}
		for name, query := range map[string]store.VulnerabilityQuery{"worst": {}, "text": {Text: "2026-006"}} {
			besideAll(b, in, "vulnerabilities-"+name, func(ctx context.Context, in store.Namespaces) (int, error) {
				page, err := s.ListVulnerabilities(ctx, in, query)
				return page.Total, err
			})
		}
		for name, query := range map[string]store.PackageQuery{"name": {}, "worst": {Sort: store.SortPackageSeverity}} {
			besideAll(b, in, "packages-"+name, func(ctx context.Context, in store.Namespaces) (int, error) {
				page, err := s.ListPackages(ctx, in, query)
				return page.Total, err
			})
		}
		besideAll(b, in, "affected-everywhere", func(ctx context.Context, in store.Namespaces) (int, error) {
			page, err := s.Affected(ctx, in, store.AffectedQuery{ID: fleet.CVE(bulk.WideCVE())})
			return page.Total, err
		})
		besideAll(b, in, "workloads-worst", func(ctx context.Context, in store.Namespaces) (int, error) {
			page, err := s.ListWorkloads(ctx, in, store.WorkloadQuery{Sort: store.SortWorkloadSeverity})
			return page.Total, err
		})
		for name, call := range map[string]func(ctx context.Context, in store.Namespaces) (int, error){
			"exposures-everywhere": func(ctx context.Context, in store.Namespaces) (int, error) {
				page, err := s.Exposures(ctx, in, store.ExposureQuery{ID: fleet.CVE(bulk.WideCVE())})
				return page.Total, err
			},
			"findings": func(ctx context.Context, in store.Namespaces) (int, error) {
				page, err := s.Findings(ctx, in, store.FindingQuery{Image: fleet.Image(0)})
				return page.Total, err
			},
			"fixes": func(ctx context.Context, in store.Namespaces) (int, error) {
				page, err := s.ListFixes(ctx, in, store.FixQuery{})
				return page.Total, err
			},
			"bases": func(ctx context.Context, in store.Namespaces) (int, error) {
				page, err := s.ListBases(ctx, in, store.BaseQuery{})
				return page.Total, err
			},
			"changes": func(ctx context.Context, in store.Namespaces) (int, error) {
				page, err := s.Changes(ctx, in, store.ChangeQuery{Build: "build"})
				return page.Total, err
			},
			"coverage": func(ctx context.Context, in store.Namespaces) (int, error) {
				page, err := s.ListCoverage(ctx, in, store.CoverageQuery{})
				return page.Total, err
			},
			"rollouts": func(ctx context.Context, in store.Namespaces) (int, error) {
				page, err := s.ListRollouts(ctx, in, store.RolloutQuery{})
				return page.Total, err
			},
			"events": func(ctx context.Context, in store.Namespaces) (int, error) {
				events, err := s.EventsSince(ctx, in, int64(bulk.Events()/2), store.DefaultPageSize)
				return len(events), err
			},
			"trends": func(ctx context.Context, in store.Namespaces) (int, error) {
				days, err := s.Trend(ctx, in, store.TrendQuery{From: time.Unix(0, 0), To: time.Unix(0, 0).AddDate(0, 0, store.MaxTrendDays-1)})
				return len(days), err
			},
			"result-sets": func(ctx context.Context, in store.Namespaces) (int, error) {
				sets, err := s.ListResultSets(ctx, in, store.MaxKeys)
				return len(sets), err
			},
			"records-everywhere": func(ctx context.Context, in store.Namespaces) (int, error) {
				records, err := s.VulnerabilityRecords(ctx, in, fleet.CVE(bulk.WideCVE()))
				return len(records), err
			},
			"changes-since": func(ctx context.Context, in store.Namespaces) (int, error) {
				_, err := s.ChangesSince(ctx, in, time.Now().AddDate(0, 0, -7))
				return 1, err
			},
		} {
			besideAll(b, in, name, call)
		}
		besideAll(b, in, "overview", func(ctx context.Context, in store.Namespaces) (int, error) {
			overview, err := s.Overview(ctx, in)
			return overview.Packages, err
		})
	})
}
