package scanner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
)

const (
	// slowStart is how long a start that fails may take until no other one is tried in a reconcile: each could take as long, such as the timeout of an
	// admission webhook.
	slowStart = 5 * time.Second
	// firstStall and maxStall bound how long no scan is started in a namespace after the API server failed to create one there.
	firstStall = time.Second
	maxStall   = time.Minute
	// stallMemory is how long a failure counts after the stall.
	stallMemory = 10 * time.Minute
)

// waitsAPI is why images wait after the API server took long to fail.
const waitsAPI = "waiting until the API server responds in time"

// stalls remembers the namespaces in which the API server failed to create scan Jobs, without a rejection: an admission webhook or the evaluation of a
// quota may fail there alone. Scans in other namespaces continue. It is kept in memory. The zero value is ready.
type stalls struct {
	mu         sync.Mutex
	namespaces map[string]stall
}

// stall is how often the API server failed in a row in a namespace, until when no scan is started there, and why.
type stall struct {
	failures int
	until    time.Time
	message  string
}

// note notes a failure, and returns what follows from it.
func (s *stalls) note(err *NamespaceError, now time.Time) stall {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.namespaces == nil {
		s.namespaces = map[string]stall{}
	}
	for namespace, one := range s.namespaces {
		if now.Sub(one.until) > stallMemory {
			delete(s.namespaces, namespace)
		}
	}
	failures := s.namespaces[err.Namespace].failures
	one := stall{failures + 1, now.Add(min(firstStall<<min(failures, 10), maxStall)), fmt.Sprintf("the scan Job could not be created: %v", err)}
	s.namespaces[err.Namespace] = one
	return one
}

// clear forgets the failures in a namespace.
func (s *stalls) clear(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.namespaces, namespace)
}

// current returns the namespaces in which no scan is to be started now.
func (s *stalls) current(now time.Time) map[string]stall {
	s.mu.Lock()
	defer s.mu.Unlock()
	current := map[string]stall{}
	for namespace, one := range s.namespaces {
		if one.until.After(now) {
			current[namespace] = one
		}
	}
	return current
}

// stalled says why no scan is started in a namespace now, if that is so.
func (v *observed) stalled(namespace string) (wait, bool) {
	one, stalled := v.stalls[namespace]
	return wait{why: v.detail(namespace, model.Outcome{Message: one.message}), until: one.until}, stalled
}

// stall keeps scans from being started in a namespace for some time, if an error concerns it, and returns why they wait.
func (r *Reconciler) stall(ctx context.Context, v *observed, err error) (wait, bool) {
	failed, ok := errors.AsType[*NamespaceError](err)
	if !ok || ctx.Err() != nil {
		return wait{}, false
	}
	v.stalls[failed.Namespace] = r.stalls.note(failed, r.Clock.Now())
	logr.FromContextOrDiscard(ctx).Error(err, "Failed to start a scan Job; scans in other namespaces continue", "namespace", failed.Namespace)
	return v.stalled(failed.Namespace)
}

// postpone keeps a scan from being started with this plan.
func (p *plan) postpone(start *scanjob.Request, w wait, now time.Time) {
	p.take(start.Key, -1)
	p.next = min(p.next, max(firstStall, w.until.Sub(now)))
	if start.Key != p.again {
		p.queued++
		p.waits[start.Key] = w
	}
}
