package scanner

import (
	"time"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// longestWait is the longest time from a failed attempt to the next.
const longestWait = maxBackoff + maxBackoff/5

// The times in the store are those of the clock of the manager that recorded them. Those that are further away than any wait are of a clock that was ahead: what
// they delay is due.

// correctImage corrects the time of the next attempt at an image.
func correctImage(image *store.Image, now time.Time) {
	if image.NextAttempt.Sub(now) > longestWait {
		image.NextAttempt = now
	}
}

// correctLookup corrects the times of a lookup of newer tags.
func correctLookup(lookup *store.TagLookup, interval time.Duration, now time.Time) {
	if lookup.NextAttempt.Sub(now) > max(interval, longestWait) {
		lookup.NextAttempt = now
	}
	if lookup.LookedUpAt.Sub(now) > longestWait {
		lookup.LookedUpAt = time.Time{}
	}
}
