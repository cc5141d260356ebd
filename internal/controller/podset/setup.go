package podset

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
)

// workers is how many PodSets are reconciled at the same time.
const workers = 4

// SetupWithManager registers the controller and the index of pods that it reads. A change of a status alone reconciles no PodSet; every
// change of a pod reconciles the PodSet that it belongs to, or that may adopt it.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &corev1.Pod{}, indexPodSet, indexed); err != nil {
		return fmt.Errorf("index pods by PodSet: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("podset").
		For(&appv1alpha1.PodSet{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		// For an update it is asked about the pod before and after: a pod that was released reconciles the PodSet that lost it.
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.podSetOf), builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// podSetOf returns the PodSet that a pod belongs to, or that may adopt it. It reads the cache only: it is called for every event of every pod.
func (r *Reconciler) podSetOf(ctx context.Context, pod client.Object) []reconcile.Request {
	name, uid, owned := controllerOf(pod)
	if !owned {
		var may bool
		if name, may = adoptable(pod); !may {
			return nil
		}
	}
	key := types.NamespacedName{Namespace: pod.GetNamespace(), Name: name}
	var ps appv1alpha1.PodSet
	if err := r.Client.Get(ctx, key, &ps); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Cannot get the PodSet of a pod", "podset", key)
		return nil
	}
	if owned && ps.UID != uid {
		return nil
	}
	return []reconcile.Request{{NamespacedName: key}}
}
