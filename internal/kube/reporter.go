package kube

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ObjectMetrics shows the gauges of objects.
type ObjectMetrics interface {
	// Show replaces the values of an object.
	Show(kind Kind, object client.Object)
	// Delete removes the values of an object.
	Delete(kind Kind, object types.NamespacedName)
}

// SeenAgain is the maximum time until an object is reconciled again whose changes are recorded: the event log forgets objects that were not seen for its
// retention, at least two days.
const SeenAgain = 25 * time.Hour

// Reporter ends every reconcile of a controller in the same way: it writes the status, records it in the event log, shows it in the metrics,
// and decides when to reconcile again.
type Reporter struct {
	Kind   Kind
	Client client.StatusClient
	// Statuses writes the statuses of a controller with one worker, so that one that cannot be written, or takes long, delays no other object. It may be nil.
	Statuses *StatusWriter
	// Changes is the event log, nil for a kind without events.
	Changes ChangeRecorder
	// Metrics may be nil.
	Metrics ObjectMetrics
}

// Outcome is what a reconcile resulted in.
type Outcome struct {
	// Before is a deep copy of the object as it was read, After the object with its new status.
	Before, After client.Object
	// Status is the status of After.
	Status any
	// Err is the error of the reconcile, if any.
	Err error
	// RequeueAfter is when to reconcile again, 0 when only a change requires it. An object whose changes are recorded is reconciled again after
	// SeenAgain at the latest.
	RequeueAfter time.Duration
	// Written is called when the status is written, or needs no write. It may be nil.
	Written func()
}

// Report ends the reconcile of an object that exists. When the object was deleted in the meantime, the status is not written: the deletion
// reconciles the object again. Conflicts reconcile the object again after a backoff and are not logged: most often the cache does not show the
// last change yet. Other errors are returned, which logs them and retries after a backoff; those of Statuses are logged, and retried as it does.
func (r Reporter) Report(ctx context.Context, o Outcome) (ctrl.Result, error) {
	err := o.Err
	written, again, patchErr := r.write(ctx, o)
	switch {
	case written:
		if r.Metrics != nil {
			r.Metrics.Show(r.Kind, o.After)
		}
		if r.Changes != nil && r.Kind.Event != "" {
			err = errors.Join(err, RecordStatus(ctx, r.Changes, r.Kind.Event, client.ObjectKeyFromObject(o.After), o.Status))
		}
		if o.Written != nil {
			o.Written()
		}
	case patchErr != nil:
		err = errors.Join(err, patchErr)
	}
	if IsConflict(err) {
		return RetryConflict, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	if again > 0 && (o.RequeueAfter == 0 || again < o.RequeueAfter) {
		o.RequeueAfter = again
	}
	if r.Changes != nil && r.Kind.Event != "" && (o.RequeueAfter == 0 || o.RequeueAfter > SeenAgain) {
		o.RequeueAfter = SeenAgain
	}
	return ctrl.Result{RequeueAfter: o.RequeueAfter}, nil
}

// write writes the status, and reports whether the object exists with it. If not, it returns when to reconcile it again, or an error.
func (r Reporter) write(ctx context.Context, o Outcome) (written bool, again time.Duration, err error) {
	if r.Statuses != nil {
		return r.Statuses.writeOne(ctx, StatusChange{Before: o.Before, After: o.After})
	}
	err = PatchStatus(ctx, r.Client, o.Before, o.After)
	return err == nil, 0, client.IgnoreNotFound(err)
}

// ReportDeletion ends the reconcile of an object that does not exist.
func (r Reporter) ReportDeletion(ctx context.Context, object types.NamespacedName) (ctrl.Result, error) {
	if r.Metrics != nil {
		r.Metrics.Delete(r.Kind, object)
	}
	if r.Changes == nil || r.Kind.Event == "" {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, RecordDeletion(ctx, r.Changes, r.Kind.Event, object)
}

// IsConflict returns whether an error consists of conflicts only: writes to objects that have changed since they were read.
func IsConflict(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // Every joined error is checked.
		for _, each := range joined.Unwrap() {
			if !IsConflict(each) {
				return false
			}
		}
		return true
	}
	return apierrors.IsConflict(err)
}
