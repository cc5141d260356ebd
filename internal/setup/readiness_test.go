package setup

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// askedStore counts how often it is asked whether it is ready.
type askedStore struct {
	store.Store
	err     error
	asked   int
	bounded bool
}

func (s *askedStore) Ready(ctx context.Context) error {
	s.asked++
	deadline, ok := ctx.Deadline()
	s.bounded = ok && time.Until(deadline) <= readyTimeout
	return s.err
}

func TestReadiness(t *testing.T) {
	var (
		busy = fmt.Errorf("wait for a connection: %w", context.DeadlineExceeded)
		away = fmt.Errorf("connection refused: %w", store.ErrUnavailable)
	)
	now := clocktesting.NewFakeClock(time.Unix(1000, 0))
	asked := &askedStore{}
	s := &readinessCache{Store: asked, clock: now}
	for i, step := range []struct {
		after time.Duration
		err   error
		want  error
		asks  int
	}{
		{0, busy, busy, 1}, // never ready before
		{0, nil, nil, 1},
		{readyFor - 1, away, nil, 0},
		{1, away, away, 1},
		{0, away, away, 1},
		{0, nil, nil, 1},
		{readyFor, busy, nil, 1},
		{readyFor - 1, away, nil, 0},
		{1, busy, nil, 1},
		{readyThoughBusy - 2*readyFor, busy, busy, 1}, // busy for too long
		{0, away, away, 1},
		{time.Minute, nil, nil, 1},
	} {
		now.Step(step.after)
		before := asked.asked
		asked.err = step.err
		if err := s.Ready(t.Context()); !errors.Is(err, step.want) {
			t.Errorf("step %d: got %v, want %v", i, err, step.want)
		}
		if got := asked.asked - before; got != step.asks {
			t.Errorf("step %d: asked %d times, want %d", i, got, step.asks)
		}
	}
	if !asked.bounded {
		t.Error("a question is not bounded")
	}
}
