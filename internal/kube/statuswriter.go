package kube

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// leftAfter is when statuses are written that were left for another time.
	leftAfter = time.Second
	// minLateWait and maxLateWait are the shortest and the longest time from a failed write of a status to the next try. Those that are due in between are tried
	// together: each round is a reconcile of all objects.
	minLateWait = 5 * time.Second
	maxLateWait = 30 * time.Second
	// slowWrite is the time from which a write counts as slow, because of an admission webhook that hangs for example. After one, no late status is written for
	// lateRestFactor times as long, in the long run: one write that is not answered is an accident.
	slowWrite      = time.Second
	lateRestFactor = 4
	accident       = lateRestFactor * writeTimeout
	// maxLate is the maximum number of late statuses that are written together.
	maxLate = 20
	// turnMemory is how long an object that is late keeps its turn: longer than any wait.
	turnMemory = accident + maxLateWait
	// lateMemory is how long a status is late that was not to be written since.
	lateMemory = 10 * time.Minute
)

// StatusWriter ends every reconcile of a controller that reconciles all objects at once: it writes the statuses that have changed, no more in a second than a
// bound. A status that cannot be written, because admission rejects it for example, or that takes long, is late: it is written after all others from then on, less
// and less often. One goroutine uses it. NewStatusWriter makes one.
type StatusWriter struct {
	client  client.StatusClient
	limiter *rate.Limiter
	clock   clock.PassiveClock
	log     *ConditionLog

	// resumeAt is the object at which the last round stopped.
	resumeAt types.UID
	// late are the objects whose status could not be written last, or took long.
	late map[types.UID]late
	// rested is when no rest is left. A late status may be written again when no more than one accident is.
	rested time.Time
}

// late is when the status of an object is written again, how long it waits for that, when it was last to be written, and whether there is nothing to write now.
type late struct {
	again   time.Time
	wait    time.Duration
	wanted  time.Time
	settled bool
}

// NewStatusWriter returns a StatusWriter that writes at most perSecond statuses in a second.
func NewStatusWriter(c client.StatusClient, perSecond int, now clock.PassiveClock) *StatusWriter {
	return &StatusWriter{
		client: c, limiter: rate.NewLimiter(rate.Limit(perSecond), perSecond), clock: now, log: NewConditionLog(now), late: map[types.UID]late{},
	}
}

// StatusChange is an object with a new status.
type StatusChange struct {
	// Before is a deep copy of the object as it was read, After the object with its new status.
	Before, After client.Object
	// From are the conditions of Before, To those of After. What changes in them is logged.
	From, To []metav1.Condition
	// Minor: only numbers have changed. It is written after all others, so that the numbers of many objects do not keep the conditions of others from being written.
	Minor bool
}

// Write writes statuses, and returns when to write what is left, 0 if nothing is: the bound may permit no more now, the cache may not show the last change yet, or
// a write may have failed. Objects that were deleted in the meantime are skipped. Each round begins with the object at which the last one stopped. What fails is
// logged.
func (w *StatusWriter) Write(ctx context.Context, changes []StatusChange) time.Duration {
	return w.round(ctx, changes).next
}

// writeOne ends the reconcile of one object, of a controller with one worker. It reports whether the object exists with its new status, and when to reconcile it
// again if not. Like PatchStatus, it fails with a conflict when the object has changed since it was read; all else that fails is logged.
func (w *StatusWriter) writeOne(ctx context.Context, change StatusChange) (written bool, again time.Duration, err error) {
	if !equality.Semantic.DeepEqual(change.Before, change.After) && !w.isTurn(change.Before.GetUID()) {
		return false, minLateWait, nil
	}
	r := w.round(ctx, []StatusChange{change})
	return r.settled == 1, r.next, r.conflict
}

// isTurn reports whether no other object is late that was to be written earlier. One that is not reconciled again does not keep others from being written for long.
func (w *StatusWriter) isTurn(uid types.UID) bool {
	own, isLate := w.late[uid]
	if !isLate || own.again.After(w.clock.Now()) {
		return true
	}
	own.wanted, own.settled = w.clock.Now(), false
	w.late[uid] = own
	for other, one := range w.late {
		if other != uid && !one.settled && one.again.Before(own.again) && w.clock.Since(one.wanted) <= turnMemory {
			return false
		}
	}
	return true
}

func (w *StatusWriter) round(ctx context.Context, changes []StatusChange) (r round) {
	maps.DeleteFunc(w.late, func(_ types.UID, one late) bool { return w.clock.Since(one.wanted) > lateMemory })
	inTime, waiting := w.order(changes, &r)
	if len(waiting) > 0 && w.clock.Since(w.again(waiting[0])) > maxLateWait {
		// Others may change all the time.
		w.writeLate(ctx, waiting[:1], &r)
		waiting = waiting[1:]
	}
	for i, change := range inTime {
		if !w.limiter.AllowN(w.clock.Now(), 1) {
			w.resumeAt = change.Before.GetUID()
			r.after(leftAfter)
			return r
		}
		if !w.write(ctx, change, &r) {
			// Others may take as long. The next round begins behind this one.
			w.resumeAt = inTime[(i+1)%len(inTime)].Before.GetUID()
			r.after(leftAfter)
			return r
		}
	}
	w.writeLate(ctx, waiting, &r)
	return r
}

// round is one call of Write: when the next one comes, how many objects have their new status, and the last conflict.
type round struct {
	next     time.Duration
	settled  int
	conflict error
}

// after has the next round come after some time at the latest.
func (r *round) after(wait time.Duration) {
	if r.next == 0 || wait < r.next {
		r.next = wait
	}
}

// order returns the statuses that are to be written, in order: those that are in time, and those that are late, the longest first.
func (w *StatusWriter) order(changes []StatusChange, r *round) (inTime, waiting []StatusChange) {
	start := max(0, slices.IndexFunc(changes, func(c StatusChange) bool { return c.Before.GetUID() == w.resumeAt }))
	var minor []StatusChange
	for i := range changes {
		change := changes[(start+i)%len(changes)]
		if equality.Semantic.DeepEqual(change.Before, change.After) {
			if IsBehind(change.Before) {
				r.conflict = behind(change.Before)
				r.after(leftAfter)
			} else {
				r.settled++
				if one, isLate := w.late[change.Before.GetUID()]; isLate {
					one.settled = true
					w.late[change.Before.GetUID()] = one
				}
			}
			continue
		}
		switch one, isLate := w.late[change.Before.GetUID()]; {
		case isLate:
			one.wanted, one.settled = w.clock.Now(), false
			w.late[change.Before.GetUID()] = one
			waiting = append(waiting, change)
		case change.Minor:
			minor = append(minor, change)
		default:
			inTime = append(inTime, change)
		}
	}
	slices.SortStableFunc(waiting, func(a, b StatusChange) int {
		return w.late[a.Before.GetUID()].again.Compare(w.late[b.Before.GetUID()].again)
	})
	return slices.Concat(inTime, minor), waiting
}

// writeLate writes late statuses: few at a time, and after one that was slow, none for a multiple of the time.
func (w *StatusWriter) writeLate(ctx context.Context, waiting []StatusChange, r *round) {
	for i, change := range waiting {
		now := w.clock.Now()
		switch again := w.again(change); {
		case again.After(now):
			r.after(max(again.Sub(now), minLateWait))
		case i >= maxLate || !w.limiter.AllowN(now, 1):
			r.after(minLateWait)
			return
		default:
			w.write(ctx, change, r)
		}
	}
}

// again returns when a late status may be written.
func (w *StatusWriter) again(change StatusChange) time.Time {
	again := w.late[change.Before.GetUID()].again
	if rested := w.rested.Add(-accident); rested.After(again) {
		return rested
	}
	return again
}

// write writes a status, and reports whether the next one can follow: the API server answers soon.
func (w *StatusWriter) write(ctx context.Context, change StatusChange, r *round) (goesOn bool) {
	uid, began := change.Before.GetUID(), w.clock.Now()
	err := PatchStatus(ctx, w.client, change.Before, change.After)
	now := w.clock.Now()
	quick := now.Sub(began) < slowWrite
	if !quick {
		left := min(max(w.rested.Sub(now), 0), accident)
		w.rested = now.Add(left + lateRestFactor*now.Sub(began))
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return false // The operator ends.
	case apierrors.IsConflict(err):
		r.conflict = err // The cache is behind.
		r.after(leftAfter)
	case client.IgnoreNotFound(err) != nil:
		one := late{wait: min(max(2*w.late[uid].wait, minLateWait), maxLateWait), wanted: now}
		one.again = now.Add(one.wait)
		w.late[uid] = one
		r.after(one.wait)
		if values, allowed := w.log.allows(change.After); allowed {
			logr.FromContextOrDiscard(ctx).Error(err, "Failed to write a status; those of other objects are written", append(values, "again", one.wait.String())...)
		}
		return quick && isOfObject(err)
	case err == nil:
		r.settled++
		w.log.Changed(ctx, change.After, change.From, change.To)
	}
	if delete(w.late, uid); !quick {
		w.late[uid] = late{again: now, wanted: now}
	}
	return quick
}

// isOfObject reports whether an error is about one object: the API server answers, and may take the statuses of others.
func isOfObject(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && !apierrors.IsTooManyRequests(err) && !apierrors.IsServiceUnavailable(err) && !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err) &&
		!apierrors.IsUnauthorized(err)
}
