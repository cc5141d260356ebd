package setup

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
	"github.com/scanner-operator/scanner-operator/internal/feed"
	"github.com/scanner-operator/scanner-operator/internal/matching"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// eventLog is the event log of a store.
type eventLog struct {
	mu      sync.Mutex
	log     []store.Event
	changed chan struct{}
}

func (l *eventLog) add(kind store.EventKind) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log = append(l.log, store.Event{Sequence: int64(len(l.log) + 1), Kind: kind, ImageID: "i"})
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *eventLog) EventsSince(_ context.Context, _ store.Namespaces, since int64, _ int) ([]store.Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]store.Event(nil), l.log[since:]...), nil
}

func (l *eventLog) EventLog(context.Context) (store.EventLog, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return store.EventLog{Last: int64(len(l.log))}, nil
}

func (l *eventLog) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// A failure that was recorded for one Scanner, or by matching, changes the status of every Scanner with that image; an exception the counts of all.
func TestFollowWakesScanners(t *testing.T) {
	log := &eventLog{changed: make(chan struct{})}
	hub := feed.New(log, feed.Config{Log: logr.Discard()})
	wake, redue := newWaker(), newWaker()
	ctx, cancel := context.WithCancel(t.Context())
	var parts sync.WaitGroup
	defer parts.Wait()
	defer cancel()
	parts.Go(func() { _ = hub.Run(ctx) })
	<-hub.Started()
	matcher := matching.New(nil, nil, nil, clock.RealClock{}, logr.Discard())
	parts.Go(func() { _ = follow(ctx, hub, matcher, wake, newWaker(), redue) })
	woken := func(why string) {
		t.Helper()
		select {
		case <-wake.events:
		case <-time.After(controllertest.Patience):
			t.Fatalf("not woken: %s", why)
		}
	}
	woken("the beginning")
	log.add(store.EventImageFailed)
	woken("a failure")
	log.add(store.EventDecisionChanged)
	woken("an exception")
	log.add(store.EventDecisionExpired)
	woken("the end of an exception")
	<-redue.events // All that happened so far.
	log.add(store.EventRolloutChanged)
	select {
	case <-redue.events:
	case <-time.After(controllertest.Patience):
		t.Fatal("the dates of findings are not looked at when another image runs")
	}
}
