package setup

import (
	"context"

	"github.com/go-logr/logr"

	"github.com/scanner-operator/scanner-operator/internal/assess"
	"github.com/scanner-operator/scanner-operator/internal/feed"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// follow turns events of the store, whichever replica caused them, into work: SBOMs to match, Scanners to look at.
func follow(ctx context.Context, hub *feed.Hub, assessor *assess.Assessor, wake *waker) error {
	for ctx.Err() == nil {
		subscription := hub.Subscribe(ctx, feed.Filter{})
		// Whatever was missed while there was no subscription.
		assessor.Wake()
		wake.wake()
		for e := range subscription.C() {
			switch e.Kind {
			case store.EventImageCatalogued:
				assessor.Wake()
				wake.wake()
			case store.EventDatabaseUpdated:
				if err := assessor.Refresh(ctx); err != nil {
					logr.FromContextOrDiscard(ctx).Error(err, "Cannot tell which vulnerability database is in use")
				}
				wake.wake()
			case store.EventImageMatched, store.EventImageFailed, store.EventImageRemoved:
				// A failure too: it may be one to match, or have been recorded for another Scanner that wants the image.
				wake.wake()
			case store.EventImageDiscovered, store.EventImageQueued, store.EventImageReported,
				store.EventFindingOpened, store.EventFindingClosed, store.EventFindingChanged,
				store.EventScannerChanged, store.EventPodSetChanged, store.EventSheroChanged, store.EventRolloutChanged, store.EventRolloutJudged:
				// Nothing follows from these.
			}
		}
		subscription.Close()
	}
	return nil
}
