package sinks

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// held is a receiver that notes when a delivery begins, and answers when it is released.
type held struct {
	receiver
	begun   chan struct{}
	release chan error
}

func (h *held) deliver(ctx context.Context, _ *target, _ []document, _ bool) error {
	h.begun <- struct{}{}
	select {
	case err := <-h.release:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A ReportSink that is removed leaves nothing behind: neither items that are due or failed, nor a plan that failed, nor what becomes of a delivery that has begun.
func TestRemovedSinksLeaveNothing(t *testing.T) {
	f, g := newFixture(t, nil), gomega.NewWithT(t)
	f.catalog(t, image("web"), "1", "openssl")
	f.run(t, image("web"), workloads("web-", 3)...)
	track := &DependencyTrack{Credential: "c", ProjectName: "{workload}"}
	e, results := f.engine(t, &unplannable{f.Store, "uid-unplanned"})
	failing, slow, unplanned := f.sink(t, Definition{Name: "failing", DependencyTrack: track}), f.sink(t, Definition{Name: "slow", DependencyTrack: track}),
		f.sink(t, Definition{Name: "unplanned", DependencyTrack: track})
	failing.receiver = &noted{receiver: failing.receiver, clock: f.clock, answer: errCrash}
	answers := &held{receiver: slow.receiver, begun: make(chan struct{}, 1), release: make(chan error, 1)}
	slow.receiver = answers
	use(t, e, failing, slow, unplanned)
	if err := e.plan(t.Context()); err == nil {
		t.Fatal("a plan that cannot be written is written")
	}
	e.dispatch(t.Context())
	<-answers.begun
	g.Eventually(results.pending, 30*time.Second, 10*time.Millisecond).Should(gomega.Equal("6 due, 1 failed, 1 without a plan"))

	// One that is not in effect for a while keeps its items.
	known := []string{failing.UID, slow.UID, unplanned.UID}
	must(t, e.SetSinks(t.Context(), nil, known))
	if got, want := results.pending(), "6 due, 1 failed, 0 without a plan"; got != want {
		t.Errorf("not in effect: %s, want %s", got, want)
	}
	use(t, e, unplanned)
	if got, want := results.pending(), "0 due, 0 failed, 1 without a plan"; got != want {
		t.Errorf("two are removed: %s, want %s", got, want)
	}
	use(t, e)
	if states := e.States(); len(states) > 0 {
		t.Errorf("the states of removed sinks are %+v", states)
	}
	answers.release <- nil
	e.running.Wait()
	must(t, e.plan(t.Context()))
	if got, want := results.pending(), "0 due, 0 failed, 0 without a plan"; got != want {
		t.Errorf("all are removed: %s, want %s", got, want)
	}
	if states := e.States(); len(states) > 0 {
		t.Errorf("after the last delivery, the states of removed sinks are %+v", states)
	}
	for _, uid := range known {
		items, err := f.ReportItems(t.Context(), uid)
		must(t, err)
		if len(items) > 0 {
			t.Errorf("%s left %d items", uid, len(items))
		}
	}
	cursors, err := f.ReportCursors(t.Context())
	must(t, err)
	if slices.ContainsFunc(cursors, func(c store.ReportCursor) bool { return slices.Contains(known, c.Sink) }) {
		t.Errorf("the positions are %+v", cursors)
	}
	// The reports that are encoded at a time are those of the sinks that exist.
	if len(e.encoding) > 0 {
		t.Errorf("%d places to encode are taken", len(e.encoding))
	}
}
