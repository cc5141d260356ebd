// Package rollout evaluates rollouts: which findings a change of images opened and closed. It reports the result in Kubernetes Events, and records images
// that began to run in a namespace without a rollout.
package rollout

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanner-operator/scanner-operator/internal/feed"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

const (
	// interval is the time between two evaluations when no event requests one.
	interval = time.Minute
	// firstRetry is the time until an evaluation that failed is repeated. It doubles up to maxRetry.
	firstRetry = time.Second
	maxRetry   = 30 * time.Second
	// scanTimeout is the maximum time that a rollout waits for the scans of its images.
	scanTimeout = 72 * time.Hour
	// reportTimeout is the maximum time that the evaluator tries to create the Events of a rollout: Kubernetes keeps Events no longer.
	reportTimeout = time.Hour
	// maxReport is the maximum time that one rollout takes to be reported, and the time from which nothing else is reported in its namespace for a while: for
	// as long if nothing took as long in the last slowMemory, since one request that is not answered may be an accident, and for restFactor times as long
	// otherwise. An admission webhook that hangs, for example, must not delay what concerns other namespaces.
	maxReport  = 5 * time.Second
	restFactor = 10
	slowMemory = time.Hour
	// maxReporting is the time from which an evaluation leaves the other rollouts to the next one, which evaluates what is new before it reports.
	maxReporting = 30 * time.Second
)

// Store is the part of the store that the evaluator needs.
type Store interface {
	EvaluateRollouts(ctx context.Context, timedOut time.Time, limit int) (int, error)
	ReportIntroductions(ctx context.Context, timedOut time.Time, limit int) (int, error)
	UnreportedRollouts(ctx context.Context, after int64, limit int) ([]store.RolloutDetail, error)
	MarkRolloutReported(ctx context.Context, id int64) error
}

// Evaluator compares the findings of both images of a rollout as soon as both are scanned, and reports the result in Kubernetes Events on the
// workload. It is a runnable of a controller-runtime manager and runs on the leader only.
type Evaluator struct {
	Store Store
	// Hub delivers the events that start an evaluation.
	Hub *feed.Hub
	// Live reads workloads from the API server; Client creates Events.
	Live   client.Reader
	Client client.Client
	// Instance is the reporting instance of Events.
	Instance string
	Clock    clock.WithTicker
	Log      logr.Logger

	// after is the ID of the last rollout that was tried to be reported; 0 starts with the first one.
	after int64
	// rested is when rollouts are reported again in namespaces in which that took long.
	rested map[string]time.Time
}

// reporting is what one evaluation has reported so far.
type reporting struct {
	// total is how long the API server took, spent how long in each namespace.
	total time.Duration
	spent map[string]time.Duration
	// logged are the namespaces of which a failure is in the log.
	logged map[string]bool
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: the evaluator runs on the leader only.
func (e *Evaluator) NeedLeaderElection() bool { return true }

// Start evaluates rollouts until the context is done. What fails is retried at the next evaluation, at the latest after maxRetry.
func (e *Evaluator) Start(ctx context.Context) error {
	ticker := e.Clock.NewTicker(interval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		subscription := e.Hub.Subscribe(ctx, feed.Filter{Kinds: []store.EventKind{store.EventImageMatched, store.EventRolloutChanged}})
		e.follow(ctx, subscription, ticker.C())
		subscription.Close()
		if errors.Is(subscription.Err(), feed.ErrStopped) {
			return nil
		}
	}
	return nil
}

// follow evaluates once, and again after every event, every tick and some time after a failure, until the subscription ends.
func (e *Evaluator) follow(ctx context.Context, subscription *feed.Subscription, tick <-chan time.Time) {
	delay := firstRetry
	for {
		var retry <-chan time.Time
		if e.evaluate(ctx) {
			delay = firstRetry
		} else {
			retry = e.Clock.After(delay)
			delay = min(2*delay, maxRetry)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick:
		case <-retry:
		case _, open := <-subscription.C():
			if !open {
				return
			}
			drain(subscription)
		}
	}
}

// drain discards the events that have already arrived: one evaluation covers all of them.
func drain(subscription *feed.Subscription) {
	for {
		select {
		case _, open := <-subscription.C():
			if !open {
				return
			}
		default:
			return
		}
	}
}

// evaluate evaluates the rollouts whose images are scanned, records images that began to run in namespaces otherwise, and reports the rollouts that are not
// reported yet. It returns false if something failed.
func (e *Evaluator) evaluate(ctx context.Context) bool {
	complete := true
	for taken := store.MaxEvaluated; taken == store.MaxEvaluated; {
		var err error
		if taken, err = e.Store.EvaluateRollouts(ctx, e.Clock.Now().Add(-scanTimeout), store.MaxEvaluated); err != nil {
			e.logError(ctx, err, "Failed to evaluate rollouts; will retry")
			complete = false
			break
		}
	}
	for taken := store.MaxIntroduced; taken == store.MaxIntroduced; {
		var err error
		if taken, err = e.Store.ReportIntroductions(ctx, e.Clock.Now().Add(-scanTimeout), store.MaxIntroduced); err != nil {
			e.logError(ctx, err, "Failed to report images that began to run in namespaces; will retry")
			complete = false
			break
		}
	}
	now := e.Clock.Now()
	maps.DeleteFunc(e.rested, func(_ string, rested time.Time) bool { return now.Sub(rested) >= slowMemory })
	done := &reporting{spent: map[string]time.Duration{}, logged: map[string]bool{}}
	for more := true; more; {
		var failed bool
		more, failed = e.reportPage(ctx, done)
		complete = complete && !failed
	}
	return complete
}

// reportPage reports a page of rollouts, and returns whether to continue with the next one and whether something failed or has to wait. A rollout that cannot be
// reported does not block others: those after it come first, then the first ones again. When no rollout of a page can be reported, the next page waits for the
// next evaluation, to limit the load on the API server.
func (e *Evaluator) reportPage(ctx context.Context, done *reporting) (more, failed bool) {
	pending, err := e.Store.UnreportedRollouts(ctx, e.after, store.MaxEvaluated)
	if err != nil {
		e.logError(ctx, err, "Failed to list the rollouts to report; will retry")
		return false, true
	}
	for i := range pending {
		if done.total >= maxReporting {
			return false, true
		}
		r := &pending[i]
		e.after = r.ID
		namespace, expired := r.Workload.Namespace, e.Clock.Since(r.Evaluation.At) > reportTimeout
		rests := e.Clock.Now().Before(e.rested[namespace])
		if rests && !expired {
			more, failed = true, true // It costs nothing.
			continue
		}
		var err error
		if !rests {
			err = e.reportInTime(ctx, r, done)
		}
		if err == nil || expired {
			err = errors.Join(err, e.Store.MarkRolloutReported(ctx, r.ID))
		}
		if err == nil {
			more = true
			continue
		}
		failed = true
		if !done.logged[namespace] {
			done.logged[namespace] = true
			e.logError(ctx, err, "Failed to report a rollout; will retry", "namespace", namespace, "kind", r.Workload.Kind, "name", r.Workload.Name)
		}
	}
	if len(pending) < store.MaxEvaluated {
		e.after = 0
		return false, failed
	}
	return more, failed
}

// reportInTime reports a rollout within maxReport. It has a namespace rest in which that takes long, whether it succeeds or not.
func (e *Evaluator) reportInTime(ctx context.Context, r *store.RolloutDetail, done *reporting) error {
	namespace, began := r.Workload.Namespace, e.Clock.Now()
	limited, cancel := context.WithTimeout(ctx, maxReport)
	defer cancel()
	err := e.report(limited, r)
	now := e.Clock.Now()
	done.total += now.Sub(began)
	done.spent[namespace] += now.Sub(began)
	if spent := done.spent[namespace]; spent >= maxReport {
		if e.rested == nil {
			e.rested = map[string]time.Time{}
		}
		if _, slow := e.rested[namespace]; slow {
			spent *= restFactor
		}
		e.rested[namespace] = now.Add(spent)
	}
	return err
}

// logError logs an error, unless the context is done.
func (e *Evaluator) logError(ctx context.Context, err error, message string, keysAndValues ...any) {
	if ctx.Err() == nil {
		e.Log.Error(err, message, keysAndValues...)
	}
}
