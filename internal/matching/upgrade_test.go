package matching

import (
	"context"
	"errors"
	"testing"
	"time"

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
		for range 3 {
			if err := r.pass(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		image, err := s.Image(t.Context(), store.AllNamespaces(), numbered(0))
		if err != nil {
			t.Fatal(err)
		}
		return image.Reason, counted.matched()
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
		now.Step(retryFailedAfter)
		if reason, _ := pass(); reason != model.ReasonMatchFailed {
			t.Errorf("the reason is %q though the cause remains", reason)
		}
		s.refuse = false
		if reason, n := pass(); reason != model.ReasonMatchFailed || n != 0 {
			t.Errorf("the reason is %q; %d packages were matched at once", reason, n)
		}
		now.Step(retryFailedAfter)
		if reason, n := pass(); reason != "" || n != 2 {
			t.Errorf("the reason is %q after %d packages were matched", reason, n)
		}
		same(t, fresh(t, images, database), pictures(t, s.Store))
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
}

func (r *refusing) SaveAnswers(ctx context.Context, resultSet int64, answers map[int64]model.PackageAnswer) error {
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
