package kube

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// silent is an event log that does not answer while it is away.
type silent struct {
	away     bool
	recorded int
}

func (s *silent) RecordChange(ctx context.Context, _ store.ObjectChange) error {
	if s.away {
		<-ctx.Done()
		return ctx.Err()
	}
	s.recorded++
	return nil
}

// TestReconcilesDoNotWaitForTheEventLog reconciles 200 objects with four workers.
func TestReconcilesDoNotWaitForTheEventLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &silent{away: true}
		p := &PromptRecorder{Changes: log}
		began := time.Now()
		var workers errgroup.Group
		workers.SetLimit(4)
		for range 200 {
			workers.Go(func() error {
				if err := p.RecordChange(t.Context(), store.ObjectChange{}); !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("the error is %v", err)
				}
				return nil
			})
		}
		_ = workers.Wait()
		if took := time.Since(began); took > 2*recordTimeout {
			t.Errorf("the objects took %s", took)
		}
		log.away = false
		time.Sleep(recordPause)
		if err := p.RecordChange(t.Context(), store.ObjectChange{}); err != nil || log.recorded != 1 {
			t.Errorf("recorded %d changes after the pause: %v", log.recorded, err)
		}
	})
}

// TestStoppedReconcilesPauseNothing has a reconcile end while it waits.
func TestStoppedReconcilesPauseNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &silent{away: true}
		p := &PromptRecorder{Changes: log}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.RecordChange(ctx, store.ObjectChange{}); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, store.ErrUnavailable) {
			t.Errorf("the error is %v", err)
		}
		log.away = false
		if err := p.RecordChange(t.Context(), store.ObjectChange{}); err != nil {
			t.Error(err)
		}
	})
}
