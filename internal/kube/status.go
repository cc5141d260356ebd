package kube

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
)

// RetryConflict reconciles an object again after a conflict. The backoff doubles, from 5 milliseconds on: the cache may be minutes behind.
// Returning an error would have the same effect, but would log it.
var RetryConflict = ctrl.Result{Requeue: true} //nolint:staticcheck // RequeueAfter would need a fixed time.

// written has by UID the resource version that each status written last was based on. A cache that still has this version does not show what was written.
var written = lru.New(10_000)

// PatchStatus writes the status of after, unless after is equal to before, its deep copy as it was read. It fails with a conflict when the
// object has changed since it was read, also by the last call.
func PatchStatus(ctx context.Context, c client.StatusClient, before, after client.Object) error {
	uid, version := before.GetUID(), before.GetResourceVersion()
	if equality.Semantic.DeepEqual(before, after) {
		if IsBehind(before) {
			return apierrors.NewConflict(schema.GroupResource{}, before.GetName(), errBehind)
		}
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Status().Patch(ctx, after, patch); err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	if after.GetResourceVersion() != version {
		written.Add(uid, version)
	}
	return nil
}

var errBehind = errors.New("the cache does not show the status that was written last")

// IsBehind reports whether an object, as it was read from the cache, lacks the status that was written last. A status that is equal to that of such an
// object is still to be written.
func IsBehind(object client.Object) bool {
	based, found := written.Get(object.GetUID())
	return found && object.GetUID() != "" && based == object.GetResourceVersion()
}

// StatusWriter ends every reconcile of a controller that reconciles all objects at once: it writes the statuses that have changed, in the order of the
// caller, no more in a second than a bound. NewStatusWriter makes one.
type StatusWriter struct {
	client  client.StatusClient
	limiter *rate.Limiter
	clock   clock.PassiveClock
}

// NewStatusWriter returns a StatusWriter that writes at most perSecond statuses in a second.
func NewStatusWriter(c client.StatusClient, perSecond int, now clock.PassiveClock) StatusWriter {
	return StatusWriter{client: c, limiter: rate.NewLimiter(rate.Limit(perSecond), perSecond), clock: now}
}

// StatusChange is an object with a new status.
type StatusChange struct {
	// Before is a deep copy of the object as it was read, After the object with its new status.
	Before, After client.Object
	// From are the conditions of Before, To those of After. What changes in them is logged.
	From, To []metav1.Condition
}

// Write writes statuses, and returns how many changes, from the first on, it is done with: all of them, unless the bound permits no more or a write fails.
// complete is false when statuses are left for another time, also because the cache does not show the last change yet. Objects that were deleted in the
// meantime are skipped. No more is logged than is written, so that nobody who changes objects without end fills the log.
func (w StatusWriter) Write(ctx context.Context, changes []StatusChange) (done int, complete bool, err error) {
	complete = true
	for i, change := range changes {
		if equality.Semantic.DeepEqual(change.Before, change.After) {
			complete = complete && !IsBehind(change.Before)
			continue
		}
		if !w.limiter.AllowN(w.clock.Now(), 1) {
			return i, false, nil
		}
		switch err := PatchStatus(ctx, w.client, change.Before, change.After); {
		case apierrors.IsConflict(err):
			// The cache is behind.
			complete = false
		case client.IgnoreNotFound(err) != nil:
			return i, false, err
		case err == nil:
			LogConditions(ctx, change.After, change.From, change.To)
		}
	}
	return len(changes), complete, nil
}

// LogConditions logs at level info how the conditions Valid and Applied of an object have changed, if their status or reason has. Messages are left out: they
// can have texts of others, and change with numbers.
func LogConditions(ctx context.Context, object client.Object, from, to []metav1.Condition) {
	for _, kind := range []string{scannerv1alpha1.ConditionValid, scannerv1alpha1.ConditionApplied} {
		before, after := conditionText(from, kind), conditionText(to, kind)
		if before == after {
			continue
		}
		name := strings.TrimPrefix(client.ObjectKeyFromObject(object).String(), "/")
		logr.FromContextOrDiscard(ctx).Info("Condition changed", "object", name, "condition", kind, "from", before, "to", after)
	}
}

// conditionText is the status and the reason of a condition, "" if there is none of this type.
func conditionText(conditions []metav1.Condition, kind string) string {
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil {
		return ""
	}
	return string(c.Status) + "/" + c.Reason
}
