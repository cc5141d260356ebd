package scanner

import (
	"context"
	"maps"
	"time"

	"github.com/go-logr/logr"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// maxLookupWait is the longest time from an error about a lookup of newer tags to the next try.
const maxLookupWait = 5 * time.Minute

// postponedLookups has the lookups of newer tags that could not be started, or whose end could not be recorded, by ID. They wait longer each time: no scan and no
// other lookup waits for them. It is kept in memory. One goroutine uses it. The zero value is ready.
type postponedLookups map[string]later

// postpone notes an error about a lookup.
func (p *postponedLookups) postpone(ctx context.Context, id string, err error, now time.Time) {
	if *p == nil {
		*p = postponedLookups{}
	}
	// Those for which nobody waits any more are forgotten.
	maps.DeleteFunc(*p, func(_ string, one later) bool { return now.Sub(one.again) > maxLookupWait })
	wait := min(max(2*(*p)[id].wait, retryRead), maxLookupWait)
	(*p)[id] = later{now.Add(wait), wait}
	logr.FromContextOrDiscard(ctx).Error(err, "Failed to process a lookup of newer tags; scans and other lookups continue", "lookup", id, "again", wait.String())
}

// waits reports whether a lookup is postponed, and has its next attempt wait as long.
func (p *postponedLookups) waits(lookup *store.TagLookup, now time.Time) bool {
	again := (*p)[lookup.ID].again
	if !again.After(now) {
		return false
	}
	if lookup.NextAttempt.Before(again) {
		lookup.NextAttempt = again
	}
	return true
}
