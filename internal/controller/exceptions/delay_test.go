package exceptions

import (
	"slices"
	"testing"
	"time"
)

// maxApplyDelay is how long an exception may wait between its event and the write to the store.
const maxApplyDelay = 200 * time.Millisecond

// TestNewExceptionsApplyAtOnce: the reconcile after the event of an exception applies it, also at the moment when no more statuses may be written and
// nothing is counted. Lists read what the store applies, and nothing else stands between.
func TestNewExceptionsApplyAtOnce(t *testing.T) {
	if debounce > maxApplyDelay {
		t.Errorf("events wait for %s, want %s at most", debounce, maxApplyDelay)
	}
	w := newWorld(t, 2*patchesPerSecond)
	if left := w.reconcile(t); left != time.Second {
		t.Fatalf("next in %s, want it when statuses may be written again", left)
	}
	added := clusterException("added")
	added.UID, added.Generation = "added", 1
	w.objects.exceptions = append(w.objects.exceptions, *added)
	w.reconcile(t)
	if !slices.Contains(w.names(), "added") {
		t.Error("an exception waits although it is known")
	}
	w.objects.exceptions = w.objects.exceptions[:2*patchesPerSecond]
	w.reconcile(t)
	if slices.Contains(w.names(), "added") {
		t.Error("an exception applies after its removal")
	}
}
