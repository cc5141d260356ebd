package feed

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

// compactInterval is how often old events are looked for.
const compactInterval = 10 * time.Minute

// Compactable is an event log that forgets, as store.Events has it.
type Compactable interface {
	CompactEvents(ctx context.Context, before time.Time) error
}

// Compactor removes events that are older than Retention. It is a runnable of a controller-runtime manager, on the leader
// alone.
type Compactor struct {
	Events Compactable
	// Retention is how old an event becomes; it must be positive.
	Retention time.Duration
	Clock     clock.WithTicker
	Log       logr.Logger
}

// Start removes old events at once and from time to time until the context is done. What fails is tried again the next time.
func (c *Compactor) Start(ctx context.Context) error {
	ticker := c.Clock.NewTicker(compactInterval)
	defer ticker.Stop()
	for {
		err := c.Events.CompactEvents(ctx, c.Clock.Now().Add(-c.Retention))
		if err != nil && ctx.Err() == nil {
			c.Log.Error(err, "Cannot remove old events, will retry")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}
