package matching

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/dbtest"
)

// unfinished is a store that cannot save the results of images some times.
type unfinished struct {
	*refusing
	left atomic.Int64
}

func (u *unfinished) FinishImage(ctx context.Context, key model.ImageKey, sbomDigest string) error {
	if u.left.Add(-1) >= 0 {
		return errors.New("a row is too long")
	}
	return u.refusing.FinishImage(ctx, key, sbomDigest)
}

func (u *unfinished) state(t *testing.T, key model.ImageKey) store.State {
	t.Helper()
	image, err := u.Image(t.Context(), store.AllNamespaces(), key)
	if err != nil {
		t.Fatal(err)
	}
	return image.State
}

// newUnfinished returns a store that fails once, with an image to be matched, and a matcher with its clock.
func newUnfinished(t *testing.T) (*unfinished, *Matcher, *clocktesting.FakeClock) {
	t.Helper()
	s := &unfinished{refusing: &refusing{Store: newStore(t)}}
	s.left.Store(1)
	a, _ := newMatcher(t, s, newShelf(dbtest.Sample(t)))
	now := clocktesting.NewFakeClock(time.Now())
	a.clock = now
	ingest(t, a, s.Store, numbered(0), document)
	return s, a, now
}

// TestPassedOverImagesAreMatchedAgain: soon the first time, and then less often, up to how often passes are.
func TestPassedOverImagesAreMatchedAgain(t *testing.T) {
	s, a, now := newUnfinished(t)
	r := &runner{Matcher: a}
	defer r.close()
	var waits []time.Duration
	for range 6 {
		for range 2 { // A pass before it is time does not count.
			s.left.Store(1)
			if err := r.pass(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		waits = append(waits, r.images.wait(time.Hour, now.Now()))
		now.Step(waits[len(waits)-1])
	}
	if diff := cmp.Diff([]time.Duration{storeRetry, 2 * storeRetry, 4 * storeRetry, 8 * storeRetry, retryAfter, retryAfter}, waits); diff != "" {
		t.Errorf("times until the next pass (-want +got):\n%s", diff)
	}
	if err := r.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if state := s.state(t, numbered(0)); state != store.StateScanned || len(r.images) != 0 {
		t.Errorf("the image is %s, and %d images wait", state, len(r.images))
	}
}

// TestRecoveredImagesAreCountedAgain: a scanned image whose packages were matched again, and whose findings could not be counted then.
func TestRecoveredImagesAreCountedAgain(t *testing.T) {
	first := dbtest.Sample(t)
	s, library := &unfinished{refusing: &refusing{Store: newStore(t)}}, newShelf(first)
	a, _ := newMatcher(t, s, library)
	now := clocktesting.NewFakeClock(time.Now())
	a.clock = now
	r := &runner{Matcher: a}
	defer r.close()
	ingest(t, a, s.Store, numbered(0), goModules(module, "v0.1.0"))
	pass := func(want model.Reason) {
		t.Helper()
		image := afterPasses(t, r, s.Store)
		if image.State != store.StateScanned || image.Reason != want {
			t.Fatalf("the image is %s with the reason %q, want the reason %q", image.State, image.Reason, want)
		}
	}
	pass("")
	library.put(dbtest.Mutate(t, first, 1, dbtest.Fraction(0.5)...))
	library.request(true)
	s.refuse = true
	pass(model.ReasonMatchFailed)
	s.refuse = false
	s.left.Store(100)
	now.Step(firstRetry)
	pass(model.ReasonMatchFailed)
	s.left.Store(0)
	now.Step(storeRetry)
	pass("")
}

// TestRunMatchesAnImageAgainSoon has no signal that ends the wait for the next pass.
func TestRunMatchesAnImageAgainSoon(t *testing.T) {
	g := gomega.NewWithT(t)
	s, a, now := newUnfinished(t)
	<-a.wake
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	g.Eventually(now.HasWaiters, "10s").Should(gomega.BeTrue())
	if s.left.Load() != 0 {
		t.Error("the first pass did not try to save the results of the image")
	}
	now.Step(storeRetry)
	g.Eventually(func() store.State { return s.state(t, numbered(0)) }, "10s").Should(gomega.Equal(store.StateScanned))
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
