package scanner

import (
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

const year = 365 * 24 * time.Hour

// TestTimesOfAClockThatWasAhead: a manager whose clock was a year ahead recorded when images are to be tried again.
func TestTimesOfAClockThatWasAhead(t *testing.T) {
	key := imageKey("a")
	for name, tt := range map[string]struct {
		next    time.Duration
		started bool
	}{
		"due":                 {-time.Second, true},
		"the longest backoff": {maxBackoff + maxBackoff/5, false},
		"a year":              {year, true},
	} {
		t.Run(name, func(t *testing.T) {
			known := memory{key: {ImageState: store.ImageState{
				Key: key, State: store.StateFailed, Nonce: "nonce", Attempts: 3, NextAttempt: now.Add(tt.next), Reason: model.ReasonImageNotFound,
			}}}
			cataloger := &starter{attempts: map[string]Attempt{}}
			r, _ := newReconciler(t, known, cataloger, scannerWith(nil), podOf("a", key.ImageID, time.Hour))
			if reconcileOnce(t, r); (len(cataloger.started) == 1) != tt.started {
				t.Errorf("started %v, want a start: %t", cataloger.started, tt.started)
			}
		})
	}
}

// TestLookupsOfAClockThatWasAhead are repeated.
func TestLookupsOfAClockThatWasAhead(t *testing.T) {
	const interval = 24 * time.Hour
	for name, tt := range map[string]struct {
		next, lookedUp time.Duration
		due            bool
	}{
		"never":               {0, 0, true},
		"failed":              {interval, 0, false},
		"failed in a year":    {year, 0, true},
		"looked up":           {0, -time.Hour, false},
		"looked up in a year": {0, year, true},
	} {
		lookup := store.TagLookup{NextAttempt: now.Add(tt.next)}
		if tt.lookedUp != 0 {
			lookup.LookedUpAt = now.Add(tt.lookedUp)
		}
		correctLookup(&lookup, interval, now)
		if due := !lookupDue(&lookup, interval).After(now); due != tt.due {
			t.Errorf("%s: due is %t, want %t", name, due, tt.due)
		}
	}
}
