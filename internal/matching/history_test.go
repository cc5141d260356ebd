package matching

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqlstore"
)

// diary is a store that notes when the sums of the day are recorded and up to when it is pruned.
type diary struct {
	*sqlstore.Store
	clock    *clocktesting.FakeClock
	recorded chan time.Time
	pruned   []time.Time
	err      error

	prunedDecisions []time.Time
}

func (d *diary) RecordDay(context.Context) error {
	if d.err == nil {
		d.recorded <- d.clock.Now()
	}
	return d.err
}

func (d *diary) PruneDecisions(_ context.Context, before time.Time) error {
	d.prunedDecisions = append(d.prunedDecisions, before)
	return d.err
}

func (d *diary) Prune(_ context.Context, before time.Time) error {
	d.pruned = append(d.pruned, before)
	return nil
}

func newDiary(t *testing.T) (*diary, *Matcher) {
	t.Helper()
	clk := clocktesting.NewFakeClock(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	d := &diary{Store: newStore(t), clock: clk, recorded: make(chan time.Time, 9)}
	return d, New(d, newShelf(), &counter{}, clk, testr.New(t))
}

func TestRecordsTheDayNowAndThen(t *testing.T) {
	d, a := newDiary(t)
	r := &runner{Matcher: a}
	record := func(step string, after time.Duration, want int) {
		t.Helper()
		d.clock.Step(after)
		if err := r.recordDay(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := len(d.recorded); got != want {
			t.Errorf("%s: recorded %d times, want %d", step, got, want)
		}
	}
	record("at first", 0, 1)
	record("too early", recordInterval-1, 1)
	record("in time", 1, 2)
	r.switched(store.ResultSet{}, false)
	record("after a switch", 0, 3)
	d.err = errors.New("broken")
	d.clock.Step(recordInterval)
	if err := r.recordDay(t.Context()); !errors.Is(err, d.err) {
		t.Errorf("got %v", err)
	}
	d.err = nil
	record("again after an error", 0, 4)
}

func TestRunRecordsTheDayWithoutADatabase(t *testing.T) {
	g := gomega.NewWithT(t)
	d, a := newDiary(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	first := <-d.recorded
	for d.clock.Since(first) < recordInterval {
		g.Eventually(d.clock.HasWaiters, "10s").Should(gomega.BeTrue())
		d.clock.Step(retryAfter)
	}
	if second := <-d.recorded; second.Sub(first) != recordInterval {
		t.Errorf("recorded at %s and %s", first, second)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestPrunesWhatIsOlderThanTheRetention(t *testing.T) {
	d, a := newDiary(t)
	r := &runner{Matcher: a}
	began := d.clock.Now()
	for range 2 {
		if err := r.prune(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	a.Retention, a.DecisionRetention = 24*time.Hour, 48*time.Hour
	d.clock.Step(pruneInterval)
	if err := r.prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []time.Time{began.Add(-DefaultRetention), began.Add(pruneInterval - 24*time.Hour)}
	if diff := cmp.Diff(want, d.pruned); diff != "" {
		t.Error(diff)
	}
	want = []time.Time{began.Add(-DefaultDecisionRetention), began.Add(pruneInterval - 48*time.Hour)}
	if diff := cmp.Diff(want, d.prunedDecisions); diff != "" {
		t.Errorf("decisions: %s", diff)
	}
	d.err = errors.New("broken")
	for range 2 {
		d.clock.Step(pruneInterval)
		if err := r.prune(t.Context()); !errors.Is(err, d.err) {
			t.Errorf("got %v", err)
		}
	}
	if len(d.pruned) != 4 || len(d.prunedDecisions) != 4 {
		t.Errorf("pruned %d times and decisions %d times, want another attempt at decisions after each error, and everything else in spite of it", len(d.pruned), len(d.prunedDecisions))
	}
}
