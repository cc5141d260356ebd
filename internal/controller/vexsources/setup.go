package vexsources

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/kube"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// orphans is the request to look for sources that the store has documents of and that do not exist: they may have been deleted while no replica ran.
var orphans = reconcile.Request{}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("vexsources").
		For(&scannerv1alpha1.VEXSource{}, builder.WithPredicates(kube.SpecChanged())).
		WatchesRawSource(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			queue.Add(orphans)
			return nil
		})).
		WithOptions(controller.Options{RateLimiter: kube.ErrorBackoff(), MaxConcurrentReconciles: concurrency}).
		Complete(r)
}

// forgetOrphans forgets the sources that do not exist, applies what users have uploaded, and ends the decisions of documents that are over.
func (r *Reconciler) forgetOrphans(ctx context.Context) (ctrl.Result, error) {
	// The controller of exceptions does so, too, but it may be disabled. What expires does not wait for documents that cannot be applied.
	if _, err := r.store.ExpireDecisions(ctx); err != nil {
		return ctrl.Result{}, fmt.Errorf("end the decisions of VEX documents that have expired: %w", err)
	}
	sources, _, err := r.store.VEX(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	for _, s := range sources {
		if s.Kind != store.VEXKindSource {
			continue
		}
		name := types.NamespacedName{Name: s.Name}
		switch err := r.client.Get(ctx, name, &scannerv1alpha1.VEXSource{}); {
		case err == nil:
		case !apierrors.IsNotFound(err):
			return ctrl.Result{}, fmt.Errorf("get the VEXSource: %w", err)
		default:
			if err := r.forget(ctx, name); err != nil {
				return ctrl.Result{}, err
			}
		}
	}
	// Too many statements are in the status of each source.
	if err := r.applier.Sync(ctx); err != nil {
		return ctrl.Result{}, fmt.Errorf("apply the VEX documents: %w", err)
	}
	// Those of new documents.
	next, err := r.store.ExpireDecisions(ctx)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("end the decisions of VEX documents that have expired: %w", err)
	}
	wait := syncEvery
	if left := next.Sub(r.clock.Now()); !next.IsZero() && left < wait {
		wait = max(soonest, left)
	}
	return ctrl.Result{RequeueAfter: wait}, nil
}
