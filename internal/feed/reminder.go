package feed

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

// remindInterval is how often it is looked whether there is something to remind of.
const remindInterval = time.Minute

// Reminders writes events about what will happen, or has not happened, as store.Reminders has it.
type Reminders interface {
	RecordExpiring(ctx context.Context) error
	RecordStaleDatabase(ctx context.Context, maxAge time.Duration) error
}

// Reminder has events written about decisions that expire soon and about a vulnerability database that is old. It is a runnable of a controller-runtime
// manager, on the leader alone.
type Reminder struct {
	Events Reminders
	// MaxAge is the age from which a database build is old; it must be positive.
	MaxAge time.Duration
	Clock  clock.WithTicker
	Log    logr.Logger
}

// Start looks at once and from time to time until the context is done. What fails is tried again the next time.
func (r *Reminder) Start(ctx context.Context) error {
	ticker := r.Clock.NewTicker(remindInterval)
	defer ticker.Stop()
	for {
		err := errors.Join(r.Events.RecordExpiring(ctx), r.Events.RecordStaleDatabase(ctx, r.MaxAge))
		if err != nil && ctx.Err() == nil {
			r.Log.Error(err, "Cannot record reminders, will retry")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}
