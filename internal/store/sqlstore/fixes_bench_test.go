package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest/fleet"
)

const (
	// overdueCalls is how often BenchmarkOverdueFixes reads a list.
	overdueCalls = 20
	// overduePlans is how often it does so before: connections begin, and PostgreSQL makes a plan for all values from the sixth call on.
	overduePlans = 7
)

// BenchmarkNewerTags reads fixes before and after the most images that one scope may look up have a newer tag, which closes every other finding. It prints how
// long it takes to compare all of them, and to count them again.
func BenchmarkNewerTags(b *testing.B) {
	var times []listTime
	eachBulk(b, func(b *testing.B, s *Store) {
		b.Helper()
		l := &lists{b, s, &times}
		b.Run("without", func(b *testing.B) { (&lists{b, s, &times}).fixes() })
		if err := s.write(b.Context(), "fill", func(tx *txn) error { return fillNewerTags(tx, []string{"1.0"}, store.MaxTagLookups, 2) }); err != nil {
			b.Fatal(err)
		}
		for _, step := range []struct {
			name string
			run  func() error
		}{
			{"compare", func() error { return s.refreshAllTagFixes(b.Context()) }},
			{"compare again", func() error { return s.refreshAllTagFixes(b.Context()) }},
			{"count", func() error {
				return s.write(b.Context(), "count", func(tx *txn) error {
					tx.fixAll = true
					return tx.refreshTagFixes()
				})
			}},
		} {
			start := time.Now()
			if err := step.run(); err != nil {
				b.Fatal(err)
			}
			fmt.Printf("%s: %s newer tags of %d images: %s\n", b.Name(), step.name, store.MaxTagLookups, time.Since(start).Round(time.Millisecond))
		}
		if err := analyze(b.Context(), s); err != nil {
			b.Fatal(err)
		}
		b.Run("with", func(b *testing.B) { (&lists{b, s, &times}).fixes() })
		l.measure("newer-tags", func(ctx context.Context) (int, error) {
			page, err := s.ListFixes(ctx, store.AllNamespaces(), store.FixQuery{Kind: store.FixNewerTag})
			return page.Total, err
		})
		l.measure("newer-tags-seen-in-namespaces", func(ctx context.Context) (int, error) {
			page, err := s.ListFixes(ctx, store.OnlyNamespaces("namespace-7", "namespace-8"), store.FixQuery{Kind: store.FixNewerTag})
			return page.Total, err
		})
	})
}

// BenchmarkNewerBases reads fixes of two base images with 5,000 images on each, of which each runs with two tags that have a newer one: it closes all findings of
// the base.
func BenchmarkNewerBases(b *testing.B) {
	var times []listTime
	eachOnTwoBases(b, func(b *testing.B, s *Store) {
		b.Helper()
		l := &lists{b, s, &times}
		list := func(name string, in store.Namespaces, query store.FixQuery) {
			query.Kind = store.FixNewerBase
			l.measure("newer-bases-"+name, func(ctx context.Context) (int, error) {
				page, err := s.ListFixes(ctx, in, query)
				return page.Total, err
			})
		}
		list("first", store.AllNamespaces(), store.FixQuery{})
		list("kev", store.AllNamespaces(), store.FixQuery{KEV: true})
		list("of-a-namespace", store.AllNamespaces(), store.FixQuery{Where: store.Where{Namespace: "namespace-0"}})
		list("seen-in-namespaces", store.OnlyNamespaces("namespace-0", "namespace-1", "namespace-7"), store.FixQuery{})
		l.fixes()
	})
}

// eachOnTwoBases runs a benchmark with stores of images of which half are on each of two base images, which have newer tags.
func eachOnTwoBases(b *testing.B, benchmark func(b *testing.B, s *Store)) {
	b.Helper()
	eachFilled(b, fleet.Fleet{Images: bulk.Images, PerBase: bulk.Images / 2}, func(b *testing.B, s *Store) {
		b.Helper()
		err := s.write(b.Context(), "fill", func(tx *txn) error {
			if err := onlyBases(tx, 2*fleet.BasePackages); err != nil {
				return err
			}
			return fillNewerTags(tx, []string{"1.0", "1"}, 2, 1)
		})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.refreshAllTagFixes(b.Context()); err != nil {
			b.Fatal(err)
		}
		for more := true; more; {
			start := time.Now()
			if more, err = s.CompareNewerTags(b.Context()); err != nil {
				b.Fatal(err)
			}
			fmt.Printf("%s: read what the images on a base lack: %s\n", b.Name(), time.Since(start).Round(time.Millisecond))
		}
		if err := analyze(b.Context(), s); err != nil {
			b.Fatal(err)
		}
		benchmark(b, s)
	})
}

// onlyBases makes the first two images those that all others were built on: they have the layers and packages of these bases only.
func onlyBases(tx *txn, packages int) error {
	for _, statement := range []string{
		"DELETE FROM image_layers WHERE image_pk <= 2 AND position > 3", "UPDATE image_layers SET is_top = 1 WHERE image_pk <= 2 AND position = 3",
		fmt.Sprintf("DELETE FROM image_packages WHERE image_pk <= 2 AND package_pk > %d", packages), "DELETE FROM image_package_sets WHERE image_pk <= 2",
	} {
		if err := tx.Execute(statement); err != nil {
			return err
		}
	}
	return tx.savePackageSets([]int64{1, 2})
}

// fillNewerTags gives the first images a lookup of each of some tags with a newer one that is matched. It closes all but one in some findings.
func fillNewerTags(tx *txn, names []string, number, stays int) error {
	current, err := currentNumber(tx.DB)
	if err != nil {
		return err
	}
	var lookups, places, tags, images []any
	for n := range number * len(names) {
		name := names[n%len(names)]
		wanted := store.WantedTags{Key: fleet.Image(n / len(names)), Repository: "registry.example/app", Tag: name}
		id, image := tagLookupID("scope", &wanted), fmt.Sprintf("image-%d", n)
		lookups = append(lookups, id, "scope", wanted.Key.ImageID, wanted.Key.Platform.String(), wanted.Repository, name, newNonce(), 0, 0, 0, 0, 1, "", 9, "", "", "", "", "", "")
		for namespace := range fleet.Namespaces {
			places = append(places, id, fleet.Namespace(namespace))
		}
		tags = append(tags, id, 0, "1.1", "patch", "sha256:1", "", image)
		var present presentFindings
		if err := tx.Raw("SELECT id FROM images WHERE image_id = ?", wanted.Key.ImageID).Scan(&present.image).Error; err != nil {
			return err
		}
		if err := present.read(tx.DB, current); err != nil {
			return err
		}
		var found []store.TagFinding
		for i := range present.rows {
			if row := &present.rows[i]; stays > 1 && i%stays == 0 {
				found = append(found, store.TagFinding{
					VulnerabilityID: row.VulnerabilityID, Package: row.Name, Severity: model.Severity(row.Severity), Risk: float64(row.RiskMicros) / 1e6, //nolint:gosec // It was stored from one.
				})
			}
		}
		content, err := encodeTagFindings(append(found, store.TagFinding{VulnerabilityID: "CVE-1", Package: "new", Severity: model.SeverityLow}))
		if err != nil {
			return err
		}
		images = append(images, image, "scope", "team", wanted.Repository, wanted.Key.Platform.String(), image, "syft", "", "", 0, 1, current, "build", content, "")
	}
	for _, rows := range []struct {
		table   string
		columns []string
		values  []any
	}{
		{"tag_lookups", tagLookupInsert, lookups},
		{"tag_lookup_places", []string{"lookup", "namespace"}, places},
		{"newer_tags", newerTagColumns, tags},
		{"tag_images", tagImageColumns, images},
	} {
		if err := tx.Insert(rows.table, rows.columns, rows.values, ""); err != nil {
			return err
		}
	}
	return nil
}

// overdueList is a list that BenchmarkOverdueFixes reads.
type overdueList struct {
	name  string
	in    store.Namespaces
	query store.FixQuery
}

// BenchmarkOverdueFixes reads what has overdue findings, when a policy makes all critical findings overdue, and prints the processor time of the calls, with that
// of the database server.
func BenchmarkOverdueFixes(b *testing.B) {
	all := store.AllNamespaces()
	eachBulk(b, func(b *testing.B, s *Store) {
		b.Helper()
		var names []string
		for namespace := range 20 {
			names = append(names, fleet.Namespace(namespace))
		}
		readOverdue(b, s, []overdueList{
			{"all, with what is overdue", all, store.FixQuery{}},
			{"overdue", all, store.FixQuery{}},
			{"overdue, with a finding in KEV", all, store.FixQuery{KEV: true}},
			{"overdue updates", all, store.FixQuery{Kind: store.FixUpdate}},
			{"overdue, of a namespace", all, store.FixQuery{Where: store.Where{Namespace: "namespace-7"}}},
			{"overdue, seen in 20 namespaces", store.OnlyNamespaces(names...), store.FixQuery{}},
			{"overdue, with a finding in KEV, seen in 20 namespaces", store.OnlyNamespaces(names...), store.FixQuery{KEV: true}},
		})
	})
	eachOnTwoBases(b, func(b *testing.B, s *Store) {
		b.Helper()
		readOverdue(b, s, []overdueList{
			{"overdue", all, store.FixQuery{}},
			{"overdue, with a finding in KEV", all, store.FixQuery{KEV: true}},
			{"overdue updates", all, store.FixQuery{Kind: store.FixUpdate}},
			{"overdue rebuilds", all, store.FixQuery{Kind: store.FixRebuild}},
			{"overdue, without a fix", all, store.FixQuery{Kind: store.FixWait}},
			{"overdue newer bases", all, store.FixQuery{Kind: store.FixNewerBase}},
			{"overdue newer bases, with a finding in KEV", all, store.FixQuery{Kind: store.FixNewerBase, KEV: true}},
			{"overdue newer bases, of a namespace", all, store.FixQuery{Kind: store.FixNewerBase, Where: store.Where{Namespace: "namespace-0"}}},
			{"overdue newer bases, seen in three namespaces", store.OnlyNamespaces("namespace-0", "namespace-1", "namespace-7"), store.FixQuery{Kind: store.FixNewerBase}},
		})
	})
}

// readOverdue makes all critical findings overdue and reads lists, those whose names say so of what has such findings.
func readOverdue(b *testing.B, s *Store, lists []overdueList) {
	b.Helper()
	days := 0
	policy := store.Policy{Name: "critical", From: model.DueFromFirstSeen, DueIn: model.DueIn{Critical: &days}}
	if problems, err := s.SyncPolicies(b.Context(), []store.Policy{policy}); err != nil || len(problems) > 0 {
		b.Fatal(problems, err)
	}
	err := s.write(b.Context(), "show in namespaces", func(tx *txn) error {
		if err := tx.Execute("DELETE FROM image_namespaces"); err != nil {
			return err
		}
		return tx.Execute("INSERT INTO image_namespaces (image_pk, namespace, since) SELECT DISTINCT image_pk, namespace, 3 FROM image_uses")
	})
	if err := errors.Join(err, analyze(b.Context(), s)); err != nil {
		b.Fatal(err)
	}
	for _, list := range lists {
		list.query.Overdue = strings.HasPrefix(list.name, "overdue")
		var p *processor
		var took, used []time.Duration
		for call := range overduePlans + overdueCalls {
			var page store.FixPage
			var err error
			start := time.Now()
			read := func() { page, err = s.ListFixes(b.Context(), list.in, list.query) }
			if call < overduePlans {
				read()
				p = newProcessor(b)
			} else {
				used = append(used, p.of(read))
				took = append(took, time.Since(start))
			}
			if err != nil || page.Total == 0 {
				b.Fatalf("%s: got %d rows, %v", list.name, page.Total, err)
			}
		}
		fmt.Printf("%s: %s: %.0f / %.0f ms of the processor, %.0f / %.0f ms\n", b.Name(), list.name, percentile(used, 50), percentile(used, 99), percentile(took, 50), percentile(took, 99))
	}
}
