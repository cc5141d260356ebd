package kube

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// slowReconcile is the time from which a reconcile counts as slow, because of an admission webhook that hangs for example. Its namespace is slow from then on,
	// for slowMemory after it, and while its objects wait. Objects whose requests fail are reconciled again before that.
	slowReconcile = 5 * time.Second
	slowMemory    = 2 * maxErrorBackoff
	// workerWait is when a reconcile is tried again that gets no worker. One that is not tried for twice as long waits no more.
	workerWait = 2 * time.Second
	// maxTurns bounds the objects that have a turn. The others get one after these.
	maxTurns = 1000
)

// FairWorkers divides the workers of a controller between namespaces. NewFairWorkers makes one.
type FairWorkers struct {
	next    reconcile.Reconciler
	workers int
	clock   clock.PassiveClock

	mu sync.Mutex
	// running has the time when each reconcile that runs has begun.
	running map[reconcile.Request]time.Time
	// slow has the slowNamespace of each namespace in which a reconcile was slow.
	slow *lru.Cache
	// waiting are the objects in slow namespaces that got no worker.
	waiting map[reconcile.Request]turn
	// forget is a time before which none of waiting is to be forgotten.
	forget time.Time
}

// slowNamespace is when the last slow reconcile in a namespace has ended, and when the last one has begun.
type slowNamespace struct{ ended, began time.Time }

// turn is since when an object has been waiting for a worker, and when it was last to be reconciled.
type turn struct{ since, asked time.Time }

// NewFairWorkers returns a reconciler for a controller with that many workers. Slow reconciles in some namespaces leave half of the workers to all others: in a
// slow namespace, one object is reconciled at a time, and in all slow namespaces together, half as many as there are workers. Namespaces take turns, as do the
// objects of each. What gets no worker is tried again after 2 seconds.
func NewFairWorkers(next reconcile.Reconciler, workers int, now clock.PassiveClock) *FairWorkers {
	return &FairWorkers{
		next: next, workers: workers, clock: now, running: map[reconcile.Request]time.Time{}, slow: lru.New(10_000), waiting: map[reconcile.Request]turn{},
	}
}

// Reconcile implements reconcile.Reconciler.
func (f *FairWorkers) Reconcile(ctx context.Context, request reconcile.Request) (ctrl.Result, error) {
	if !f.begin(request) {
		return ctrl.Result{RequeueAfter: workerWait}, nil
	}
	defer f.end(ctx, request)
	return f.next.Reconcile(ctx, request)
}

// begin reports whether a reconcile may begin now.
func (f *FairWorkers) begin(request reconcile.Request) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	f.forgetTurns(now)
	if f.isSlow(request.Namespace, now) {
		busy := map[string]bool{}
		for other := range f.running {
			if f.isSlow(other.Namespace, now) {
				busy[other.Namespace] = true
			}
		}
		if !f.isNext(request, busy, now) || busy[request.Namespace] || len(busy) >= max(1, f.workers/2) {
			return false
		}
		known := f.known(request.Namespace)
		f.slow.Add(request.Namespace, slowNamespace{known.ended, now})
	}
	delete(f.waiting, request)
	f.running[request] = now
	return true
}

// isNext notes that an object waits, and reports whether it is its turn: in its namespace none has been waiting longer, and in no other slow namespace without a
// worker the last reconcile began earlier.
func (f *FairWorkers) isNext(request reconcile.Request, busy map[string]bool, now time.Time) bool {
	own, known := f.waiting[request]
	if !known {
		own.since = now
	}
	own.asked = now
	if known || len(f.waiting) < maxTurns {
		f.waiting[request] = own
	}
	began := f.known(request.Namespace).began
	for other, its := range f.waiting {
		if other.Namespace == request.Namespace {
			if its.since.Before(own.since) {
				return false
			}
		} else if !busy[other.Namespace] && f.known(other.Namespace).began.Before(began) {
			return false
		}
	}
	return true
}

// forgetTurns forgets objects that are not to be reconciled any more.
func (f *FairWorkers) forgetTurns(now time.Time) {
	if now.Before(f.forget) {
		return
	}
	f.forget = now.Add(2 * workerWait)
	for other, its := range f.waiting {
		until := its.asked.Add(2 * workerWait)
		if until.Before(now) {
			delete(f.waiting, other)
		} else if until.Before(f.forget) {
			f.forget = until
		}
	}
}

func (f *FairWorkers) end(ctx context.Context, request reconcile.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, began := f.clock.Now(), f.running[request]
	delete(f.running, request)
	if now.Sub(began) < slowReconcile {
		return
	}
	if known := f.known(request.Namespace); now.Sub(known.ended) > slowMemory {
		logr.FromContextOrDiscard(ctx).Info("A reconcile was slow: for a while, objects of the namespace are reconciled one at a time",
			"namespace", request.Namespace, "took", now.Sub(began).String())
	}
	f.slow.Add(request.Namespace, slowNamespace{now, began})
}

func (f *FairWorkers) known(namespace string) slowNamespace {
	value, _ := f.slow.Get(namespace)
	known, _ := value.(slowNamespace)
	return known
}

// isSlow reports whether a reconcile in a namespace is slow, or was it lately.
func (f *FairWorkers) isSlow(namespace string, now time.Time) bool {
	if known := f.known(namespace); now.Sub(known.ended) < slowMemory {
		return true
	}
	for other, began := range f.running {
		if other.Namespace == namespace && now.Sub(began) >= slowReconcile {
			return true
		}
	}
	for other := range f.waiting {
		if other.Namespace == namespace {
			return true
		}
	}
	return false
}
