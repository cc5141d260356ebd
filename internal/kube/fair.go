package kube

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// slowReconcile is the time from which a reconcile counts as slow, because of an admission webhook that hangs for example. Its namespace is slow from then on,
	// and for slowMemory after it.
	slowReconcile = 5 * time.Second
	slowMemory    = 10 * time.Minute
	// workerWait is when a reconcile is tried again that gets no worker.
	workerWait = 2 * time.Second
)

// FairWorkers divides the workers of a controller between namespaces. NewFairWorkers makes one.
type FairWorkers struct {
	next    reconcile.Reconciler
	workers int
	clock   clock.PassiveClock

	mu sync.Mutex
	// running has the time when each reconcile that runs has begun.
	running map[reconcile.Request]time.Time
	// slow has the time when the last slow reconcile in a namespace has ended.
	slow *lru.Cache
	// waiting are the slow namespaces whose objects got no worker.
	waiting map[string]turn
}

// turn is since when a slow namespace has been waiting for a worker, and when one of its objects was last to be reconciled.
type turn struct{ since, asked time.Time }

// NewFairWorkers returns a reconciler for a controller with that many workers. Slow reconciles in some namespaces leave half of the workers to all others: in a
// slow namespace, one object is reconciled at a time, and in all slow namespaces together, half as many as there are workers, in turn. The others are tried
// again after 2 seconds.
func NewFairWorkers(next reconcile.Reconciler, workers int, now clock.PassiveClock) *FairWorkers {
	return &FairWorkers{next: next, workers: workers, clock: now, running: map[reconcile.Request]time.Time{}, slow: lru.New(10_000), waiting: map[string]turn{}}
}

// Reconcile implements reconcile.Reconciler.
func (f *FairWorkers) Reconcile(ctx context.Context, request reconcile.Request) (ctrl.Result, error) {
	if !f.begin(request) {
		return ctrl.Result{RequeueAfter: workerWait}, nil
	}
	defer f.end(request)
	return f.next.Reconcile(ctx, request)
}

// begin reports whether a reconcile may begin now.
func (f *FairWorkers) begin(request reconcile.Request) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	if f.isSlow(request.Namespace) {
		busy := 0
		for other := range f.running {
			if other.Namespace == request.Namespace {
				return false
			}
			if f.isSlow(other.Namespace) {
				busy++
			}
		}
		if !f.isNext(request.Namespace, now) || busy >= max(1, f.workers/2) {
			return false
		}
		delete(f.waiting, request.Namespace)
	}
	f.running[request] = now
	return true
}

// isNext reports whether no other slow namespace has been waiting longer.
func (f *FairWorkers) isNext(namespace string, now time.Time) bool {
	own, known := f.waiting[namespace]
	if !known {
		own.since = now
	}
	own.asked = now
	f.waiting[namespace] = own
	for other, its := range f.waiting {
		if now.Sub(its.asked) > 2*workerWait {
			delete(f.waiting, other) // Nothing is left to do there.
		} else if its.since.Before(own.since) {
			return false
		}
	}
	return true
}

func (f *FairWorkers) end(request reconcile.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := f.clock.Now(); now.Sub(f.running[request]) >= slowReconcile {
		f.slow.Add(request.Namespace, now)
	}
	delete(f.running, request)
}

// isSlow reports whether a reconcile in a namespace is slow, or was it lately.
func (f *FairWorkers) isSlow(namespace string) bool {
	if last, known := f.slow.Get(namespace); known {
		if at, _ := last.(time.Time); f.clock.Since(at) < slowMemory {
			return true
		}
	}
	for other, began := range f.running {
		if other.Namespace == namespace && f.clock.Since(began) >= slowReconcile {
			return true
		}
	}
	return false
}
