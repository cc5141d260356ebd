package bellerophon

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	stablev444beta989 "github.com/scanner-operator/scanner-operator/api/stable/v444beta989"
	"github.com/scanner-operator/scanner-operator/internal/kube"
)

const workers = 4

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	// A resync is not a change.
	changed := builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})
	return ctrl.NewControllerManagedBy(mgr).
		Named("bellerophonsimple").
		For(&stablev444beta989.BellerophonSimple{}, builder.WithPredicates(kube.SpecChanged())).
		Watches(&appsv1.StatefulSet{}, handler.EnqueueRequestsFromMapFunc(sheroOf), changed).
		Watches(&corev1.Service{}, handler.EnqueueRequestsFromMapFunc(sheroOf), changed).
		Watches(&policyv1.PodDisruptionBudget{}, handler.EnqueueRequestsFromMapFunc(sheroOf), changed).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(sheroOfPod), changed).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, RateLimiter: kube.ErrorBackoff()}).
		Complete(kube.NewFairWorkers(r, workers, clock.RealClock{}))
}

// sheroOf returns the shero with the same name, and not the owner: an object that lost its owner reference, or whose shero was deleted and created
// again, matters as well.
func sheroOf(_ context.Context, obj client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(obj)}}
}

// sheroOfPod returns the shero that a pod is an instance of.
func sheroOfPod(_ context.Context, pod client.Object) []reconcile.Request {
	name, found := pod.GetLabels()[stablev444beta989.LabelShero]
	if !found {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: pod.GetNamespace(), Name: name}}}
}
