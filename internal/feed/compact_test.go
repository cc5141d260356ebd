package feed

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// forgetful notes what it is asked to forget, and fails at first.
type forgetful struct{ before []time.Time }

func (f *forgetful) CompactEvents(_ context.Context, before time.Time) error {
	f.before = append(f.before, before)
	if len(f.before) == 1 {
		return store.ErrUnavailable
	}
	return nil
}

func TestCompactor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := &forgetful{}
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		c := &Compactor{Events: events, Retention: 72 * time.Hour, Clock: clock.RealClock{}, Log: logr.Discard()}
		ended := make(chan error)
		go func() { ended <- c.Start(ctx) }()
		time.Sleep(2*compactInterval + time.Second)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		first := start.Add(-72 * time.Hour)
		if want := []time.Time{first, first.Add(compactInterval), first.Add(2 * compactInterval)}; !slices.EqualFunc(events.before, want, time.Time.Equal) {
			t.Errorf("got %v, want %v", events.before, want)
		}
	})
}
