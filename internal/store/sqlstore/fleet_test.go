package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest/fleet"
)

// fillFleet fills a store that goes on being written through its methods.
func fillFleet(ctx context.Context, s *Store, described fleet.Fleet) error {
	f := filler{described}
	if err := f.fill(ctx, s, f.answers, f.owners, f.namespaces, f.queue, f.sequences); err != nil {
		return err
	}
	for {
		if taken, err := s.EvaluateRollouts(ctx, time.Time{}, store.MaxEvaluated); taken == 0 || err != nil {
			return errors.Join(err, s.RecordDay(ctx))
		}
	}
}

// evaluatedRollouts is how many of the latest rollouts are evaluated. The others wait.
const evaluatedRollouts = 300

func (f filler) queue(tx *txn) error {
	return tx.Execute("INSERT INTO rollout_queue (rollout_id, stage) SELECT id, ? FROM rollouts ORDER BY id DESC LIMIT ?", stageWaiting, evaluatedRollouts)
}

// answers says that all packages are answered, so that other images with them need no matching.
func (f filler) answers(tx *txn) error {
	return tx.Execute("INSERT INTO package_answers (package_pk, from_gen, until_gen, failure, search_keys) SELECT id, 1, ?, '', ? FROM packages", int64(stillOpen), []byte{})
}

func (f filler) owners(tx *txn) error {
	var values []any
	for n := range f.Workloads() {
		if owner := f.Owner(n); owner != "" {
			values = append(values, fleet.Namespace(n), fleet.Kind, f.Workload(n), owner)
		}
	}
	return tx.Insert("workload_owners", []string{"namespace", "kind", "name", "owner"}, values, "")
}

// namespaces lets who sees a namespace see the images that run there.
func (f filler) namespaces(tx *txn) error {
	var values []any
	for n := range f.Images {
		values = append(values, fleet.Namespace(n), n+1, 3)
	}
	return tx.Insert("image_namespaces", []string{"namespace", "image_pk", "since"}, values, "")
}

// sequences lets PostgreSQL go on behind the numbers that were given.
func (f filler) sequences(tx *txn) error {
	if tx.Dialect.Type() != sqldb.TypePostgres {
		return nil
	}
	for _, table := range []string{"images", "packages", "vulnerabilities"} {
		if err := tx.Execute("SELECT setval(pg_get_serial_sequence('" + table + "', 'id'), (SELECT MAX(id) FROM " + table + "))"); err != nil {
			return err
		}
	}
	return nil
}

// fleetAnswers are what a store answers about a fleet.
type fleetAnswers struct {
	Images, Running, Namespace, KEV, Vulnerabilities, Packages, Workloads, Owners, Affected, AffectedImages, Changes, Containers int
	Sum, Image                                                                                                                   store.Counts
	Owner                                                                                                                        string
}

// describedAnswers are those that follow from the description alone.
func describedAnswers(f fleet.Fleet) fleetAnswers {
	kev, _ := f.With(func(finding fleet.Finding) bool { return fleet.KEV(finding.CVE) })
	affected, rows := f.With(func(finding fleet.Finding) bool { return finding.CVE == f.WideCVE() })
	return fleetAnswers{
		Images: f.Images, Running: f.Images, Namespace: f.Images / fleet.Namespaces, KEV: len(kev), Vulnerabilities: len(f.Found()), Packages: len(f.Held()), Workloads: f.Workloads(),
		Owners: fleet.Owners + 1, Affected: rows, AffectedImages: len(affected), Changes: f.Changes(), Containers: f.Images, Sum: f.All(), Image: f.Counts(7), Owner: f.Owner(7),
	}
}

// storedAnswers asks a store.
func storedAnswers(t *testing.T, s *Store, f fleet.Fleet) fleetAnswers {
	t.Helper()
	all, ctx := store.AllNamespaces(), t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	images, err := s.ListImages(ctx, all, store.ImageQuery{})
	must(err)
	within, err := s.ListImages(ctx, store.OnlyNamespaces("namespace-7"), store.ImageQuery{})
	must(err)
	kev, err := s.ListImages(ctx, all, store.ImageQuery{KEV: true})
	must(err)
	vulnerabilities, err := s.ListVulnerabilities(ctx, all, store.VulnerabilityQuery{})
	must(err)
	packages, err := s.ListPackages(ctx, all, store.PackageQuery{})
	must(err)
	workloads, err := s.ListWorkloads(ctx, all, store.WorkloadQuery{Where: store.Where{}})
	must(err)
	owners, err := s.ListGroups(ctx, all, store.GroupQuery{})
	must(err)
	affected, err := s.Affected(ctx, all, store.AffectedQuery{ID: fleet.CVE(f.WideCVE())})
	must(err)
	changes, err := s.Changes(ctx, all, store.ChangeQuery{})
	must(err)
	covered, err := s.ListCoverage(ctx, all, store.CoverageQuery{})
	must(err)
	overview, err := s.Overview(ctx, all)
	must(err)
	image, err := s.Image(ctx, all, fleet.Image(7))
	must(err)
	if len(image.Owners) != 1 {
		t.Errorf("an image has the owners %q", image.Owners)
	}
	return fleetAnswers{
		images.Total, overview.Running, within.Total, kev.Total, vulnerabilities.Total, packages.Total, workloads.Total, owners.Total, affected.Total, affected.Images, changes.Total,
		covered.Total, overview.Counts, image.Counts, fmt.Sprint(image.Owners[0]),
	}
}

// TestFleet fills databases with a small fleet, compares what they answer with the description, and then adds an image with packages of the fleet.
func TestFleet(t *testing.T) {
	f := fleet.Fleet{Images: 300}
	want := describedAnswers(f)
	eachDatabase(t, func(t *testing.T, config Config) {
		s := openWith(t, config)
		if err := fillFleet(t.Context(), s, f); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, storedAnswers(t, s, f)); diff != "" {
			t.Fatalf("the store answers otherwise (-described +stored):\n%s", diff)
		}
		checkHeld(t, s)
		key := fleet.Image(f.Images)
		if err := addToFleet(t.Context(), s, f, key, 2, 3, 107); err != nil {
			t.Fatal(err)
		}
		image, err := s.Image(t.Context(), store.AllNamespaces(), key)
		if diff := cmp.Diff(f.CountsOf(2, 3, 107), image.Counts); err != nil || diff != "" {
			t.Errorf("the new image, %v (-described +stored):\n%s", err, diff)
		}
		checkHeld(t, s)
	})
}

// addToFleet adds an image with packages that are matched already.
func addToFleet(ctx context.Context, s *Store, f fleet.Fleet, key model.ImageKey, packages ...int) error {
	if _, err := s.WantImages(ctx, []model.ImageKey{key}); err != nil {
		return err
	}
	sbom := store.SBOM{MediaType: "application/vnd.syft+json", Content: []byte("none"), SHA256: "digest", Size: 4}
	if err := s.SaveSBOM(ctx, key, sbom, model.Catalog{Packages: f.HeldPackages(packages...), Created: time.Unix(1, 0)}); err != nil {
		return err
	}
	if _, unanswered, err := s.UnansweredPackages(ctx, key); err != nil || len(unanswered) > 0 {
		return fmt.Errorf("%d packages are to be matched, %w", len(unanswered), err)
	}
	return s.FinishImage(ctx, key, "digest")
}
