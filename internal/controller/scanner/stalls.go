package scanner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
)

const (
	// slowStart is the time from which a start counts as slow, because of an admission webhook that hangs for example. After one in a reconcile, no other one
	// gets more time, and after maxSlowStarts none is tried but in the namespace of the operator.
	slowStart     = 5 * time.Second
	maxSlowStarts = 4
	// slowRestFactor is how many times as long as slow starts take passes until the next one in namespaces that are known to be slow, in the long run: they
	// take a quarter of the time. slowBurst is how much of that is not waited for: one slow start, of at most the 20 seconds that a write gets, may be an
	// accident.
	slowRestFactor = 4
	slowBurst      = 90 * time.Second
	// maxHomeRest bounds that for the operator's own namespace. Nearly all scans run there, and no user of another namespace decides how long it takes.
	maxHomeRest = 5 * time.Second
	// firstStall and maxStall bound how long no scan is started in a namespace after the API server failed to create one there.
	firstStall = time.Second
	maxStall   = 30 * time.Second
	// stallMemory is how long a failure counts after the stall, slowMemory how long a start counts that was slow if none was quick since. All slow namespaces have
	// to get their turn within that time: until a namespace is known to be slow, others wait for its start.
	stallMemory = 10 * time.Minute
	slowMemory  = 24 * time.Hour
)

// The reasons why images wait after the API server took long.
const (
	waitsAPI  = "waiting until the API server responds in time"
	waitsSlow = "waiting for its turn among the namespaces in which the API server takes long to create scan Jobs, because of an admission webhook for example"
)

// stalls remembers the namespaces in which the API server failed to create scan Jobs, without a rejection or slowly: an admission webhook or the evaluation
// of a quota may fail there alone. Scans in other namespaces continue. It is kept in memory. The zero value is ready.
type stalls struct {
	mu         sync.Mutex
	namespaces map[string]stall
	rested     rests
}

// rests is when a scan may be started again where starts were slow: in the namespace of the operator, and in one of all others. Those of others do not make it
// wait.
type rests struct{ home, others time.Time }

// after notes that a start in a namespace was slow.
func (r *rests) after(home bool, took time.Duration, now time.Time) {
	rested, most := &r.others, slowRestFactor*took
	if home {
		rested, most = &r.home, min(most, maxHomeRest)
	}
	if earliest := now.Add(-slowBurst); rested.Before(earliest) {
		*rested = earliest
	}
	if *rested = rested.Add(slowRestFactor * took); rested.After(now.Add(most)) {
		*rested = now.Add(most)
	}
}

// stall is how often the API server failed in a row in a namespace, until when no scan is started there, and why.
type stall struct {
	failures int
	until    time.Time
	message  string
	// slow: a start took long, and none was quick since. accident: only one did, which failed.
	slow, accident bool
}

// note notes a failure after some time, and returns what follows from it. home is the namespace of the operator.
func (s *stalls) note(err *NamespaceError, home string, took time.Duration, now time.Time) stall {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(err.Namespace == home, took, now)
	before := s.namespaces[err.Namespace]
	if now.Sub(before.until) > stallMemory {
		before.failures = 0
	}
	one := stall{
		failures: before.failures + 1,
		until:    now.Add(min(firstStall<<min(before.failures, 10), maxStall)),
		message:  fmt.Sprintf("the scan Job could not be created: %v", err),
		slow:     before.slow || took >= slowStart,
		accident: !before.slow && took >= slowStart,
	}
	s.namespaces[err.Namespace] = one
	return one
}

// clear notes that a scan was started in a namespace, and how long that took.
func (s *stalls) clear(namespace, home string, took time.Duration, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(namespace == home, took, now)
	delete(s.namespaces, namespace)
	if took >= slowStart {
		s.namespaces[namespace] = stall{until: now, slow: true}
	}
}

// expire forgets what was long ago, and has slow namespaces wait after a start that was slow.
func (s *stalls) expire(home bool, took time.Duration, now time.Time) {
	if took >= slowStart {
		s.rested.after(home, took, now)
	}
	if s.namespaces == nil {
		s.namespaces = map[string]stall{}
	}
	for namespace, one := range s.namespaces {
		if age := now.Sub(one.until); age > slowMemory || age > stallMemory && !one.slow {
			delete(s.namespaces, namespace)
		}
	}
}

// current returns the namespaces in which no scan is to be started now, those in which starts were slow not long ago, and when one may be tried there.
func (s *stalls) current(now time.Time) (current, slow map[string]stall, rested rests) {
	s.mu.Lock()
	defer s.mu.Unlock()
	current, slow = map[string]stall{}, map[string]stall{}
	for namespace, one := range s.namespaces {
		if one.until.After(now) {
			current[namespace] = one
		}
		if one.slow && now.Sub(one.until) <= slowMemory {
			slow[namespace] = one
		}
	}
	return current, slow, s.rested
}

// stalled says why no scan is started in a namespace now, if that is so.
func (v *observed) stalled(namespace string) (wait, bool) {
	one, stalled := v.stalls[namespace]
	return wait{why: v.detail(namespace, model.Outcome{Message: one.message}), until: one.until}, stalled
}

// waitsFor reports whether no scan is started in a namespace now, or only one after those of all other namespaces.
func (v *observed) waitsFor(namespace string) bool {
	_, stalled := v.stalls[namespace]
	_, slow := v.slow[namespace]
	return stalled || slow
}

// stall keeps scans from being started in a namespace for some time, if an error concerns it, and returns why they wait. took is the time until the error.
func (r *Reconciler) stall(ctx context.Context, v *observed, err error, took time.Duration) (wait, bool) {
	failed, ok := errors.AsType[*NamespaceError](err)
	if !ok || ctx.Err() != nil {
		return wait{}, false
	}
	v.stalls[failed.Namespace] = r.stalls.note(failed, r.Home.Namespace, took, r.Clock.Now())
	logr.FromContextOrDiscard(ctx).Error(err, "Failed to start a scan Job; scans in other namespaces continue", "namespace", failed.Namespace)
	return v.stalled(failed.Namespace)
}

// startSlow starts one scan in the namespace of the operator, if starts there were slow not long ago, and one in another such namespace, if any waits: the API
// server may take as long again, so that they are the last of the plan.
func (p *plan) startSlow(scanner *scannerv1.Scanner, v *observed, free *limited, now time.Time) {
	var home, others []model.ImageKey
	for _, key := range v.wanted() {
		switch {
		case p.waits[key].why != waitsSlow:
		case v.atHome(key):
			home = append(home, key)
		default:
			others = append(others, key)
		}
	}
	p.startOneOf(home, v.rested.home, scanner, v, free, now)
	p.startOneOf(others, v.rested.others, scanner, v, free, now)
}

// startOneOf starts a scan of one of the images, in the namespace that was tried longest ago, unless that is to be later.
func (p *plan) startOneOf(keys []model.ImageKey, rested time.Time, scanner *scannerv1.Scanner, v *observed, free *limited, now time.Time) {
	if len(keys) == 0 {
		return
	}
	if rested.After(now) {
		p.next = min(p.next, max(firstStall, rested.Sub(now)))
		return
	}
	p.next = min(p.next, watchInterval)
	tried := map[model.ImageKey]time.Time{}
	for _, key := range keys {
		namespaces, _ := v.places(key)
		for _, namespace := range namespaces {
			one, slow := v.slow[v.jobNamespace(key, namespace)]
			if before, found := tried[key]; slow && (!found || one.until.Before(before)) {
				tried[key] = one.until
			}
		}
	}
	slices.SortStableFunc(keys, func(a, b model.ImageKey) int { return tried[a].Compare(tried[b]) })
	for _, key := range keys {
		namespace, volume, w := choose(scanner, v, key, free, true)
		if w.why == "" {
			p.queued--
			delete(p.waits, key)
			p.running++
			p.start = append(p.start, request(scanner, v, key, namespace, volume))
			return
		}
	}
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
