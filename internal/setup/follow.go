package setup

import (
	"context"

	"github.com/go-logr/logr"

	"github.com/scanner-operator/scanner-operator/internal/feed"
	"github.com/scanner-operator/scanner-operator/internal/matching"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// follow turns events of the store, whichever replica caused them, into work: SBOMs to match, Scanners to look at, exceptions to count findings of, dates
// of findings to look at.
func follow(ctx context.Context, hub *feed.Hub, matcher *matching.Matcher, wake, recount, redue *waker) error {
	for ctx.Err() == nil {
		subscription := hub.Subscribe(ctx, feed.Filter{})
		// Whatever was missed while there was no subscription.
		matcher.Wake()
		wake.wake()
		recount.wake()
		redue.wake()
		for e := range subscription.C() {
			switch e.Kind {
			case store.EventImageCataloged:
				matcher.Wake()
				wake.wake()
			case store.EventDatabaseUpdated:
				if err := matcher.Refresh(ctx); err != nil {
					logr.FromContextOrDiscard(ctx).Error(err, "Cannot read the current vulnerability database build")
				}
				wake.wake()
				recount.wake()
				redue.wake()
			case store.EventScanRequested:
				wake.wake()
			case store.EventImageMatched, store.EventImageFailed, store.EventImageRemoved:
				// A failure too: it may be one to match, or have been recorded for another Scanner that wants the image.
				wake.wake()
				recount.wake()
				redue.wake()
			case store.EventDecisionChanged, store.EventDecisionExpired:
				// They change the counts of images, and no other event tells of it.
				wake.wake()
				redue.wake()
			case store.EventRolloutChanged:
				// Another image runs in a place.
				redue.wake()
			default:
				// The other events, such as those about objects, need no work.
			}
		}
		subscription.Close()
	}
	return nil
}
