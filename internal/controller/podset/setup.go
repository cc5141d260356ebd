package podset

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/kube"
)

// workers is the maximum number of PodSets that are reconciled in parallel.
const workers = 4

// SetupWithManager registers the controller, and the index of pods. Every change of the spec of a PodSet reconciles it, as does every change of a
// pod that belongs to it or that it may adopt.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &corev1.Pod{}, indexPodSet, indexed); err != nil {
		return fmt.Errorf("index pods by PodSet: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("podset").
		For(&appv1alpha1.PodSet{}, builder.WithPredicates(kube.SpecChanged())).
		// An update maps both the old and the new pod: the release of a pod reconciles its previous PodSet.
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.podSetOf), builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, RateLimiter: kube.ErrorBackoff()}).
		Complete(kube.NewFairWorkers(r, workers, clock.RealClock{}))
}

// podSetOf returns the PodSet that a pod belongs to, or that may adopt it, and remembers the replacement number of the pod. It reads from the cache
// only, since it is called for every event of every pod.
func (r *Reconciler) podSetOf(ctx context.Context, pod client.Object) []reconcile.Request {
	name, uid, owned := controllerOf(pod)
	if !owned {
		var found bool
		if name, found = adoptable(pod); !found {
			return nil
		}
	}
	key := types.NamespacedName{Namespace: pod.GetNamespace(), Name: name}
	var ps appv1alpha1.PodSet
	if err := r.Client.Get(ctx, key, &ps); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Failed to get the PodSet of a pod", "podset", key)
		return nil
	}
	if owned && ps.UID != uid {
		return nil
	}
	if pod, is := pod.(*corev1.Pod); is && owned {
		r.observe(&ps, pod)
	}
	return []reconcile.Request{{NamespacedName: key}}
}
