package kube

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// The delay before an object is reconciled again after errors: it doubles from the first to the maximum. An object must not wait long for a
// database or an API server that is back.
const (
	firstErrorBackoff = 5 * time.Millisecond
	maxErrorBackoff   = 30 * time.Second
)

// ErrorBackoff returns the rate limiter of the queue of a controller.
func ErrorBackoff() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstErrorBackoff, maxErrorBackoff)
}

// SpecChanged passes updates of objects whose spec has changed. Between two events of an interrupted watch, an object may have been deleted and
// created again, with the same generation.
func SpecChanged() predicate.Predicate {
	return predicate.Or(predicate.GenerationChangedPredicate{}, Replaced())
}

// Replaced passes updates that replace an object by another one of the same name.
func Replaced() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld != nil && e.ObjectNew != nil && e.ObjectOld.GetUID() != e.ObjectNew.GetUID()
	}}
}
