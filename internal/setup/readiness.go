package setup

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Bounds on asking the database whether it is ready.
const (
	// readyFor is how long a good answer counts without asking again.
	readyFor = time.Second
	// readyTimeout bounds a question. It is less than the chart's probe waits.
	readyTimeout = 3 * time.Second
	// readyThoughBusy is how long a good answer counts while no other one comes in time: a store that is busy is no reason to send
	// clients elsewhere, where they keep the same database busy.
	readyThoughBusy = 10 * time.Second
)

// readinessCache is a store that is not asked more often than necessary whether it is ready.
type readinessCache struct {
	store.Store
	clock clock.PassiveClock

	// mu is held while a question is under way, so that checks which come together ask once.
	mu sync.Mutex
	// good is when the last good answer came, slow when the last question ran out of time; zero when never.
	good, slow time.Time
}

// Ready implements store.Store. It takes no longer than two questions.
func (s *readinessCache) Ready(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	fresh := !s.good.IsZero() && now.Sub(s.good) < readyFor
	busy := !s.slow.IsZero() && now.Sub(s.slow) < readyFor && s.recently(now)
	if fresh || busy {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	err := s.Store.Ready(bounded)
	now = s.clock.Now()
	switch {
	case err == nil:
		s.good = now
	case errors.Is(err, context.DeadlineExceeded) && s.recently(now):
		s.slow = now
		return nil
	}
	return err
}

// recently says that the last good answer still counts for a store that is busy.
func (s *readinessCache) recently(now time.Time) bool {
	return !s.good.IsZero() && now.Sub(s.good) < readyThoughBusy
}
