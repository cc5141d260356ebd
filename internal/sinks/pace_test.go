package sinks

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// noted is a receiver that notes when deliveries begin, and answers each with an error or nil.
type noted struct {
	receiver
	clock  *movable
	begun  []time.Time
	answer error
}

func (n *noted) deliver(context.Context, *target, []document, bool) error {
	n.begun = append(n.begun, n.clock.Now())
	return n.answer
}

func (n *noted) remove(context.Context, *target) error { return n.answer }

// forgetful is a store that does not write what became of deliveries.
type forgetful struct{ Store }

func (forgetful) EndReport(context.Context, *store.ReportItem) (bool, error) {
	return false, errors.New("the database is not available")
}

// At most as many deliveries begin in a minute as the sink permits, and so many if there is enough to do, whatever becomes of them.
func TestDeliveriesPerMinute(t *testing.T) {
	const items = 30
	for name, c := range map[string]struct {
		perMinute int
		answer    error
		forgets   bool
		// minutes is how long is looked, begun how many deliveries begin meanwhile.
		minutes, begun int
	}{
		"accepted":                    {10, nil, false, 2, 20},
		"more than there are":         {60, nil, false, 2, items},
		"refused":                     {10, ErrRefused, false, 2, 20},
		"failed":                      {10, errCrash, false, 2, 20},
		"not available":               {1, ErrUnavailable, false, 3, 3},
		"not available, fast":         {6000, ErrUnavailable, false, 1, 4},
		"written, but not remembered": {2, nil, true, 3, 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, nil)
			f.catalog(t, image("web"), "1", "zlib")
			workloads := make([]store.Workload, items)
			for i := range workloads {
				workloads[i] = workload("shop", fmt.Sprint("web-", i), "")
			}
			f.run(t, image("web"), workloads...)
			var s Store = f.Store
			if c.forgets {
				s = forgetful{f.Store}
			}
			e, _ := f.engine(t, s)
			sink := f.sink(t, Definition{PerMinute: c.perMinute, DependencyTrack: &DependencyTrack{Credential: "c", ProjectName: "{workload}"}})
			receiver := &noted{receiver: sink.receiver, clock: f.clock, answer: c.answer}
			sink.receiver = receiver
			use(t, e, sink)
			must(t, e.plan(t.Context()))
			for begin := f.clock.Now(); f.clock.Now().Sub(begin) < time.Duration(c.minutes)*time.Minute; f.clock.move(time.Second) {
				e.dispatch(t.Context())
				e.running.Wait()
			}
			for i, first := range receiver.begun {
				if next := i + c.perMinute; next < len(receiver.begun) && receiver.begun[next].Sub(first) < time.Minute {
					t.Errorf("%d deliveries begin in %s, the maximum is %d in a minute", c.perMinute+1, receiver.begun[next].Sub(first), c.perMinute)
					break
				}
			}
			if begun := len(receiver.begun); begun < c.begun-1 || begun > c.begun {
				t.Errorf("%d deliveries begin in %d minutes, want %d", begun, c.minutes, c.begun)
			}
		})
	}
}
