package kube

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

const (
	// recordTimeout is the maximum time that a reconcile waits for the event log.
	recordTimeout = 5 * time.Second
	// recordPause is the time for which nothing is recorded after that.
	recordPause = 10 * time.Second
)

// PromptRecorder is a ChangeRecorder for controllers that need no database: reconciles must not wait for one that does not answer. Each waits for at most 5
// seconds. After that, all calls of the next 10 seconds fail at once with store.ErrUnavailable. It is safe for concurrent use.
type PromptRecorder struct {
	Changes ChangeRecorder

	mu sync.Mutex
	// paused is until when nothing is recorded.
	paused time.Time
}

// RecordChange implements ChangeRecorder.
func (p *PromptRecorder) RecordChange(ctx context.Context, change store.ObjectChange) error {
	if p.pauses() {
		return fmt.Errorf("%w: it has not answered for %s", store.ErrUnavailable, recordTimeout)
	}
	limited, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	err := p.Changes.RecordChange(limited, change)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		p.pause()
		return fmt.Errorf("%w: it has not answered for %s: %w", store.ErrUnavailable, recordTimeout, err)
	}
	return err
}

func (p *PromptRecorder) pauses() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Before(p.paused)
}

func (p *PromptRecorder) pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = time.Now().Add(recordPause)
}
