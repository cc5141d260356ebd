package server

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// TestDueCountsAreShared expects that what is due is counted once for callers who see the same, until the numbers are too old, and never for others.
func TestDueCountsAreShared(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	begun, resume := make(chan struct{}), make(chan struct{})
	var mu sync.Mutex
	counted := map[string]int{}
	due := newDueCounts[string](func() time.Time { return now })
	count := func(ctx context.Context, in store.Namespaces) (string, error) {
		mu.Lock()
		counted[in.Digest()]++
		first := len(counted) == 1 && counted[in.Digest()] == 1
		mu.Unlock()
		if first {
			close(begun)
			<-resume
		}
		return in.Digest(), ctx.Err()
	}
	ask := func(ctx context.Context, in store.Namespaces) {
		t.Helper()
		answer, err := due.get(ctx, in.Digest(), func(ctx context.Context) (string, error) { return count(ctx, in) })
		if err != nil || answer != in.Digest() {
			t.Errorf("%v: %q, %v", in, answer, err)
		}
	}
	all, some, others := store.AllNamespaces(), store.OnlyNamespaces("a"), store.OnlyNamespaces("b")
	// The first caller goes away, and another one waits for the same answer.
	gone, leave := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	callers.Go(func() { ask(gone, all) })
	<-begun
	leave()
	callers.Go(func() { ask(t.Context(), all) })
	close(resume)
	callers.Wait()
	ask(t.Context(), all)
	ask(t.Context(), some)
	ask(t.Context(), others)
	for in, want := range map[string]int{all.Digest(): 1, some.Digest(): 1, others.Digest(): 1} {
		if counted[in] != want {
			t.Errorf("counted %d times for %s, want %d", counted[in], in, want)
		}
	}
	now = now.Add(dueTTL + time.Second)
	ask(t.Context(), all)
	if counted[all.Digest()] != 2 {
		t.Errorf("old numbers were counted %d times, want 2", counted[all.Digest()])
	}
}
