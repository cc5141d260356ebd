package matching

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqlstore"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/dbtest"
)

// TestNewImagesDoNotWaitForUpgrades takes in an image while the SBOMs of many others are read again after an upgrade.
func TestNewImagesDoNotWaitForUpgrades(t *testing.T) {
	library := newShelf(dbtest.Sample(t))
	s := newStore(t)
	a, _ := newMatcher(t, &earlier{s}, library)
	for i := range 2 * batchImages {
		ingest(t, a, s, numbered(i), document)
	}
	before := &runner{Matcher: a, reread: time.Now()}
	if err := before.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	before.close()
	upgraded := &rereading{Store: s}
	a, _ = newMatcher(t, upgraded, library)
	late := numbered(1000)
	upgraded.replaced = func(n int) {
		image, err := s.Image(t.Context(), store.AllNamespaces(), late)
		switch {
		case n == 1:
			ingest(t, a, s, late, goModules(module, "v0.7.0"))
		case n == 2*batchImages && (err != nil || image.State != store.StateScanned):
			t.Errorf("the new image is %s after all others were read again, %v", image.State, err)
		}
	}
	settle(t, a)
	if upgraded.n != 2*batchImages {
		t.Errorf("%d SBOMs were read again, want %d", upgraded.n, 2*batchImages)
	}
}

// TestMatchFailedHeals has packages that cannot be matched for a while, of a new image and after a new database.
func TestMatchFailedHeals(t *testing.T) {
	first := dbtest.Sample(t)
	second := dbtest.Mutate(t, first, 1, dbtest.Fraction(0.5)...)
	images := map[model.ImageKey]string{numbered(0): goModules(module, "v0.1.0", "golang.org/x/text", "v0.3.0")}
	s, library := &refusing{Store: newStore(t)}, newShelf(first)
	a, counted := newMatcher(t, s, library)
	now := clocktesting.NewFakeClock(time.Now())
	a.clock = now
	r := &runner{Matcher: a}
	defer r.close()
	// pass works on until nothing is left, and returns the reason of the image and the number of packages that were matched.
	pass := func() (model.Reason, int) {
		t.Helper()
		return afterPasses(t, r, s.Store).Reason, counted.matched()
	}
	fill(t, a, s.Store, images)
	for _, database := range []vulndb.Installed{first, second} {
		s.refuse = true
		if database.Dir != first.Dir {
			library.put(database)
			library.request(true)
		}
		if reason, _ := pass(); reason != model.ReasonMatchFailed {
			t.Errorf("the reason is %q", reason)
		}
		if wait := r.retries.wait(retryAfter, now.Now()); wait != firstRetry {
			t.Errorf("the next pass is after %s, want %s", wait, firstRetry)
		}
		now.Step(firstRetry)
		if reason, _ := pass(); reason != model.ReasonMatchFailed {
			t.Errorf("the reason is %q though the cause remains", reason)
		}
		s.refuse = false
		now.Step(2*firstRetry - 1)
		if reason, n := pass(); reason != model.ReasonMatchFailed || n != 0 {
			t.Errorf("the reason is %q; %d packages were matched before it was time", reason, n)
		}
		now.Step(1)
		if reason, n := pass(); reason != "" || n != 2 {
			t.Errorf("the reason is %q after %d packages were matched", reason, n)
		}
		if wait := r.retries.wait(retryAfter, now.Now()); wait != retryAfter || len(r.retries) != 0 {
			t.Errorf("the next pass is after %s, of %d packages to be matched again", wait, len(r.retries))
		}
		same(t, fresh(t, images, database), pictures(t, s.Store))
	}
}

// TestMatchFailedIsTriedLessOften has packages that are never matched. Nothing is saved about them again.
func TestMatchFailedIsTriedLessOften(t *testing.T) {
	s := &refusing{Store: newStore(t), refuse: true}
	a, _ := newMatcher(t, s, newShelf(dbtest.Sample(t)))
	now := clocktesting.NewFakeClock(time.Now())
	a.clock = now
	fill(t, a, s.Store, map[model.ImageKey]string{numbered(0): goModules(module, "v0.1.0")})
	r := &runner{Matcher: a}
	defer func() { r.close() }()
	// tries returns how long after now packages were tried again, in a time.
	tries := func(within time.Duration) (after []time.Duration) {
		t.Helper()
		for began := now.Now(); ; now.Step(15 * time.Second) {
			before := s.saved
			if err := r.pass(t.Context()); err != nil {
				t.Fatal(err)
			}
			if s.saved > before {
				after = append(after, now.Since(began))
			}
			if now.Since(began) >= within {
				return after
			}
		}
	}
	minutes := func(numbers ...float64) (all []time.Duration) {
		for _, n := range numbers {
			all = append(all, time.Duration(n*float64(time.Minute)))
		}
		return all
	}
	if diff := cmp.Diff(minutes(0, 0.5, 1.5, 3.5, 7.5, 10, 20, 30), tries(30*time.Minute)); diff != "" {
		t.Errorf("tried after (-want +got):\n%s", diff)
	}
	// A package may have ended the process.
	r.close()
	r = &runner{Matcher: a}
	if diff := cmp.Diff(minutes(10, 20), tries(20*time.Minute)); diff != "" {
		t.Errorf("after a restart, tried after (-want +got):\n%s", diff)
	}
}

func TestRetriesAreBounded(t *testing.T) {
	var r retries[int64]
	now := time.Now()
	for id := range int64(2 * maxRetries) {
		r.failed(id, firstRetry, now)
	}
	if len(r) != maxRetries {
		t.Errorf("%d packages are matched again, want %d", len(r), maxRetries)
	}
	// One that failed before, and fails for another database, does not begin again.
	r.failedAgain(0, now)
	r.failed(0, firstRetry, now)
	if r[0].wait != 2*firstRetry {
		t.Errorf("it waits for %s", r[0].wait)
	}
	r.failedAgain(2*maxRetries-1, now)
	if len(r) != maxRetries {
		t.Errorf("%d packages are matched again, want %d", len(r), maxRetries)
	}
}

// TestFixesAreComputedAgain passes after the start, at once again, and after an hour.
func TestFixesAreComputedAgain(t *testing.T) {
	s := &refreshing{Store: newStore(t)}
	a, _ := newMatcher(t, s, newShelf(dbtest.Sample(t)))
	now := clocktesting.NewFakeClock(time.Now())
	a.clock = now
	r := &runner{Matcher: a}
	defer r.close()
	for _, step := range []struct {
		after time.Duration
		err   error
		want  int
	}{{0, errors.New("broken"), 1}, {0, nil, 2}, {rereadInterval - 1, nil, 2}, {1, nil, 3}} {
		now.Step(step.after)
		s.err = step.err
		if err := r.pass(t.Context()); !errors.Is(err, step.err) {
			t.Fatalf("got %v, want %v", err, step.err)
		}
		if s.n != step.want {
			t.Errorf("after another %s: fixes were computed %d times, want %d", step.after, s.n, step.want)
		}
	}
}

// refreshing is a store that counts how often fixes are computed again.
type refreshing struct {
	*sqlstore.Store
	n   int
	err error
}

func (r *refreshing) RefreshFixes(ctx context.Context) error {
	r.n++
	if r.err != nil {
		return r.err
	}
	return r.Store.RefreshFixes(ctx)
}

// refusing is a store that is told that no package can be matched.
type refusing struct {
	*sqlstore.Store
	refuse bool
	saved  int
}

func (r *refusing) SaveAnswers(ctx context.Context, resultSet int64, answers map[int64]model.PackageAnswer) error {
	r.saved++
	for id := range answers {
		if r.refuse {
			answers[id] = model.PackageAnswer{Failure: "it panics"}
		}
	}
	return r.Store.SaveAnswers(ctx, resultSet, answers)
}

// rereading is a store that calls back when it has replaced the catalog of an image.
type rereading struct {
	*sqlstore.Store
	n        int
	replaced func(n int)
}

func (r *rereading) ReplaceCatalog(ctx context.Context, key model.ImageKey, sbomDigest string, catalog model.Catalog) error {
	err := r.Store.ReplaceCatalog(ctx, key, sbomDigest, catalog)
	r.n++
	r.replaced(r.n)
	return err
}

// unreplaceable is a store that lists one image as outdated, and cannot replace its catalog.
type unreplaceable struct {
	*sqlstore.Store
	replaced int
}

func (u *unreplaceable) OutdatedCatalogs(_ context.Context, _ int, unmatched bool, after model.ImageKey, _ int) ([]model.ImageKey, error) {
	if unmatched || after != (model.ImageKey{}) {
		return nil, nil
	}
	return []model.ImageKey{numbered(0)}, nil
}

func (u *unreplaceable) ReplaceCatalog(context.Context, model.ImageKey, string, model.Catalog) error {
	u.replaced++
	return errors.New("a row is too long")
}

// TestAnSBOMThatCannotBeReplacedKeepsThePace: it is read again after an hour, as others are, and not in each pass.
func TestAnSBOMThatCannotBeReplacedKeepsThePace(t *testing.T) {
	s := &unreplaceable{Store: newStore(t)}
	a, _ := newMatcher(t, s, newShelf(dbtest.Sample(t)))
	now := clocktesting.NewFakeClock(time.Now())
	a.clock = now
	r := &runner{Matcher: a}
	defer r.close()
	fill(t, a, s.Store, map[model.ImageKey]string{numbered(0): goModules(module, "v0.1.0")})
	pass := func() {
		t.Helper()
		for range 5 {
			if err := r.pass(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	pass()
	if s.replaced != 1 {
		t.Errorf("the SBOM was read %d times in five passes, want once", s.replaced)
	}
	now.Step(rereadInterval)
	if pass(); s.replaced != 2 {
		t.Errorf("the SBOM was read %d times after %s, want once more", s.replaced-1, rereadInterval)
	}
}
