package feed

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// reminded counts what it is asked to record, and fails at first.
type reminded struct {
	expiring, stale int
	maxAge          time.Duration
}

func (r *reminded) RecordExpiring(context.Context) error {
	r.expiring++
	if r.expiring == 1 {
		return store.ErrUnavailable
	}
	return nil
}

func (r *reminded) RecordStaleDatabase(_ context.Context, maxAge time.Duration) error {
	r.stale++
	r.maxAge = maxAge
	return nil
}

// What fails does not keep the other from being recorded, and is tried again.
func TestReminder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := &reminded{}
		ctx, cancel := context.WithCancel(t.Context())
		r := &Reminder{Events: events, MaxAge: time.Hour, Clock: clock.RealClock{}, Log: logr.Discard()}
		ended := make(chan error)
		go func() { ended <- r.Start(ctx) }()
		time.Sleep(2*remindInterval + time.Second)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if want := (reminded{3, 3, time.Hour}); *events != want {
			t.Errorf("got %+v, want %+v", *events, want)
		}
	})
}
